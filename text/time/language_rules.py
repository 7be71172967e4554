"""The forms of a time in languages other than English, made from `times.toml` and `languages.toml` (OPEN-4).

They have the same meanings as the English ones (`time_rules`). A text is read by the rules of its own language, and by
those for dates in digits, which all languages share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any

from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.time import dates
from recall_loop.text.time.dates import DAY, DateSpan
from recall_loop.text.time.time_rules import Rule, Rules, in_cell, spaced_pattern
from recall_loop.text.words.languages import JAPANESE, LanguageWords, language_words

_UNITS = ("day", "week", "month", "year")
_YEAR = r"(?P<year>1[5-9]\d\d|20\d\d|21\d\d)"
_HAN_DIGITS = "零一二三四五六七八九"
_HAN_WEEKDAYS = "一二三四五六日天"
_HAN_DAYS = {
    "大前天": -3,
    "前天": -2,
    "昨天": -1,
    "昨日": -1,
    "昨晚": -1,
    "今天": 0,
    "今日": 0,
    "今晚": 0,
    "明天": 1,
    "后天": 2,
}
_HAN_YEARS = {"前年": -2, "去年": -1, "今年": 0, "明年": 1}
_HAN_STEPS = {"上": -1, "本": 0, "这": 0, "这个": 0, "上个": -1, "下": 1, "下个": 1}
_HAN_UNITS = {"天": "day", "日": "day", "周": "week", "星期": "week", "礼拜": "week", "月": "month", "年": "year"}
_N = r"(?P<count>\d{1,4}|[一二两三四五六七八九十]{1,3})"


@cache
def language_rules(language: str) -> Rules:
    """Return the rules of a language; none if it has no words here."""
    if language == "zh":
        return tuple(_chinese_rules())
    words = _words().get(language)
    if words and language == JAPANESE:
        return tuple(_japanese_rules(words))
    return tuple(_rules(words, language_words()[language])) if words else ()


@cache
def _words() -> dict[str, dict[str, Any]]:
    return packaged_table(__package__, "times.toml")


def _rules(words: Mapping[str, Any], known: LanguageWords) -> Iterator[tuple[re.Pattern[str], Rule]]:
    months, weekdays, numbers = known.months, known.weekdays, words["numbers"].split()
    units = [words["units"][unit] for unit in _UNITS]
    month, weekday = (f"(?:{'|'.join(each)})" for each in (months, weekdays))
    month = f"(?P<month>{month})"
    day = rf"(?P<day>0?[1-9]|[12]\d|3[01])(?:{words['of']})?"
    yield spaced_pattern(rf"{day} ?{month}(?:(?: del?)? {_YEAR})?\b"), partial(_day, months)
    yield spaced_pattern(rf"{month}(?: del?)?(?: {_YEAR})?\b"), partial(_month, months)
    shortened = words["months"].split()
    short = f"(?P<month>{'|'.join(shortened)})"
    yield spaced_pattern(rf"{day} ?{short}\b(?:\.?(?: del?)? {_YEAR}\b)?"), partial(_day, shortened)
    yield spaced_pattern(rf"{short}\b\.? {_YEAR}\b"), partial(_month, shortened)
    yield spaced_pattern(in_cell(short)), partial(_month, shortened)
    yield spaced_pattern(words["short"]), _short_day
    for name, distance in words["days"].items():
        yield spaced_pattern(rf"{name}\b"), partial(_near_day, distance)
    for step, key in ((-1, "last"), (0, "this"), (1, "next")):
        yield _step_pattern(words[key], f"(?P<weekday>{weekday})"), partial(_weekday, weekdays, step)
        yield _step_pattern(words[key], f"(?P<unit>{'|'.join(units)})"), partial(_unit, units, step)
    yield spaced_pattern(rf"(?P<weekday>{weekday})\b"), partial(_weekday, weekdays, None)
    count = rf"(?P<count>\d{{1,4}}|{'|'.join(numbers)})"
    ago = words["ago"].replace("#", count).replace("@", f"(?P<unit>{'|'.join(units)})")
    yield spaced_pattern(rf"{ago}\b"), partial(_ago, numbers, units)


def _step_pattern(step: str, named: str) -> re.Pattern[str]:
    """Return the pattern of a word for a step before or after the word that it belongs to."""
    second = named.replace("?P<weekday>", "?P<weekday2>").replace("?P<unit>", "?P<unit2>")
    # "Quest'anno" has no blank.
    return spaced_pattern(rf"(?:(?:{step})(?: |(?<=['\u2019])){named}|{second} (?:{step}))\b")


def _place(forms: Sequence[str], text: str) -> int:
    """Return the index of the pattern that a word matches as a whole."""
    return next(at for at, form in enumerate(forms) if re.fullmatch(form, text, re.IGNORECASE))


def _named(match: re.Match[str], name: str) -> str:
    groups = match.groupdict()
    return str(groups.get(name) or groups[f"{name}2"])


def _day(months: Sequence[str], match: re.Match[str], reference: datetime) -> DateSpan:
    return _dated(match, reference, _place(months, match["month"]) + 1, int(match["day"]))


def _dated(match: re.Match[str], reference: datetime, month: int, day: int | None = None) -> DateSpan:
    """Return a day or a month of the year that is named, else the latest that has begun."""
    if year := match.groupdict().get("year"):
        return dates.month(int(year), month) if day is None else dates.day(int(year), month, day)
    return dates.latest_month(reference, month) if day is None else dates.latest_day(reference, day, month)


def _short_day(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.latest_day(reference, int(match["day"]), int(match["month"]))


def _month(months: Sequence[str], match: re.Match[str], reference: datetime) -> DateSpan:
    return _dated(match, reference, _place(months, match["month"]) + 1)


def _near_day(distance: int, match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.day_of(reference + distance * DAY)


def _weekday(weekdays: Sequence[str], step: int | None, match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.weekday_of(reference, _place(weekdays, _named(match, "weekday")), step)


def _unit(units: Sequence[str], step: int, match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.unit_away(reference, step, _UNITS[_place(units, _named(match, "unit"))])


def _ago(numbers: Sequence[str], units: Sequence[str], match: re.Match[str], reference: datetime) -> DateSpan:
    text = match["count"]
    count = int(text) if text.isdigit() else _place(numbers, text) + 1
    return dates.unit_away(reference, -count, _UNITS[_place(units, match["unit"])])


def _chinese_rules() -> Iterator[tuple[re.Pattern[str], Rule]]:
    month, day = (rf"(?P<{name}>\d{{1,2}}|[一二三四五六七八九十]{{1,3}})" for name in ("month", "day"))
    year = r"(?:(?P<year>\d{4})年)"
    yield _han(rf"{year}?{month}月{day}[日号]"), _han_day
    yield _han(rf"{year}?{month}月份?(?!\d)"), _han_month
    yield _han(rf"{year}(?!前)"), lambda match, _: dates.year(int(match["year"]))
    yield _han("|".join(_HAN_DAYS)), lambda match, now: dates.day_of(now + _HAN_DAYS[match[0]] * DAY)
    yield _han("|".join(_HAN_YEARS)), lambda match, now: dates.unit_away(now, _HAN_YEARS[match[0]], "year")
    step, week = "(?P<step>上个?|本|这个?|下个?)", "(?:周|星期|礼拜)"
    yield _han(rf"{step}?{week}(?P<weekday>[{_HAN_WEEKDAYS}])"), _han_weekday
    yield _han(rf"{step}(?P<unit>周|星期|礼拜|月)"), _han_unit
    yield _han(rf"{_N}个?(?P<unit>天|日|周|星期|礼拜|月|年)(?:之前|以前|前)"), _han_ago


def _han(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\d)(?:{pattern})")


def _han_number(text: str) -> int:
    """Return a number of one to 99 in digits or Han characters."""
    if text.isdigit():
        return int(text)
    tens, ten, ones = text.replace("两", "二").rpartition("十")
    if not ten:
        tens, ones = "", text.replace("两", "二")
    value = _HAN_DIGITS.index(ones) if ones else 0
    return value + (10 * (_HAN_DIGITS.index(tens) if tens else 1) if ten else 0)


def _han_day(match: re.Match[str], reference: datetime) -> DateSpan:
    return _dated(match, reference, _han_number(match["month"]), _han_number(match["day"]))


def _han_month(match: re.Match[str], reference: datetime) -> DateSpan:
    return _dated(match, reference, _han_number(match["month"]))


def _han_weekday(match: re.Match[str], reference: datetime) -> DateSpan:
    step = _HAN_STEPS.get(match["step"] or "")
    weekday = min(_HAN_WEEKDAYS.index(match["weekday"]), 6)
    if step:  # in the week before or after this one, whatever day today is
        reference = dates.week_of(reference).start + step * dates.WEEK
    return dates.weekday_of(reference, weekday, 0 if step is not None else None)


def _han_unit(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.unit_away(reference, _HAN_STEPS[match["step"]], _HAN_UNITS[match["unit"]])


def _han_ago(match: re.Match[str], reference: datetime) -> DateSpan:
    return dates.unit_away(reference, -_han_number(match["count"]), _HAN_UNITS[match["unit"]])


def _japanese_rules(words: Mapping[str, Any]) -> Iterator[tuple[re.Pattern[str], Rule]]:
    def named(*lists: str) -> str:
        listed = (name for each in lists for name in words[each])
        return "|".join(sorted(listed, key=len, reverse=True))

    steps = {name: (step, unit) for unit in ("week", "month", "year") for name, step in words[f"{unit}s"].items()}
    day, month = r"(?P<day>\d{1,2})日(?!間)", r"(?P<month>\d{1,2})月"
    year = r"(?:(?P<year>\d{4})年)"
    weekday = f"(?P<weekday>[{words['weekdays']}])曜日?"
    yield _han(rf"{year}?{month}{day}"), _han_day
    yield _han(rf"{year}?{month}(?!前)"), _han_month
    yield _han(rf"{year}(?!前)"), lambda match, _: dates.year(int(match["year"]))
    yield _han(named("days")), lambda match, now: dates.day_of(now + words["days"][match[0]] * DAY)
    yield _han(rf"(?P<step>{named('months')})の?{day}"), partial(_day_of_month, words["months"])
    yield _han(f"(?:(?P<step>{named('weeks', 'near')})の?)?{weekday}"), partial(_japanese_weekday, words)
    yield _han(named("weeks", "months", "years")), lambda match, now: dates.unit_away(now, *steps[match[0]])
    count = r"(?P<count>\d{1,4}|[一二三四五六七八九十]{1,3})"
    ago = rf"{count}(?P<unit>{named('units')})(?:ほど|くらい)?前"
    units = words["units"]
    yield _han(ago), lambda match, now: dates.unit_away(now, -_han_number(match["count"]), units[match["unit"]])


def _day_of_month(months: Mapping[str, int], match: re.Match[str], reference: datetime) -> DateSpan:
    first = dates.shift(reference.replace(day=1), months[match["step"]], "month")
    return dates.day(first.year, first.month, int(match["day"]))


def _japanese_weekday(words: Mapping[str, Any], match: re.Match[str], reference: datetime) -> DateSpan:
    weekday, step = words["weekdays"].index(match["weekday"]), match["step"]
    if step in words["weeks"]:
        return dates.day_of(dates.week_of(reference).start + words["weeks"][step] * dates.WEEK + weekday * DAY)
    return dates.weekday_of(reference, weekday, words["near"].get(step))
