"""Calendar arithmetic for time expressions: half-open UTC ranges around a day.

Every function may raise OverflowError or ValueError if a result is outside the years 1 to 9999; `time_expressions`
drops such expressions.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

DateUnit = Literal["day", "week", "month", "year", "range"]
DAY = timedelta(days=1)
WEEK = timedelta(weeks=1)
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""First month of each meteorological season of the northern hemisphere."""


class DateSpan(NamedTuple):
    """A half-open range of time in UTC, with its calendar unit."""

    start: datetime
    end: datetime
    kind: DateUnit


def to_utc(moment: datetime) -> datetime:
    """Return `moment` in UTC; a time without a zone is taken as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def midnight(moment: datetime) -> datetime:
    """Return the beginning of the day."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def day_of(moment: datetime) -> DateSpan:
    """Return the day that contains `moment`."""
    start = midnight(moment)
    return DateSpan(start, start + DAY, "day")


def day(year: int, month: int, number: int) -> DateSpan:
    """Return one calendar day."""
    return day_of(datetime(year, month, number, tzinfo=UTC))


def week_of(moment: datetime) -> DateSpan:
    """Return the week, from Monday, that contains `moment`."""
    start = midnight(moment) - moment.weekday() * DAY
    return DateSpan(start, start + WEEK, "week")


def weekend_of(moment: datetime) -> DateSpan:
    """Return Saturday and Sunday of the week that contains `moment`."""
    monday = week_of(moment).start
    return DateSpan(monday + 5 * DAY, monday + WEEK, "range")


def month(year: int, number: int) -> DateSpan:
    """Return one calendar month."""
    return months(year, number, 1)._replace(kind="month")


def months(year: int, first: int, count: int) -> DateSpan:
    """Return `count` calendar months from month `first` of `year` on."""
    start = datetime(year, first, 1, tzinfo=UTC)
    return DateSpan(start, shift_months(start, count), "range")


def year(number: int) -> DateSpan:
    """Return one calendar year."""
    return DateSpan(datetime(number, 1, 1, tzinfo=UTC), datetime(number + 1, 1, 1, tzinfo=UTC), "year")


def shift_months(moment: datetime, count: int) -> datetime:
    """Return the same day `count` months later, or that month's last day if it has no such day."""
    to_year, to_month = divmod(moment.year * 12 + moment.month - 1 + count, 12)
    if not 1 <= to_year <= 9999:
        raise OverflowError(f"year {to_year} is outside of 1 to 9999")
    return moment.replace(year=to_year, month=to_month + 1, day=min(moment.day, monthrange(to_year, to_month + 1)[1]))


def shift(moment: datetime, count: int, unit: str) -> datetime:
    """Return `moment` moved by `count` units: minute, hour, day, week, month or year, calendar-exact."""
    if unit in ("month", "year"):
        return shift_months(moment, count if unit == "month" else 12 * count)
    return moment + timedelta(**{f"{unit}s": count})


def unit_of(moment: datetime, unit: str) -> DateSpan:
    """Return the week, weekend, month or year that contains `moment`; for a smaller unit, its day."""
    if unit == "month":
        return month(moment.year, moment.month)
    if unit == "year":
        return year(moment.year)
    return {"week": week_of, "weekend": weekend_of}.get(unit, day_of)(moment)


def unit_away(moment: datetime, count: int, unit: str) -> DateSpan:
    """Return the unit of `unit_of` that is `count` units after `moment`, or before it where `count` is negative."""
    first = moment.replace(day=1) if unit in ("month", "year") else moment
    return unit_of(shift(first, count, unit), unit)


def nearest_weekday(moment: datetime, weekday: int, direction: int) -> DateSpan:
    """Return the first such day (Monday is 0) strictly before (-1) or after (+1) the day of `moment`."""
    distance = (direction * (weekday - moment.weekday())) % 7 or 7
    return day_of(midnight(moment) + direction * distance * DAY)


def weekday_of(moment: datetime, weekday: int, step: int | None) -> DateSpan:
    """Return such a day (Monday is 0) last (-1), next (1) or of this week (0); None = the latest that has begun."""
    if step == 0:
        return day_of(week_of(moment).start + weekday * DAY)
    if step is None and weekday == moment.weekday():
        return day_of(moment)
    return nearest_weekday(moment, weekday, step or -1)


def latest_month(moment: datetime, number: int) -> DateSpan:
    """Return the latest such month that has begun at `moment`."""
    return month(moment.year - (number > moment.month), number)


def latest_day(moment: datetime, number: int, of_month: int) -> DateSpan:
    """Return the latest such day that has begun at `moment`; 29 February is that of a leap year."""
    for of_year in range(moment.year, moment.year - 9, -1):
        if (of_month, number) == (2, 29) and not isleap(of_year):
            continue
        latest = day(of_year, of_month, number)
        if latest.start <= moment:
            return latest
    raise ValueError("no such day")


def season(number: int, name: str) -> DateSpan:
    """Return the season that begins in year `number`; winter 2022 ends in February 2023."""
    return months(number, SEASONS[name], 3)


def latest_season(moment: datetime, name: str) -> DateSpan:
    """Return the latest such season that has begun at `moment`."""
    return season(moment.year - (SEASONS[name] > moment.month), name)


_MAX_DAYS, _MAX_MONTHS = 31, 12


def date_stems(moment: datetime) -> tuple[str, str]:
    """Return the stems of a moment's day and month in UTC, by which records made then are found."""
    made = to_utc(moment)
    month_stem = f"t{made.year:04}{made.month:02}"
    return f"{month_stem}{made.day:02}", month_stem


def span_stems(start: datetime, end: datetime) -> tuple[str, ...]:
    """Return the stems for a half-open range: its days, up to 31, or its months, up to 12; else none."""
    last = end - timedelta(microseconds=1)
    months_between = (last.year - start.year) * 12 + last.month - start.month
    if months_between >= _MAX_MONTHS:
        return ()
    if (
        start == midnight(start.replace(day=1))
        and last.date() == (shift_months(start, months_between + 1) - DAY).date()
    ):
        return tuple(date_stems(shift_months(start, at))[1] for at in range(months_between + 1))
    days = (midnight(last) - midnight(start)).days
    return tuple(date_stems(start + at * DAY)[0] for at in range(days + 1)) if days < _MAX_DAYS else ()
