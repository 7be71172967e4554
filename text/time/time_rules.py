"""The forms in which English writes a time, each with the range that it means.

The latest fitting date that has begun is meant where a form leaves the year open (`May 7th`, `in May`,
`on Friday`): a memory is about the past. `last` excludes the current unit, `this` is the current
one. Weeks begin on Monday. `5/7/2023` is read month first unless only day first is a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from recall_loop.text.time import dates
from recall_loop.text.time.dates import DAY, WEEK, DateSpan

Rule = Callable[[re.Match[str], datetime], DateSpan]
Rules = tuple[tuple[re.Pattern[str], Rule], ...]

_MONTHS = {
    name: at
    for at, names in enumerate(
        (
            ("january", "jan"),
            ("february", "feb"),
            ("march", "mar"),
            ("april", "apr"),
            ("may",),
            ("june", "jun"),
            ("july", "jul"),
            ("august", "aug"),
            ("september", "sept", "sep"),
            ("october", "oct"),
            ("november", "nov"),
            ("december", "dec"),
        ),
        start=1,
    )
    for name in names
}
_WEEKDAYS = {
    name: at for at, name in enumerate(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
}
_NUMBERS = {
    name: at
    for at, name in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        start=1,
    )
} | {"a": 1, "an": 1, "a couple of": 2, "couple of": 2, "a couple": 2}
_VAGUE = {"few", "a few", "several", "some"}
_NEAREST_VAGUE, _FARTHEST_VAGUE = 2, 6
_STEPS = {"last": -1, "past": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1}

_M = rf"(?P<month>{'|'.join(_MONTHS)})\b\.?"
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


def _ymd(found: re.Match[str], reference: datetime) -> DateSpan:
    return dates.day(int(found["year"]), int(found["m"]), int(found["d"]))


def _slashes(found: re.Match[str], reference: datetime) -> DateSpan:
    first, second = int(found["m"]), int(found["d"])
    if first > 12:
        first, second = second, first
    return dates.day(int(found["year"]), first, second)


def _date(found: re.Match[str], reference: datetime) -> DateSpan:
    return dates.day(int(found["year"]), _MONTHS[found["month"].lower()], int(found["day"]))


def _days(found: re.Match[str], reference: datetime) -> DateSpan:
    """From one day to another of the same month, both included."""
    last = dates.day(int(found["year"]), _MONTHS[found["month"].lower()], int(found["last"]))
    first = _date(found, reference)
    if first.start > last.start:
        raise ValueError("the last day comes before the first")
    return DateSpan(first.start, last.end, "range")


def _yearless(found: re.Match[str], reference: datetime) -> DateSpan:
    return dates.latest_day(reference, int(found["day"]), _MONTHS[found["month"].lower()])


def _month_year(found: re.Match[str], reference: datetime) -> DateSpan:
    return dates.month(int(found["year"]), _MONTHS[found["month"].lower()])


def _month(found: re.Match[str], reference: datetime) -> DateSpan:
    number = _MONTHS[found["month"].lower()]
    step = _step(found)
    if step is None:
        return dates.latest_month(reference, number)
    if step == 0:
        return dates.month(reference.year, number)
    years = reference.year + step * ((number - reference.month) * step <= 0)
    return dates.month(years, number)


def _season(found: re.Match[str], reference: datetime) -> DateSpan:
    name = found["season"].lower()
    groups = found.groupdict()
    if groups.get("year"):
        return dates.season(int(found["year"]), name)
    begun = dates.latest_season(reference, name)
    step = _step(found)
    if step == 1 or (step == 0 and begun.end <= reference):
        return dates.season(begun.start.year + 1, name)
    if step == -1 and begun.end > reference:
        return dates.season(begun.start.year - 1, name)
    return begun


def _quarter(found: re.Match[str], reference: datetime) -> DateSpan:
    return dates.months(int(found["year"]), 3 * int(found["quarter"]) - 2, 3)


def _decade(found: re.Match[str], reference: datetime) -> DateSpan:
    digits = found["decade"]
    first = int(digits) if len(digits) == 4 else 1900 + int(digits)
    return DateSpan(dates.year(first).start, dates.year(first + 9).end, "range")


def _year(found: re.Match[str], reference: datetime) -> DateSpan:
    return dates.year(int(found["year"]))


def _near_day(found: re.Match[str], reference: datetime) -> DateSpan:
    phrase = " ".join(found[0].lower().split())
    for name, days in (("before yesterday", -2), ("after tomorrow", 2), ("tomorrow", 1), ("yesterday", -1)):
        if name in phrase:
            return dates.day_of(reference + days * DAY)
    return dates.day_of(reference - DAY if phrase == "last night" else reference)


def _step_unit(found: re.Match[str], reference: datetime) -> DateSpan:
    unit, step = found["unit"].lower(), _step(found) or 0
    if unit == "weekend":
        return dates.weekend_of(reference + step * WEEK)
    first = reference.replace(day=1) if unit in ("month", "year") else reference
    return dates.unit_of(dates.shift(first, step, unit), unit)


def _step_weekday(found: re.Match[str], reference: datetime) -> DateSpan:
    weekday, step = _WEEKDAYS[found["weekday"].lower()], _step(found)
    if step == 0:
        return dates.day_of(dates.week_of(reference).start + weekday * DAY)
    if step is None and weekday == reference.weekday():
        return dates.day_of(reference)
    return dates.nearest_weekday(reference, weekday, step or -1)


def _weekend(found: re.Match[str], reference: datetime) -> DateSpan:
    return dates.weekend_of(reference if reference.weekday() >= 5 else reference - WEEK)


def _counted(found: re.Match[str], reference: datetime) -> DateSpan:
    """N units ago, or from now: the unit that many units away; a vague number gives 2 to 6 units."""
    unit = found["unit"].lower()
    sign = 1 if found.groupdict().get("ahead") else -1
    count = _count(found["count"])
    if count is None:
        near = dates.shift(reference, sign * _NEAREST_VAGUE, unit)
        far = dates.shift(reference, sign * _FARTHEST_VAGUE, unit)
        return DateSpan(dates.midnight(min(near, far)), dates.midnight(max(near, far)) + DAY, "range")
    first = reference.replace(day=1) if unit in ("month", "year") else reference
    return dates.unit_of(dates.shift(first, sign * count, unit), unit)


def _stretch(found: re.Match[str], reference: datetime) -> DateSpan:
    """The last or next N units: from that long ago to the end of today, or the other way."""
    count = _count(found["count"]) or _FARTHEST_VAGUE
    today = dates.day_of(reference)
    if _step(found) == 1:
        return DateSpan(today.start, dates.shift(today.end, count, found["unit"].lower()), "range")
    return DateSpan(dates.shift(today.start, -count, found["unit"].lower()), today.end, "range")


def _beside(found: re.Match[str], reference: datetime) -> DateSpan:
    """The unit or weekday before or after a date; without a date, before or after the reference."""
    anchor = reference
    if found["day"]:
        anchor = (_date if found["year"] else _yearless)(found, reference).start
    sign = -1 if found["side"].lower() in ("before", "prior to", "preceding") else 1
    if found["weekday"]:
        return dates.nearest_weekday(anchor, _WEEKDAYS[found["weekday"].lower()], sign)
    unit = found["unit"].lower()
    if unit == "weekend":
        return _weekend_beside(anchor, sign)
    if unit == "week" and found["day"]:
        start = anchor - WEEK if sign < 0 else anchor + DAY
        return DateSpan(start, start + WEEK, "week")
    first = anchor.replace(day=1) if unit in ("month", "year") else anchor
    return dates.unit_of(dates.shift(first, sign, unit), unit)


def _weekend_beside(anchor: datetime, sign: int) -> DateSpan:
    same_week = dates.weekend_of(anchor)
    passed = same_week.end <= anchor if sign < 0 else same_week.start > anchor
    return same_week if passed else dates.weekend_of(anchor + sign * WEEK)


def _count(text: str) -> int | None:
    plain = " ".join(text.lower().split())
    return None if plain in _VAGUE else _NUMBERS.get(plain) or int(plain)


def _step(found: re.Match[str]) -> int | None:
    given = found.groupdict().get("step")
    return None if given is None else _STEPS[given.lower()]


def _rule(pattern: str, rule: Rule) -> tuple[re.Pattern[str], Rule]:
    # A blank in a pattern stands for any short run of white space.
    return re.compile(
        r"(?<![\w$\u20ac\u00a3#.])" + pattern.replace(" ?", r"\s{0,3}").replace(" ", r"\s{1,3}"),
        re.IGNORECASE,
    ), rule


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
"""Pattern and meaning of the forms that hold a digit. Where two match at one place the longer wins."""

WORDED_RULES: Rules = (
    _rule(
        rf"the (?:(?P<unit>day|week|weekend|month|year)|{_W}) "
        r"(?P<side>before|after|prior to|preceding|following)"
        rf"(?: (?:the )?{_D}(?: of)? {_M}(?:,? {_Y})?|(?=\s*(?:[.,;!?]|$)))",
        _beside,
    ),
    _rule(rf"{_STEP} {_M}", _month),
    _rule(rf"(?:in|since|during|until|till|by|early|late|mid|before|after|around)[ -]{_M}(?!,? \d)", _month),
    _rule(rf"(?:between|from) {_M}(?= ?(?:and|to|until|till|through|-|\u2013) )", _month),
    _rule(_SURE_M, _month),
    _rule(rf"(?:this )?{_STEP} {_SEASON}", _season),
    _rule(rf"(?:in|over|during) (?:the )?{_SEASON}", _season),
    _rule(r"the '?(?P<decade>[2-9]0)s\b", _decade),
    _rule(r"(?:the )?day (?:before yesterday|after tomorrow)\b", _near_day),
    _rule(r"(?:today|tonight|yesterday|tomorrow|last night|this (?:morning|afternoon|evening))\b", _near_day),
    _rule(rf"(?:the |this )?{_STEP} (?P<unit>week|weekend|month|year)\b", _step_unit),
    _rule(rf"(?:this )?{_STEP} {_W}", _step_weekday),
    _rule(_W, _step_weekday),
    _rule(r"(?:on|over|at|during) the weekend\b", _weekend),
    _rule(rf"{_N} {_U} (?:ago|back|earlier)\b", _counted),
    _rule(rf"{_N} {_U} (?P<ahead>from now)\b", _counted),
    _rule(rf"(?P<ahead>in) {_N} {_U}(?! (?:ago|back|earlier)\b)", _counted),
    _rule(rf"(?:the )?{_STEP} {_N} {_U}", _stretch),
)
"""Pattern and meaning of the forms that hold one of `TIME_WORDS`."""

TIME_WORDS = (
    *(name[:3] for name in _MONTHS),
    *(
        "day",
        "night",
        "week",
        "month",
        "year",
        "hour",
        "minute",
        "tomorrow",
        "morning",
        "afternoon",
        "evening",
    ),
    *("0s", *dates.SEASONS),
)
"""Parts of words in lower case; a text without any of them matches no worded rule, and most have none."""
