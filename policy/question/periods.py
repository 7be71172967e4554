"""Periods: what was made in a time that a question names, or told of it soon after (QUERY-1, RANK-3).

What happened in July was said in July or soon after it, and hardly ever in words that name the month. So records of
that time are looked up among themselves, and put before others in the final order. A time that only bounds what is
asked (since July, as of July) says nothing of when it was said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from recall_loop.state.agent_state import PoolEntry
from recall_loop.state.scope import Filters
from recall_loop.text.time.dates import LATEST
from recall_loop.text.time.time_expressions import TimeExpression, parse_times

READ_CHARACTERS = 20_000
"""Longer texts are read up to here."""
_LEAST_AFTER, _MOST_AFTER = timedelta(days=1), timedelta(days=7)
_SOON_AFTER = 0.5
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
    """Return the times in which `text` places what is asked, of those that it names; ranges count as one.

    "Between March and May" is all of March to May. What only bounds ("since May") is left out.
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
    """Tell whether two times that follow each other are the ends of a range."""
    before, between = text[: first.at], text[first.at + len(first.text) : last.at]
    if _UNTIL.match(last.text) and not between.strip():
        return bool(_FROM.search(before)) or first.text.lower().startswith("from")
    ends = _BETWEEN.search(before) or first.text.lower().startswith("between")
    return bool(_TO.fullmatch(between) or (ends and _AND.fullmatch(between)))


def _bounds(text: str, time: TimeExpression) -> bool:
    before, after = text[: time.at], text[time.at + len(time.text) :]
    return bool(_BOUNDS.search(before) or _BOUNDING.match(time.text) or _ONWARDS.match(after))


def period_filters(times: Sequence[TimeExpression], own: Filters, now: datetime) -> dict[str, Any] | None:
    """Return filters for what was made from the first of `times` until soon after the last, inside of `own`.

    None where there is no time, where all of them are later than `now`, or where `own` leaves nothing of them.
    """
    times = [time for time in times if time.start <= min(now, own.as_of or now)]
    if not times:
        return None
    starts = [min(time.start for time in times), *filter(None, [own.start_time])]
    ends = [max(map(_recall_end, times)), *filter(None, [own.end_time])]
    if max(starts) >= min(ends):
        return None
    return {"start_time": max(starts).isoformat(), "end_time": min(ends).isoformat()}


def time_fit(entry: PoolEntry, times: Iterable[TimeExpression]) -> float:
    """Return how well a record fits the best of `times`, in [0,1].

    1 if it was made then, 0.5 if soon after: within as long as the time itself is, at least a day and at most a week.
    A text that names a time fits by the share of that which lies in one of `times`: "yesterday" may tell of a day,
    "this year" hardly does.
    """
    made = entry_created_at(entry)
    return max((_fit(entry, made, time) for time in times), default=0.0)


def matches_time(entry: PoolEntry, wanted: TimeExpression) -> bool:
    """Tell whether a record was made in a time, or its text names a time that overlaps it."""
    made = entry_created_at(entry)
    return _made_in(made, wanted) or any(_share(named, wanted) for named in _named(entry, made))


def entry_created_at(entry: PoolEntry) -> datetime | None:
    """Return when a record was made."""
    moment = entry["record"].get("created_at")
    return datetime.fromisoformat(moment) if moment else None


def _named(entry: PoolEntry, made: datetime | None) -> tuple[TimeExpression, ...]:
    """Return the times that a record's text names, relative ones counted from when it was made."""
    return _times(entry["record"]["text"][:READ_CHARACTERS], made or datetime(1970, 1, 1, tzinfo=UTC))


@lru_cache(maxsize=4096)
def _times(text: str, reference: datetime) -> tuple[TimeExpression, ...]:
    return tuple(parse_times(text, reference))


def _fit(entry: PoolEntry, made: datetime | None, time: TimeExpression) -> float:
    if _made_in(made, time):
        return 1.0
    soon = _SOON_AFTER if made is not None and time.end <= made < _recall_end(time) else 0.0
    return max([soon, *(_share(named, time) for named in _named(entry, made))])


def _made_in(made: datetime | None, time: TimeExpression) -> bool:
    return made is not None and time.start <= made < time.end


def _share(named: TimeExpression, time: TimeExpression) -> float:
    """Return the share of a named time that lies within another, in [0,1]."""
    common = min(named.end, time.end) - max(named.start, time.start)
    return max(common / (named.end - named.start), 0.0)


def _recall_end(time: TimeExpression) -> datetime:
    """Return how long after a time people still tell of it."""
    length = min(max(time.end - time.start, _LEAST_AFTER), _MOST_AFTER)
    return time.end + min(length, LATEST - time.end)
