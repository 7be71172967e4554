"""The response of a search (SEARCH-6)."""

from __future__ import annotations

from dataclasses import dataclass

from recall_loop.state.records.records import SearchHit
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType
from recall_loop.text.time.time_expressions import TimeRange


@dataclass(frozen=True)
class SearchResponse:
    """Results of one query, and what was searched.

    An empty `hits` with `allowed` > 0 means that nothing matched; with `allowed` = 0 that the scope
    and the filters leave no record at all. `filters` includes the time that the query itself named, `time_range`;
    `corrected` is the query with likely misspellings mended, where fuzzy search found any.
    """

    query: str
    hits: tuple[SearchHit, ...]
    scope: Scope
    filters: Filters
    content_types: tuple[ContentType, ...]
    legs: tuple[str, ...]
    generation: str
    allowed: int
    degraded_reason: str | None = None
    corrected: str | None = None
    time_range: TimeRange | None = None

    @property
    def degraded(self) -> bool:
        """Whether the store works without one of its parts; `degraded_reason` says which."""
        return self.degraded_reason is not None
