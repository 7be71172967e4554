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
from recall_loop.text.times import TimeExpression, parse_times

READ_CHARACTERS = 20_000
"""Longer texts are read up to here."""
_LEAST_AFTER, _MOST_AFTER = timedelta(days=1), timedelta(days=7)
_SOON_AFTER = 0.5
_BOUNDS = re.compile(r"\b(?:as of|by|until|till|up to|before|prior to|since|after) (?:the )?$", re.IGNORECASE)
_LATEST = datetime.max


def placing(text: str, times: Iterable[TimeExpression]) -> tuple[TimeExpression, ...]:
    """Return those of the times that `text` names in which it places what is asked, and that don't only bound it."""
    text = " ".join(text.split())
    before = ((time, text.partition(" ".join(time.text.split()))[0]) for time in times)
    return tuple(time for time, words in before if not _BOUNDS.search(words))


def within(times: Sequence[TimeExpression], own: Filters) -> dict[str, Any] | None:
    """Return filters for what was made from the first of `times` until soon after the last, inside of `own`.

    None where there is no time, or where `own` leaves nothing of it.
    """
    if not times:
        return None
    starts = [min(time.start for time in times), *filter(None, [own.start_time])]
    ends = [max(map(_until, times)), *filter(None, [own.end_time])]
    if max(starts) >= min(ends):
        return None
    return {"start_time": max(starts).isoformat(), "end_time": min(ends).isoformat()}


def fit(entry: PoolEntry, times: Iterable[TimeExpression]) -> float:
    """Return how well a record fits the best of `times`, in [0,1].

    1 if it was made then, 0.5 if soon after: within as long as the time itself is, at least a day and at most a week.
    A text that names a time fits by the share of that which lies in one of `times`: "yesterday" may tell of a day,
    "this year" hardly does.
    """
    made = created_at(entry)
    return max((_fit(entry, made, time) for time in times), default=0.0)


def tells_of(entry: PoolEntry, wanted: TimeExpression) -> bool:
    """Tell whether a record was made in a time, or its text names a time that overlaps it."""
    made = created_at(entry)
    if made is not None and wanted.start <= made < wanted.end:
        return True
    return any(time.start < wanted.end and wanted.start < time.end for time in _named(entry, made))


def created_at(entry: PoolEntry) -> datetime | None:
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
    if made is not None and time.start <= made < time.end:
        return 1.0
    soon = _SOON_AFTER if made is not None and time.end <= made < _until(time) else 0.0
    return max([soon, *(_share(named, time) for named in _named(entry, made))])


def _share(named: TimeExpression, time: TimeExpression) -> float:
    """Return the share of a named time that lies within another, in [0,1]."""
    common = min(named.end, time.end) - max(named.start, time.start)
    return max(common / (named.end - named.start), 0.0)


def _until(time: TimeExpression) -> datetime:
    """Return how long after a time people still tell of it."""
    length = min(max(time.end - time.start, _LEAST_AFTER), _MOST_AFTER)
    return time.end + min(length, _LATEST.replace(tzinfo=time.end.tzinfo) - time.end)
