"""Time expressions: the times that a text names, and the time suffixes of a query (SEARCH-10)."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from recall_loop.text.time import dates
from recall_loop.text.time.dates import DateUnit
from recall_loop.text.time.language_rules import language_rules
from recall_loop.text.time.time_rules import NUMBERED_RULES, TIME_WORDS, WORDED_RULES, Rules
from recall_loop.text.words.languages import ENGLISH
from recall_loop.text.words.tokens import text_language

_READ_CHARACTERS = 2000
_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"\d{4}")
_YEARLESS = re.compile(
    r"^(?!.*(?:\d{4}|\b(?:last|past|previous|this|current|next|coming|before|after|following)\b))"
    r".*\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)",
    re.IGNORECASE,
)
_JOINED = re.compile(r"\s*(?:,|and|or|to|until|through|-|\u2013)\s*(?:(?:in|on)\s+)?(?:the\s+)?", re.IGNORECASE)
_INSTANT = timedelta(microseconds=1)
_MARGIN = timedelta(days=1)
_MAX_RENDERINGS = 4
_MONTH_NAMES = tuple(calendar.month_name)
_UNIT = r"\s*(?P<unit>minute|hour|day|week|month|year)s?"
_SUFFIX = re.compile(
    rf"(?:^|\s)(?:(?P<sign>[<>])\s*(?P<count>\d{{1,9}}){_UNIT}"
    rf"|(?P<low>\d{{1,9}})\s*[-\u2013]\s*(?P<high>\d{{1,9}}){_UNIT.replace('unit', 'range_unit')}"
    rf"|(?P<about>\d{{1,9}}){_UNIT.replace('unit', 'about_unit')}\s+ago)\s*$",
    re.IGNORECASE,
)

ANY_REFERENCE = datetime(2020, 6, 17, 12, tzinfo=UTC)
"""Where it only matters whether a text names a time, and which words do."""


@dataclass(frozen=True, slots=True)
class TimeExpression:
    """A time as written, and the range it means: UTC, start inclusive, end exclusive.

    `kind` is the calendar unit of the range, or "range" for any other length; `at` is the offset of the text.
    """

    text: str
    start: datetime
    end: datetime
    kind: DateUnit
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range of time in UTC, start inclusive, end exclusive; None is open."""

    start: datetime | None
    end: datetime | None


@lru_cache(maxsize=4096)
def parse_times(text: str, reference: datetime) -> tuple[TimeExpression, ...]:
    """Return the times that `text` names, in order; `time_rules` has the forms.

    Relative times count from `reference` (UTC if it has no zone). Expressions don't overlap: the one that begins
    first wins, then the longer one. Impossible dates and dates outside the years 1 to 9999 are left out.
    """
    now = dates.to_utc(reference)
    matches = [(match, rule) for pattern, rule in _rules_for(text) for match in pattern.finditer(text)]
    expressions: list[TimeExpression] = []
    end = 0
    for match, rule in sorted(matches, key=lambda pair: (pair[0].start(), -pair[0].end())):
        if match.start() < end:
            continue
        try:
            span = rule(match, now)
        except (OverflowError, ValueError):
            continue  # 30 February, or a year outside the calendar: not a time
        expressions.append(TimeExpression(match[0], *span, match.start()))
        end = match.end()
    return _sharing_years(text, expressions)


def _sharing_years(text: str, expressions: Sequence[TimeExpression]) -> tuple[TimeExpression, ...]:
    """Give a month or day without a year that of the next one, if only an `and` or `to` is between them.

    "June and July 2022" are of one year; "December to February 2022" began in the year before.
    """
    shared = list(expressions)
    dated = False
    for at in range(len(shared) - 2, -1, -1):
        first, second = shared[at], shared[at + 1]
        dated = (dated or _YEAR.search(second.text) is not None) and second.kind in ("day", "month")
        between = text[first.at + len(first.text) : second.at]
        yearless = first.kind in ("day", "month") and _YEARLESS.search(first.text) is not None
        dated = dated and yearless and _JOINED.fullmatch(between) is not None
        if dated:
            shared[at] = _in_year(first, second)
    return tuple(shared)


def _in_year(time: TimeExpression, later: TimeExpression) -> TimeExpression:
    """Return a month or day of the latest year in which it doesn't begin after `later`."""
    try:
        year = later.start.year - ((time.start.month, time.start.day) > (later.start.month, later.start.day))
        span = (
            dates.month(year, time.start.month)
            if time.kind == "month"
            else dates.day(year, time.start.month, time.start.day)
        )
    except (OverflowError, ValueError):
        return time  # 29 February of another year
    return replace(time, start=span.start, end=span.end)


def _rules_for(text: str) -> Rules:
    """Return the rules that can match: trying all of them on every text would dominate the time of parsing."""
    lower = text.lower()
    numbered = NUMBERED_RULES if _DIGIT.search(text) else ()
    language = text_language(text[:_READ_CHARACTERS])
    if language != ENGLISH:
        return numbered + language_rules(language)
    return numbered + (WORDED_RULES if any(word in lower for word in TIME_WORDS) else ())


def without_dates(text: str) -> str:
    """Return a text without its dates and relative times ("next Friday"); hours stay."""
    for time in reversed(parse_times(text, ANY_REFERENCE)):
        text = f"{text[: time.at]} {text[time.at + len(time.text) :]}"
    return text


def render_time(expression: TimeExpression) -> list[str]:
    """Return up to four short renderings of a time as people write it, the most precise first.

    A day gives "7 May 2023", "May 7, 2023" and "May 2023", a month "May 2023" and "2023", anything longer than three
    months its years, anything else its months and years.
    """
    start, last = expression.start, expression.end - _INSTANT
    rendered: list[str] = []
    if expression.kind == "day":
        name = _MONTH_NAMES[start.month]
        rendered = [f"{start.day} {name} {start.year}", f"{name} {start.day}, {start.year}"]
    months = (last.year - start.year) * 12 + last.month - start.month + 1
    if months <= 3:
        moments = [dates.shift_months(start.replace(day=1), at) for at in range(months)]
        rendered += [f"{_MONTH_NAMES[moment.month]} {moment.year}" for moment in moments]
    if expression.kind != "day":
        rendered += [str(number) for number in range(start.year, last.year + 1)][:_MAX_RENDERINGS]
    return rendered[:_MAX_RENDERINGS]


def split_time_suffix(query: str, reference: datetime) -> tuple[str, TimeRange | None]:
    """Split a time suffix off `query` (SEARCH-10); without one, return the query unchanged, and None.

    `< 3 days` is within the last 3 days, `> 2 weeks` longer ago, `1-3 months` between the two, `2 days ago` that time
    ± 1 day. Units are minute to year; months and years are calendar-exact. Only the end of the query counts: a suffix
    before a quotation mark is literal text, and so is `2 days ago?`. `reference` itself is within `< N`. The text
    before the suffix may be blank. `3 years old` is an age, not a suffix.
    """
    suffix = _SUFFIX.search(query)
    if suffix is None:
        return query, None
    return query[: suffix.start()].rstrip(), _suffix_range(suffix, dates.to_utc(reference))


def _suffix_range(suffix: re.Match[str], now: datetime) -> TimeRange:
    if suffix["sign"]:
        edge = _back(now, suffix["count"], suffix["unit"])
        return TimeRange(edge, _later(now, _INSTANT)) if suffix["sign"] == "<" else TimeRange(None, edge)
    if suffix["low"] and int(suffix["low"]) != int(suffix["high"]):
        near, far = sorted((int(suffix["low"]), int(suffix["high"])))
        start, end = (_back(now, str(count), suffix["range_unit"]) for count in (far, near))
        return TimeRange(start, max(end, start + _INSTANT))
    middle = _back(now, suffix["about"] or suffix["low"], suffix["about_unit"] or suffix["range_unit"])
    return TimeRange(max(middle, dates.EARLIEST + _MARGIN) - _MARGIN, _later(middle, _MARGIN))


def _back(now: datetime, count: str, unit: str) -> datetime:
    try:
        return dates.shift(now, -int(count), unit.lower())
    except OverflowError:
        return dates.EARLIEST


def _later(moment: datetime, by: timedelta) -> datetime:
    try:
        return moment + by
    except OverflowError:
        return dates.LATEST
