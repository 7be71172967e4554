"""Dates written in numbers with the year last, such as 01.05.2024 or 5/13/24 8:00 PM: their order, and the moment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum

_DATE = re.compile(
    r"(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4}|\d{2})"
    r"(?:,?\s+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second_of_minute>\d{2}))?(?:\s?(?P<half>[ap])\.?m\.?)?)?",
    re.IGNORECASE,
)
_MONTHS = _HOURS = 12
_TWO_DIGITS = 100
_CENTURY_ENDS = 69  # as in strptime: 68 is 2068, 69 is 1969


class DateOrder(StrEnum):
    """Which number of a date comes first."""

    DAY_FIRST = "day first"
    MONTH_FIRST = "month first"


def date_order(texts: Iterable[str]) -> DateOrder | None:
    """Return the order of dates that are written alike: where one has periods, or a number that is no month.

    None where all could be read both ways, or where one is written in another way.
    """
    for text in texts:
        found = _DATE.fullmatch(text.strip())
        if found is None:
            return None
        if found["mark"] == "." or int(found["first"]) > _MONTHS:
            return DateOrder.DAY_FIRST
        if int(found["second"]) > _MONTHS:
            return DateOrder.MONTH_FIRST
    return None


def is_written_date(text: str) -> bool:
    """Tell whether a text is a date in numbers with the year last, in whichever order."""
    return _DATE.fullmatch(text.strip()) is not None


def read_date(text: str, order: DateOrder) -> datetime | None:
    """Return the moment of a date in the given order, in UTC as no zone is written; None where it is no such date."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    day, month = int(found["first"]), int(found["second"])
    if order is DateOrder.MONTH_FIRST:
        day, month = month, day
    hour, year = int(found["hour"] or 0), int(found["year"])
    if found["half"]:
        if not 1 <= hour <= _HOURS:
            return None
        hour = hour % _HOURS + (_HOURS if found["half"] in "pP" else 0)
    if year < _TWO_DIGITS:
        year += 2000 if year < _CENTURY_ENDS else 1900
    try:
        return datetime(year, month, day, hour, int(found["minute"] or 0), int(found["second_of_minute"] or 0), 0, UTC)
    except ValueError:  # the 31st of June, or 25 o'clock
        return None
