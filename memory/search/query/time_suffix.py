"""Time suffixes of a query as filters: `deploy < 3 days` asks for `deploy` within three days (SEARCH-10)."""

from __future__ import annotations

from datetime import datetime

from recall_loop.state.scope import Filters
from recall_loop.text.time.time_expressions import TimeRange, split_time_suffix


def apply_time_suffix(query: str, filters: Filters, reference: datetime) -> tuple[str, Filters]:
    """Return `query` without its time suffix, and `filters` with the range that the suffix means.

    `text/time/time_expressions.py` has the forms. They count from `reference` (without a zone: UTC). Times that
    `filters` gives win: a side that is given stays, and the suffix fills the other, unless the range would then be
    empty.
    A query without a suffix comes back as it is, with the same filters. One that is nothing but a suffix
    leaves "": it asks for everything in the range.
    """
    rest, span = split_time_suffix(query, reference)
    return (query, filters) if span is None else (rest.strip(), _filled(filters, span))


def _filled(filters: Filters, span: TimeRange) -> Filters:
    start = filters.start_time or span.start
    end = filters.end_time or span.end
    given = filters.start_time is not None or filters.end_time is not None
    if given and start is not None and end is not None and start >= end:
        return filters
    return filters.model_copy(update={"start_time": start, "end_time": end})
