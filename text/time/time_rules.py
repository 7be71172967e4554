"""The English forms of a time, each with its range.

A form without a year (`May 7th`, `in May`, `on Friday`) means the latest fitting date that has begun: a memory is
about the past. `last` excludes the current unit, `this` is the current one. Weeks begin on Monday. `5/7/2023` is read
month first unless only day first is a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from recall_loop.text.time import dates
from recall_loop.text.time.dates import DAY, WEEK, DateSpan

# A month at the start of a line or a cell, and behind it the end of the cell or an amount.
_CELL_START = r"(?:(?<![^\n|\t;])|(?<=[|;]\s)|(?<=[|;]\s\s))"
_CELL_END = r"(?= ?(?:[|\t;]|:? ?[\u20ac$\u00a3]?\d+[.,]\d\d(?!\d)))"
Rule = Callable[[re.Match[str], datetime], DateSpan]
Rules = tuple[tuple[re.Pattern[str], Rule], ...]

_MONTH_NAMES = "january february march april may june july august september october november december"
_MONTH_ABBREVIATIONS = "jan feb mar apr may jun jul aug sep oct nov dec"
_WEEKDAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday"
_NUMBER_NAMES = "one two three four five six seven eight nine ten eleven twelve"
_UNIT_WORDS = "day night week month year hour minute tomorrow morning afternoon evening 0s"
_MONTHS = {
    name: at for names in (_MONTH_NAMES, _MONTH_ABBREVIATIONS) for at, name in enumerate(names.split(), start=1)
} | {"sept": 9}
_WEEKDAYS = {name: at for at, name in enumerate(_WEEKDAY_NAMES.split())}
_NUMBERS = {name: at for at, name in enumerate(_NUMBER_NAMES.split(), start=1)}
_NUMBERS |= {"a": 1, "an": 1, "a couple of": 2, "couple of": 2, "a couple": 2}
_VAGUE = {"few", "a few", "several", "some"}
_NEAREST_VAGUE, _FARTHEST_VAGUE = 2, 6
_STEPS = {"last": -1, "past": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1}

_M = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_SURE_M = r"(?P<month>january|february|april|june|july|august|september|october|november|december)\b"
_D = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?\b"
_LAST = _D.replace("day", "last")
_TO = r" ?(?:-|\u2013|to) ?"
_Y = r"(?P<year>1[5-9]\d\d|20\d\d|21\d\d)\b"
_W = rf"(?P<weekday>{'|'.join(_WEEKDAYS)})\b"
_N = rf"(?P<count>\d{{1,6}}|a few|few|several|some|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_U = r"(?P<unit>minute|hour|day|week|month|year)s?\b"
_SEASON = r"(?P<season>spring|summer|autumn|fall|winter)\b"
_STEP = r"(?P<step>last|past|previous|this|current|next|coming)"
_NOT_YEARS = (
    r"(?!\s+(?:dollars|euros|pounds|bucks|people|users|members|followers|steps|words|points|times|calories"
    r"|miles|feet|meters|metres|km|kg|mph|rpm)\b)"
)


def in_cell(month: str) -> str:
    """Return the pattern of a shortened month in a table or a list of amounts: "| Feb | 66.85 |", "Feb 66.85"."""
    return rf"{_CELL_START}{month}\b\.?{_CELL_END}"


def _ymd(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.day(int(match["year"]), int(match["m"]), int(match["d"]))


def _slashes(match: re.Match[str], reference: datetime) -> DateSpan:
    first, second = int(match["m"]), int(match["d"])
    if first > 12:
        first, second = second, first
    return dates.day(int(match["year"]), first, second)


def _date(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.day(int(match["year"]), _MONTHS[match["month"].lower()], int(match["day"]))


def _days(match: re.Match[str], reference: datetime) -> DateSpan:
    """Return the range from one day to another of the same month, both included."""
    last = dates.day(int(match["year"]), _MONTHS[match["month"].lower()], int(match["last"]))
    first = _date(match, reference)
    if first.start > last.start:
        raise ValueError("the last day comes before the first")
    return DateSpan(first.start, last.end, "range")


def _yearless(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.latest_day(reference, int(match["day"]), _MONTHS[match["month"].lower()])


def _month_year(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.month(int(match["year"]), _MONTHS[match["month"].lower()])


def _month(match: re.Match[str], reference: datetime) -> DateSpan:
    number = _MONTHS[match["month"].lower()]
    step = _step(match)
    if step is None:
        return dates.latest_month(reference, number)
    if step == 0:
        return dates.month(reference.year, number)
    years = reference.year + step * ((number - reference.month) * step <= 0)
    return dates.month(years, number)


def _season(match: re.Match[str], reference: datetime) -> DateSpan:
    name = match["season"].lower()
    groups = match.groupdict()
    if groups.get("year"):
        return dates.season(int(match["year"]), name)
    begun = dates.latest_season(reference, name)
    step = _step(match)
    if step == 1 or (step == 0 and begun.end <= reference):
        return dates.season(begun.start.year + 1, name)
    if step == -1 and begun.end > reference:
        return dates.season(begun.start.year - 1, name)
    return begun


def _quarter(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.months(int(match["year"]), 3 * int(match["quarter"]) - 2, 3)


def _decade(match: re.Match[str], reference: datetime) -> DateSpan:
    digits = match["decade"]
    first = int(digits) if len(digits) == 4 else 1900 + int(digits)
    return DateSpan(dates.year(first).start, dates.year(first + 9).end, "range")


def _year(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.year(int(match["year"]))


def _relative_day(match: re.Match[str], reference: datetime) -> DateSpan:
    phrase = " ".join(match[0].lower().split())
    for name, days in (("before yesterday", -2), ("after tomorrow", 2), ("tomorrow", 1), ("yesterday", -1)):
        if name in phrase:
            return dates.day_of(reference + days * DAY)
    return dates.day_of(reference - DAY if phrase == "last night" else reference)


def _step_unit(match: re.Match[str], reference: datetime) -> DateSpan:
    unit, step = match["unit"].lower(), _step(match) or 0
    if unit == "weekend":
        return dates.weekend_of(reference + step * WEEK)
    return dates.unit_away(reference, step, unit)


def _step_weekday(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.weekday_of(reference, _WEEKDAYS[match["weekday"].lower()], _step(match))


def _weekend(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.weekend_of(reference if reference.weekday() >= 5 else reference - WEEK)


def _units_away(match: re.Match[str], reference: datetime) -> DateSpan:
    """Return the unit that is N units ago or ahead; a vague number gives the range from 2 to 6 units."""
    unit = match["unit"].lower()
    sign = 1 if match.groupdict().get("ahead") else -1
    count = _count(match["count"])
    if count is None:
        near = dates.shift(reference, sign * _NEAREST_VAGUE, unit)
        far = dates.shift(reference, sign * _FARTHEST_VAGUE, unit)
        return DateSpan(dates.midnight(min(near, far)), dates.midnight(max(near, far)) + DAY, "range")
    return dates.unit_away(reference, sign * count, unit)


def _last_or_next_units(match: re.Match[str], reference: datetime) -> DateSpan:
    """Return the last N units up to the end of today, or the next N from its start."""
    count = _count(match["count"]) or _FARTHEST_VAGUE
    today = dates.day_of(reference)
    if _step(match) == 1:
        return DateSpan(today.start, dates.shift(today.end, count, match["unit"].lower()), "range")
    return DateSpan(dates.shift(today.start, -count, match["unit"].lower()), today.end, "range")


def _before_or_after(match: re.Match[str], reference: datetime) -> DateSpan:
    """Return the unit or weekday before or after a date, or before or after the reference without one."""
    anchor = reference
    if match["day"]:
        anchor = (_date if match["year"] else _yearless)(match, reference).start
    sign = -1 if match["side"].lower() in ("before", "prior to", "preceding") else 1
    if match["weekday"]:
        return dates.nearest_weekday(anchor, _WEEKDAYS[match["weekday"].lower()], sign)
    unit = match["unit"].lower()
    if unit == "weekend":
        return _adjacent_weekend(anchor, sign)
    if unit == "week" and match["day"]:
        start = anchor - WEEK if sign < 0 else anchor + DAY
        return DateSpan(start, start + WEEK, "week")
    return dates.unit_away(anchor, sign, unit)


def _adjacent_weekend(anchor: datetime, sign: int) -> DateSpan:
    same_week = dates.weekend_of(anchor)
    passed = same_week.end <= anchor if sign < 0 else same_week.start > anchor
    return same_week if passed else dates.weekend_of(anchor + sign * WEEK)


def _count(text: str) -> int | None:
    plain = " ".join(text.lower().split())
    return None if plain in _VAGUE else _NUMBERS.get(plain) or int(plain)


def _step(match: re.Match[str]) -> int | None:
    given = match.groupdict().get("step")
    return None if given is None else _STEPS[given.lower()]


def spaced_pattern(pattern: str) -> re.Pattern[str]:
    """Return the pattern of words that begin no longer word or sum; a blank in it means one to three of them."""
    spaced = pattern.replace(" ?", r"\s{0,3}").replace(" ", r"\s{1,3}")
    return re.compile(rf"(?<![\w$\u20ac\u00a3#.]){spaced}", re.IGNORECASE)


def _rule(pattern: str, rule: Rule) -> tuple[re.Pattern[str], Rule]:
    return spaced_pattern(pattern), rule


NUMBERED_RULES: Rules = (
    _rule(r"(?P<year>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?)?(?!\d)", _ymd),
    _rule(r"(?P<year>\d{4})/(?P<m>\d\d?)/(?P<d>\d\d?)(?![\d/])", _ymd),
    _rule(r"(?P<m>\d\d?)/(?P<d>\d\d?)/(?P<year>\d{4})(?![\d/])", _slashes),
    _rule(r"(?P<d>\d\d?)\.(?P<m>\d\d?)\.(?P<year>\d{4})(?![\d.])", _ymd),
    _rule(rf"{_D}{_TO}{_LAST}(?: of)? {_M},? {_Y}", _days),
    _rule(rf"{_M} {_D}{_TO}{_LAST},? {_Y}", _days),
    _rule(rf"(?:the )?{_D}(?: of)? {_M},? {_Y}", _date),
    _rule(rf"{_M} (?:the )?{_D},? {_Y}", _date),
    _rule(rf"(?:the )?{_D}(?: of)? {_M}", _yearless),
    _rule(rf"{_M} (?:the )?{_D}", _yearless),
    _rule(rf"{_M}(?: of|,)? {_Y}", _month_year),
    _rule(rf"(?:the )?{_SEASON}(?: of|,)? {_Y}", _season),
    _rule(rf"q(?P<quarter>[1-4])(?: of)? {_Y}", _quarter),
    _rule(r"(?:the )?(?P<decade>(?:1[5-9]|20)\d0)s\b", _decade),
    _rule(rf"{_Y}(?![-/:%\u20ac]|[.,]\d){_NOT_YEARS}", _year),
)
"""Pattern and meaning of the forms with a digit. Of two that match at one offset the longer wins."""

WORDED_RULES: Rules = (
    _rule(
        rf"the (?:(?P<unit>day|week|weekend|month|year)|{_W}) "
        r"(?P<side>before|after|prior to|preceding|following)"
        rf"(?: (?:the )?{_D}(?: of)? {_M}(?:,? {_Y})?|(?=\s*(?:[.,;!?]|$)))",
        _before_or_after,
    ),
    _rule(rf"{_STEP} {_M}", _month),
    _rule(rf"(?:in|since|during|until|till|by|early|late|mid|before|after|around)[ -]{_M}(?!,? \d)", _month),
    _rule(rf"(?:between|from) {_M}(?= ?(?:and|to|until|till|through|-|\u2013) )", _month),
    _rule(_SURE_M, _month),
    _rule(in_cell(_M), _month),
    _rule(rf"(?:this )?{_STEP} {_SEASON}", _season),
    _rule(rf"(?:in|over|during) (?:the )?{_SEASON}", _season),
    _rule(r"the '?(?P<decade>[2-9]0)s\b", _decade),
    _rule(r"(?:the )?day (?:before yesterday|after tomorrow)\b", _relative_day),
    _rule(r"(?:today|tonight|yesterday|tomorrow|last night|this (?:morning|afternoon|evening))\b", _relative_day),
    _rule(rf"(?:the |this )?{_STEP} (?P<unit>week|weekend|month|year)\b", _step_unit),
    _rule(rf"(?:this )?{_STEP} {_W}", _step_weekday),
    _rule(_W, _step_weekday),
    _rule(r"(?:on|over|at|during) the weekend\b", _weekend),
    _rule(rf"{_N} {_U} (?:ago|back|earlier)\b", _units_away),
    _rule(rf"{_N} {_U} (?P<ahead>from now)\b", _units_away),
    _rule(rf"(?P<ahead>in) {_N} {_U}(?! (?:ago|back|earlier)\b)", _units_away),
    _rule(rf"(?:the )?{_STEP} {_N} {_U}", _last_or_next_units),
)
"""Pattern and meaning of the forms with one of `TIME_WORDS`."""

TIME_WORDS = (*(name[:3] for name in _MONTHS), *_UNIT_WORDS.split(), *dates.SEASONS)
"""Parts of words in lower case; a text without any of them matches no worded rule, and most have none."""
