"""Queries as they were asked, their time suffixes, and the response to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from recall_loop.state.errors import InvalidInputError, display_value
from recall_loop.state.records.records import SearchHit
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import DEFAULT_RERANK_POOL, MAX_RESULTS, SearchParams
from recall_loop.state.types import ContentType, SearchMode, no_surrogates
from recall_loop.text.time.time_expressions import TimeRange, split_time_suffix
from recall_loop.text.words.tokens import stems


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


# Candidates that may be reranked for each result, beyond the usual pool.
RERANKED_PER_RESULT = 4


@dataclass(frozen=True)
class ParsedQuery:
    """One query as it was given, as it is looked up, as it is embedded, and how it is searched.

    Attributes:
        query: as given.
        text: what is looked up; empty where the query was nothing but a time.
        embedded_text: what is embedded.
        options: how it is searched.
        filters: what results must satisfy, the query's own time included.
        time: the time that the query itself names, as it was taken.
    """

    query: str
    text: str
    embedded_text: str
    options: SearchParams
    filters: Filters
    time: TimeRange | None = None

    @cached_property
    def stems(self) -> list[str]:
        """The distinct stems of the query, in order."""
        return list(dict.fromkeys(stems(self.text)))

    @cached_property
    def legs(self) -> tuple[str, ...]:
        """Names of the retrievers that run: `fts`, `vector`, or `time` for a query that is nothing but a time."""
        if not self.text:
            return ("time",)
        if self.options.mode is SearchMode.FTS:
            return ("fts",)
        if self.options.mode is SearchMode.VECTOR or not self.stems:
            return ("vector",)
        return ("fts", "vector")


def parse_queries(
    queries: Sequence[str],
    params: SearchParams,
    *,
    spoken: Sequence[str] | None,
    limits: Sequence[int] | None,
    filters: Sequence[Filters] | None,
) -> list[ParsedQuery]:
    """Return the queries with their wordings, options and filters: the same for all, or each its own.

    Raises:
        InvalidInputError: a blank query, one that isn't valid Unicode, or lists whose lengths don't fit.
    """
    each = [params.filters] * len(queries) if filters is None else filters
    for name, values in (("spoken", spoken), ("limits", limits), ("filters", each)):
        if values is not None and len(values) != len(queries):
            raise InvalidInputError(name, list(values), f"one for each of the {len(queries)} queries")
    for text in (*queries, *(spoken or ())):
        _check(text)
    reference = params.reference_time or datetime.now(UTC)
    parsed = []
    for number, (query, given) in enumerate(zip(queries, each, strict=True)):
        text, narrowed = apply_time_suffix(query, given, reference) if params.time_suffixes else (query, given)
        options = params if limits is None else _limited(params, limits[number])
        time = None if narrowed is given else TimeRange(narrowed.start_time, narrowed.end_time)
        parsed.append(ParsedQuery(query, text, spoken[number] if spoken else text, options, narrowed, time))
    return parsed


def _limited(params: SearchParams, limit: int) -> SearchParams:
    """Return the options of a query with a limit of its own; a large pool is for who wants many results."""
    if type(limit) is not int or not 1 <= limit <= MAX_RESULTS:
        raise InvalidInputError("limit", limit, f"an integer from 1 to {MAX_RESULTS}")
    pool = min(params.rerank_pool, max(DEFAULT_RERANK_POOL, RERANKED_PER_RESULT * limit))
    learned = params.rerank_learned and limit >= params.limit
    return params.model_copy(update={"limit": limit, "rerank_pool": pool, "rerank_learned": learned})


def _check(query: str) -> None:
    if not query.strip():
        raise InvalidInputError("query", query, "text with at least one character that is not white space")
    try:
        no_surrogates(query)
    except ValueError as error:
        raise InvalidInputError("query", display_value(query), str(error)) from error


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
