"""Queries as they were asked, parsed: their times, options and filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from recall_loop.memory.search.query.fuzzy import term_groups
from recall_loop.memory.search.query.lexical import TermGroup
from recall_loop.policy.question.periods import event_times
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Filters
from recall_loop.state.search import DEFAULT_RERANK_POOL, MAX_RESULTS, SearchParams
from recall_loop.state.types import SearchMode, no_surrogates
from recall_loop.text.time.dates import EARLIEST, span_stems
from recall_loop.text.time.time_expressions import TimeRange, parse_times, split_time_suffix
from recall_loop.text.words.tokens import text_language

# Candidates that may be reranked for each result, beyond the usual pool.
RERANKED_PER_RESULT = 4


def apply_time_suffix(query: str, filters: Filters, reference: datetime) -> tuple[str, Filters]:
    """Return `query` without its time suffix, and `filters` with the suffix's time range.

    `text/time/time_expressions.py` has the forms. They count from `reference` (without a zone: UTC). Times in `filters`
    take precedence: a given side stays, and the suffix fills the other, unless the range would then be empty.
    A query without a suffix is returned unchanged, with the same filters. A query that is only a suffix becomes "": it
    asks for everything in the range.
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


@dataclass(frozen=True)
class ParsedQuery:
    """One query: as given, as it is looked up and embedded, and its search options.

    Attributes:
        query: as given.
        text: the text that is looked up; empty if the query was only a time.
        embedded_text: the text that is embedded.
        options: how it is searched.
        filters: the filters on results, including the query's own time.
        time: the time range that was read from the query itself.
        understood: whether the store's embedder knows the query's language.
        reference: when it is asked.
    """

    query: str
    text: str
    embedded_text: str
    options: SearchParams
    filters: Filters
    time: TimeRange | None = None
    understood: bool = True
    reference: datetime = EARLIEST

    @cached_property
    def term_groups(self) -> list[TermGroup]:
        """A group for each distinct stem of the query, in order, with the other forms that count as it."""
        return term_groups(self.text, self.options.language)

    @cached_property
    def time_groups(self) -> list[TermGroup]:
        """A group for each time at which the event in the query took place."""
        times = event_times(self.text, parse_times(self.text, self.reference))
        found = (span_stems(time.start, time.end) for time in times)
        return [TermGroup(stems[0], tuple((stem, 1.0) for stem in stems), dated=True) for stems in found if stems]

    @property
    def words_first(self) -> bool:
        """Whether mode `auto` lets words decide, because the embedder doesn't know the language."""
        return self.options.mode is SearchMode.AUTO and not self.understood and bool(self.term_groups)

    @cached_property
    def legs(self) -> tuple[str, ...]:
        """Names of the retrievers that run: `fts`, `vector`, or `time` for a query that is only a time."""
        if not self.text:
            return ("time",)
        if self.options.mode is SearchMode.FTS:
            return ("fts",)
        if self.options.mode is SearchMode.VECTOR or not self.term_groups:
            return ("vector",)
        return ("fts", "vector")


def parse_queries(
    queries: Sequence[str],
    params: SearchParams,
    *,
    spoken: Sequence[str] | None,
    limits: Sequence[int] | None,
    filters: Sequence[Filters] | None,
    modes: Sequence[SearchMode] | None = None,
    reranked: Sequence[bool] | None = None,
    languages: frozenset[str] | None = None,
) -> list[ParsedQuery]:
    """Return the queries with their wordings, options and filters, which are shared or given for each query.

    `languages` are those that the embedder knows; None = any.

    Raises:
        InvalidInputError: a blank query, one that isn't valid Unicode, or lists whose lengths don't fit.
    """
    each = [params.filters] * len(queries) if filters is None else filters
    own = {"spoken": spoken, "limits": limits, "filters": each, "modes": modes, "reranked": reranked}
    for name, values in own.items():
        if values is not None and len(values) != len(queries):
            raise InvalidInputError(name, list(values), f"one for each of the {len(queries)} queries")
    for text in (*queries, *(spoken or ())):
        _check(text)
    reference = params.reference_time or datetime.now(UTC)
    parsed = []
    for number, (query, given) in enumerate(zip(queries, each, strict=True)):
        text, narrowed = apply_time_suffix(query, given, reference) if params.time_suffixes else (query, given)
        options = _own_options(
            params,
            None if limits is None else limits[number],
            None if modes is None else modes[number],
            reranked is None or reranked[number],
        )
        time = None if narrowed is given else TimeRange(narrowed.start_time, narrowed.end_time)
        understood = languages is None or (params.language or text_language(text)) in languages
        parsed.append(
            ParsedQuery(query, text, spoken[number] if spoken else text, options, narrowed, time, understood, reference)
        )
    return parsed


def _own_options(params: SearchParams, limit: int | None, mode: SearchMode | None, reranked: bool) -> SearchParams:
    """Return the options of a query with its own limit or mode; a large limit also widens the rerank pool."""
    own: dict[str, Any] = {} if reranked else {"rerank": False}
    if limit is not None:
        if type(limit) is not int or not 1 <= limit <= MAX_RESULTS:
            raise InvalidInputError("limit", limit, f"an integer from 1 to {MAX_RESULTS}")
        pool = min(params.rerank_pool, max(DEFAULT_RERANK_POOL, RERANKED_PER_RESULT * limit))
        own |= {"limit": limit, "rerank_pool": pool}
    if mode is not None:
        own["mode"] = mode
    return params.model_copy(update=own) if own else params


def _check(query: object) -> None:
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError("query", query, "text with at least one character that is not white space")
    try:
        no_surrogates(query)
    except ValueError as error:
        raise InvalidInputError("query", query, str(error)) from error
