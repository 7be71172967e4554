"""Periods: records made at a time named in the question, or soon after (QUERY-1, RANK-3).

People mention what happened in July during July or soon after it, and hardly ever name the month. So records from that
time are searched separately, and ranked before others in the final order. A time that only bounds the question (since
July, as of July) doesn't show when it was said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.scope import Filters
from recall_loop.text.time.dates import LATEST
from recall_loop.text.time.time_expressions import TimeExpression, parse_times

_MIN_AFTER, _MAX_AFTER = timedelta(days=1), timedelta(days=7)
_SOON_AFTER = 0.5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VAGUELY = r"(?:(?:about|around|early|mid|late|the|(?:start|beginning|middle|end|first half|second half) of)[\s-]+)*"
_BOUNDS = re.compile(
    r"\b(?:as of|by|until|till|up\s+to|before|prior to|since|after|(?:later|earlier|older|newer|sooner) than"
    rf"|(?:starting|beginning)(?: in| on| from)?)\s+{_VAGUELY}$",
    re.IGNORECASE,
)
_BOUNDING = re.compile(r"(?:since|until|till|by|before|after)[ -]", re.IGNORECASE)
_ONWARDS = re.compile(r"\s*,?\s*(?:onwards?\b|on\s*(?:[?.,;!]|$))", re.IGNORECASE)
_TO = re.compile(r"\s*(?:to|until|till|through|-|\u2013)\s*(?:the\s+)?", re.IGNORECASE)
_AND = re.compile(r"\s*and\s*(?:the\s+)?", re.IGNORECASE)
_UNTIL = re.compile(r"(?:until|till)[ -]", re.IGNORECASE)
_FROM = re.compile(r"\bfrom\s+(?:the\s+)?$", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s+(?:the\s+)?$", re.IGNORECASE)


def event_times(text: str, times: Sequence[TimeExpression]) -> tuple[TimeExpression, ...]:
    """Return those of `times` in which the event in `text` took place; a range counts as one.

    "Between March and May" is all of March to May. A time that only bounds the event ("since May") is left out.
    """
    placed: list[TimeExpression] = []
    left = list(times)
    while left:
        first = left.pop(0)
        if left and _spans(text, first, left[0]):
            last = left.pop(0)
            whole = text[first.at : last.at + len(last.text)]
            placed.append(
                TimeExpression(whole, min(first.start, last.start), max(first.end, last.end), "range", first.at)
            )
        elif not _bounds(text, first):
            placed.append(first)
    return tuple(placed)


def _spans(text: str, first: TimeExpression, last: TimeExpression) -> bool:
    """Tell whether two consecutive times are the ends of a range."""
    before, between = text[: first.at], text[first.at + len(first.text) : last.at]
    if _UNTIL.match(last.text) and not between.strip():
        return bool(_FROM.search(before)) or first.text.lower().startswith("from")
    ends = _BETWEEN.search(before) or first.text.lower().startswith("between")
    return bool(_TO.fullmatch(between) or (ends and _AND.fullmatch(between)))


def _bounds(text: str, time: TimeExpression) -> bool:
    before, after = text[: time.at], text[time.at + len(time.text) :]
    return bool(_BOUNDS.search(before) or _BOUNDING.match(time.text) or _ONWARDS.match(after))


def period_filters(times: Sequence[TimeExpression], filters: Filters, now: datetime) -> dict[str, Any] | None:
    """Return filters for records made from the first of `times` until soon after the last.

    They stay within the request's `filters`. None if there is no time, if all times are later than `now`, or if
    the request's filters exclude all of them.
    """
    times = [time for time in times if time.start <= min(now, filters.as_of or now)]
    if not times:
        return None
    start = max([min(time.start for time in times), *filter(None, [filters.start_time])])
    end = min([max(map(_recall_end, times)), *filter(None, [filters.end_time])])
    return {"start_time": start.isoformat(), "end_time": end.isoformat()} if start < end else None


def time_fit(entry: PoolEntry, times: Sequence[TimeExpression]) -> float:
    """Return how well a record fits the best of `times`, in [0,1].

    1 if the record was made then, and 0.5 if soon after: within the length of the time itself, but at least a day and
    at most a week. A text that names a time fits by the share of the named time that is within one of `times`:
    "yesterday" may be about a given day, "this year" hardly is.
    """
    if not times:
        return 0.0
    made = entry_created_at(entry)
    return max(_fit(entry, made, time) for time in times)


def matches_time(entry: PoolEntry, wanted: TimeExpression) -> bool:
    """Tell whether a record was made in a time, or its text names a time that overlaps it."""
    made = entry_created_at(entry)
    return _made_in(made, wanted) or any(_share(named, wanted) for named in _named_times(entry, made))


def entry_created_at(entry: PoolEntry) -> datetime | None:
    """Return when a record was made, if that is known."""
    moment = entry["record"].get("created_at")
    return datetime.fromisoformat(moment) if moment else None


def _named_times(entry: PoolEntry, made: datetime | None) -> tuple[TimeExpression, ...]:
    """Return the times that a record's text names; relative ones count from when it was made."""
    return parse_times(entry["record"]["text"], made or _EPOCH)


def _fit(entry: PoolEntry, made: datetime | None, time: TimeExpression) -> float:
    if _made_in(made, time):
        return 1.0
    soon = _SOON_AFTER if made is not None and time.end <= made < _recall_end(time) else 0.0
    return max([soon, *(_share(named, time) for named in _named_times(entry, made))])


def _made_in(made: datetime | None, time: TimeExpression) -> bool:
    return made is not None and time.start <= made < time.end


def _share(named: TimeExpression, time: TimeExpression) -> float:
    """Return the share of a named time that is within another, in [0,1]."""
    common = min(named.end, time.end) - max(named.start, time.start)
    return max(common / (named.end - named.start), 0.0)


def _recall_end(time: TimeExpression) -> datetime:
    """Return the time until which people still talk about what happened in a time."""
    length = min(max(time.end - time.start, _MIN_AFTER), _MAX_AFTER)
    return time.end + min(length, LATEST - time.end)
