"""Dates written in numbers, such as 01.05.2024, 5/13/24 8:00 PM or 2024/05/01: their order, and the moment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

HALF = r"(?P<half>[ap])\.?\s?m\b\.?"
_YEAR_LAST = r"(?P<first>\d{1,2})(?P<mark>[./-])\s?(?P<second>\d{1,2})(?P=mark)\s?(?P<year>\d{4}|\d{2})"
_YEAR_FIRST = r"(?P<whole_year>\d{4})(?P<sign>[./-])(?P<month>\d{1,2})(?P=sign)(?P<day>\d{1,2})"
_TIME = rf"(?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})(?:[:.](?P<second_of_minute>\d{{2}}))?(?:\s?{HALF})?"
_DATE = re.compile(rf"(?:{_YEAR_LAST}|{_YEAR_FIRST})(?:,?\s+(?:[^\W\d]{{1,3}}\s+)?{_TIME})?", re.IGNORECASE)
_MONTHS = _HOURS = 12
_TWO_DIGITS = 100
_CENTURY_ENDS = 69  # as in strptime: 68 is 2068, 69 is 1969


class DateOrder(StrEnum):
    """Which number of a date comes first."""

    DAY_FIRST = "day first"
    MONTH_FIRST = "month first"
    YEAR_FIRST = "year first"


def date_order(texts: Iterable[str]) -> DateOrder | None:
    """Return the order of dates: where one has periods, or a number that is no month; else the year's, if one has it.

    None where all could be read both ways. What is written in another way tells nothing.
    """
    told = None
    for text in texts:
        found = _DATE.fullmatch(text.strip())
        if found is None:
            continue
        if found["whole_year"]:
            told = DateOrder.YEAR_FIRST
        elif found["mark"] == "." or int(found["first"]) > _MONTHS:
            return DateOrder.DAY_FIRST
        elif int(found["second"]) > _MONTHS:
            return DateOrder.MONTH_FIRST
    return told


def order_in_time(texts: Iterable[str]) -> DateOrder | None:
    """Return the order of dates that were written one after the other: else that in which fewer steps lead back.

    None where none is written so, or where both orders have as many steps back.
    """
    dates = list(texts)
    if told := date_order(dates):
        return told
    back = {order: _steps_back(dates, order) for order in (DateOrder.DAY_FIRST, DateOrder.MONTH_FIRST)}
    best, worst = sorted(back, key=lambda order: back[order])
    return best if back[best] < back[worst] else None


def _steps_back(dates: Iterable[str], order: DateOrder) -> int:
    moments = filter(None, (read_date(date, order) for date in dates))
    return sum(later < earlier for earlier, later in pairwise(moments))


def is_written_date(text: str) -> bool:
    """Return whether a text is a date in numbers, in whichever order."""
    return _DATE.fullmatch(text.strip()) is not None


def read_date(text: str, order: DateOrder) -> datetime | None:
    """Return the moment of a date in the given order, without a zone, as none is written; None where it is no date."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    if found["whole_year"]:
        year, month, day = (int(found[name]) for name in ("whole_year", "month", "day"))
    else:
        day, month, year = (int(found[name]) for name in ("first", "second", "year"))
        if order is DateOrder.MONTH_FIRST:
            day, month = month, day
    hour = int(found["hour"] or 0)
    if found["half"]:
        if not 1 <= hour <= _HOURS:
            return None
        hour = hour % _HOURS + (_HOURS if found["half"] in "pP" else 0)
    if year < _TWO_DIGITS:
        year += 2000 if year < _CENTURY_ENDS else 1900
    clock = (hour, int(found["minute"] or 0), int(found["second_of_minute"] or 0))
    try:
        return datetime(year, month, day, *clock)
    except ValueError:  # the 31st of June, or 25 o'clock
        return None
