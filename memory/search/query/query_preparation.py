"""Queries as they were asked, parsed, and prepared for searching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from recall_loop.memory.search.query.compounds import COMPOUNDING, CompoundVocabulary, with_compounds
from recall_loop.memory.search.query.fuzzy import (
    ReadableVocabulary,
    SpellingVocabulary,
    corrected_query,
    expand_query,
    term_groups,
)
from recall_loop.memory.search.query.lexical import TermGroup
from recall_loop.memory.store.embed.embedders import TokenEmbedder, validate_vectors
from recall_loop.policy.question.periods import event_times
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import SearchHit
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import DEFAULT_RERANK_POOL, MAX_RESULTS, SearchParams
from recall_loop.state.types import ContentType, SearchMode, no_surrogates
from recall_loop.text.time.dates import EARLIEST, span_stems
from recall_loop.text.time.time_expressions import TimeRange, parse_times, split_time_suffix
from recall_loop.text.words.tokens import text_language

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.index.view import View
    from recall_loop.memory.store.store import MemoryStore

    _Embedded = tuple[NDArray[np.float32], NDArray[np.float32] | None]


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
        """A group for each distinct stem of the query, in order, with the other forms that count for it."""
        return term_groups(self.text, self.options.language)

    @cached_property
    def time_groups(self) -> list[TermGroup]:
        """A group for each time in which the query places what it asks for."""
        times = event_times(self.text, parse_times(self.text, self.reference))
        found = (span_stems(time.start, time.end) for time in times)
        return [TermGroup(stems[0], tuple((stem, 1.0) for stem in stems), dated=True) for stems in found if stems]

    @property
    def words_first(self) -> bool:
        """Whether mode `auto` lets words decide, because the embedder doesn't know the language."""
        return self.options.mode is SearchMode.AUTO and not self.understood and bool(self.term_groups)

    @cached_property
    def legs(self) -> tuple[str, ...]:
        """Names of the retrievers that run: `fts`, `vector`, or `time` for a query that is nothing but a time."""
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
    """Return the queries with their wordings, options and filters: the same for all, or each its own.

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
    """Return the options of a query with a limit or a mode of its own; a large pool is for who wants many results."""
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


@dataclass(frozen=True, eq=False)
class PreparedQuery:
    """One query, ready to be searched.

    Attributes:
        parsed: the query.
        groups: stems that are looked up.
        vectors: float32 [v, d], of the query's wording and of its correction; None where no vectors are used.
        corrected: the query with likely misspellings mended, or None.
        tokens: token vectors [t, d] of the wording, for late interaction; None where it isn't wanted.
    """

    parsed: ParsedQuery
    groups: Sequence[TermGroup]
    vectors: NDArray[np.float32] | None
    corrected: str | None = None
    tokens: NDArray[np.float32] | None = None

    @property
    def is_reranked(self) -> bool:
        """Whether its best candidates are reranked, if there is a reranker."""
        return self.parsed.options.rerank is not False


def prepare_queries(
    store: MemoryStore,
    views: Sequence[View],
    readable: View,
    queries: Sequence[ParsedQuery],
    given: NDArray[np.float32] | None,
    *,
    with_tokens: bool,
) -> list[PreparedQuery]:
    """Prepare queries; `views` are where each is looked up, `given` their vectors if they needn't be embedded.

    Words are corrected by those of the view `readable`: all that the caller may read, whatever the filters.

    Corrections are embedded beside them, and with `with_tokens` the token vectors of each wording are kept.

    Raises:
        EmbedderError: the embedder fails and the mode needs it.
    """
    spelt = [_spelling(query, view, readable) for query, view in zip(queries, views, strict=True)]
    texts = [
        _texts_to_embed(query, view, corrected, with_wording=given is None)
        for query, view, (_, corrected) in zip(queries, views, spelt, strict=True)
    ]
    embedded = _embed(store, list(dict.fromkeys(chain.from_iterable(texts))), with_tokens=with_tokens)
    prepared = []
    for number, (query, (groups, corrected)) in enumerate(zip(queries, spelt, strict=True)):
        made = [embedded[text] for text in texts[number]]
        vectors = [vector for vector, _ in made]
        if given is not None and "vector" in query.legs:
            vectors.insert(0, given[number])
        tokens = made[0][1] if made and given is None else None
        prepared.append(PreparedQuery(query, groups, np.stack(vectors) if vectors else None, corrected, tokens))
    return prepared


def _embed(store: MemoryStore, texts: list[str], *, with_tokens: bool) -> dict[str, _Embedded]:
    """Return by text its vector and, where they are wanted, its token vectors."""
    if not texts:
        return {}
    embedder = store.embedder
    tokens: Sequence[NDArray[np.float32] | None] = [None] * len(texts)
    if with_tokens and isinstance(embedder, TokenEmbedder):
        vectors, tokens = embedder.embed_queries_with_tokens(texts)
    else:
        vectors = embedder.embed_queries(texts)
    vectors = validate_vectors(embedder, vectors, len(texts), store.dimension)
    return dict(zip(texts, zip(vectors, tokens, strict=True), strict=True))


def _spelling(query: ParsedQuery, view: View, readable: View) -> tuple[list[TermGroup], str | None]:
    """Return the query's groups of stems, and with fuzzy search the query with likely misspellings mended, if any."""
    level = query.options.fuzzy
    groups, corrected = query.term_groups, None
    if "fts" not in query.legs or not view.count():
        return groups + query.time_groups, None
    if level:
        whole = readable.derived_from_vocabulary(SpellingVocabulary)
        vocabulary = ReadableVocabulary(whole, readable.frequency_within)
        groups = expand_query(query.text, vocabulary, level, query.options.language)
        corrected = corrected_query(query.embedded_text, vocabulary, level)
    if (query.options.language or text_language(query.text)) in COMPOUNDING:
        compounds = readable.derived_from_vocabulary(CompoundVocabulary)
        groups = with_compounds(groups, compounds, readable.frequency_within)
    return groups + query.time_groups, corrected


def _texts_to_embed(query: ParsedQuery, view: View, corrected: str | None, *, with_wording: bool) -> list[str]:
    """Return what is embedded: the query's wording, unless its vector was given, and its correction beside it."""
    if "vector" not in query.legs or not view.count():
        return []
    return [text for text in (query.embedded_text if with_wording else None, corrected) if text]
