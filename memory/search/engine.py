"""The search itself: several queries over one view, each fused, scored, cut and explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recall_loop.memory.search.candidates import (
    LEXICAL_DEPTH,
    VECTOR_DEPTH,
    Candidates,
    describe,
    lexical_ids,
    query_stems,
    space_of,
    vector_ids,
)
from recall_loop.memory.search.content_scoring import content_factor
from recall_loop.memory.search.fusion import fuse
from recall_loop.memory.search.options import SearchOptions, SearchResponse
from recall_loop.state.errors import InvalidInputError, shown
from recall_loop.state.records import SearchHit
from recall_loop.state.request import DEFAULT_CONTENT_TYPES
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType, OrderBy, SearchMode, no_surrogates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.rows import Row
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.memory.store.view import View

_DIGITS = 6


def search(
    store: MemoryStore,
    query: str,
    *,
    scope: Scope | None = None,
    filters: Filters | None = None,
    content_types: Sequence[ContentType] = DEFAULT_CONTENT_TYPES,
    options: SearchOptions | None = None,
) -> SearchResponse:
    """Search one query; see `search_many`."""
    return search_many(store, [query], scope=scope, filters=filters, content_types=content_types, options=options)[0]


def search_many(
    store: MemoryStore,
    queries: Sequence[str],
    *,
    scope: Scope | None = None,
    filters: Filters | None = None,
    content_types: Sequence[ContentType] = DEFAULT_CONTENT_TYPES,
    options: SearchOptions | None = None,
    limits: Sequence[int] | None = None,
) -> list[SearchResponse]:
    """Search several queries at once; one embedding call and one pass over the store serve them all.

    Results are in the order of the queries. Scope and filters hold inside both legs (SEARCH-3).
    `limits` gives each query a limit of its own (1–1000) instead of the options'.

    Raises:
        InvalidInputError: a blank query, one that isn't valid Unicode, or limits that don't fit.
        StoreUnavailableError: the store can't be read.
        EmbedderError: the embedder fails and the mode needs it.
    """
    for query in queries:
        _check_query(query)
    chosen = options or SearchOptions()
    each = [chosen] * len(queries) if limits is None else _each(chosen, limits, len(queries))
    asked_scope, asked_filters = scope or Scope(), filters or Filters()
    kinds = tuple(content_types)
    view = store.view(asked_scope, asked_filters, kinds)
    allowed = view.count()
    legs = _legs(chosen.mode)
    hits = _search(store, view, queries, legs, each, asked_filters) if allowed else [()] * len(queries)
    return [
        SearchResponse(
            query=query,
            hits=found,
            scope=asked_scope,
            filters=asked_filters,
            content_types=kinds,
            legs=legs,
            generation=store.generation,
            allowed=allowed,
            degraded_reason=store.degraded_reason,
        )
        for query, found in zip(queries, hits, strict=True)
    ]


def _check_query(query: str) -> None:
    if not query.strip():
        raise InvalidInputError("query", query, "text with at least one character that is not white space")
    try:
        no_surrogates(query)
    except ValueError as error:
        raise InvalidInputError("query", shown(query), str(error)) from error


def _legs(mode: SearchMode) -> tuple[str, ...]:
    if mode is SearchMode.VECTOR:
        return ("vector",)
    return ("fts",) if mode is SearchMode.FTS else ("fts", "vector")


def _each(options: SearchOptions, limits: Sequence[int], queries: int) -> list[SearchOptions]:
    if len(limits) != queries:
        raise InvalidInputError("limits", list(limits), f"one limit for each of the {queries} queries")
    return [replace(options, limit=limit) for limit in limits]


def _search(
    store: MemoryStore,
    view: View,
    queries: Sequence[str],
    legs: tuple[str, ...],
    options: Sequence[SearchOptions],
    filters: Filters,
) -> list[tuple[SearchHit, ...]]:
    """Propose candidates for each query, describe them and keep the best."""
    vectors = store.embedder.embed_queries(list(queries)) if "vector" in legs else None
    space = space_of(view) if vectors is not None else None
    deepest = max(VECTOR_DEPTH * each.limit for each in options)
    near = vector_ids(view, space, vectors, deepest) if vectors is not None else [[] for _ in queries]
    results = []
    for index, (query, each) in enumerate(zip(queries, options, strict=True)):
        words = lexical_ids(view, query_stems(query), LEXICAL_DEPTH * each.limit) if "fts" in legs else []
        rowids = sorted({*words, *near[index][: VECTOR_DEPTH * each.limit]})
        rows = list(view.rows(rowids).values())
        vector = vectors[index] if vectors is not None else None
        found = describe(view, space, rows, query, vector, "fts" in legs) if rows else None
        results.append(_best(found, each, filters) if found else ())
    return results


def _best(found: Candidates, options: SearchOptions, filters: Filters) -> tuple[SearchHit, ...]:
    """Fuse, scale by content, drop what is too dissimilar, and cut to the limit (SEARCH-5, SEARCH-7)."""
    places = [_session(row) for row in found.rows]
    fused = fuse(found.signals, found.named, places)
    similar = found.similarity
    if options.apply_content_scoring:
        factors = np.array([content_factor(row.record) for row in found.rows])
        fused, similar = fused * factors, similar * factors
    least = filters.min_similarity or 0.0
    counts: Counter[str] = Counter()
    hits: list[SearchHit] = []
    for index in _order(fused, found.rows):
        row = found.rows[index]
        bucket = row.kind if options.limit_per_type else ""
        if counts[bucket] >= options.limit or similar[index] < least:
            continue
        counts[bucket] += 1
        hits.append(_hit(found, index, float(fused[index]), float(similar[index]), options.debug))
    if options.order_by is OrderBy.CREATED_AT:
        hits.sort(key=lambda hit: hit.record.created_at.timestamp() if hit.record.created_at else 0.0, reverse=True)
    return tuple(hits)


def _order(fused: NDArray[np.float64], rows: list[Row]) -> list[int]:
    """Return indices, best first; ties by order of insertion, so that equal runs give equal results."""
    rowids = np.array([row.rowid for row in rows])
    return [int(index) for index in np.lexsort((rowids, -np.round(fused, _DIGITS)))]


def _session(row: Row) -> str | None:
    return row.place if row.record.session is not None else None


def _hit(found: Candidates, index: int, score: float, similar: float, debug: bool) -> SearchHit:
    row = found.rows[index]
    legs: dict[str, Any] | None = None
    if debug:
        legs = {name: _leg(signal, index) for name, signal in found.signals.items()}
    return SearchHit(
        record=row.record,
        similarity=round(min(max(similar, 0.0), 1.0), _DIGITS),
        score=round(min(max(score, 0.0), 1.0), _DIGITS),
        window=row.window if row.kind == ContentType.MESSAGE else "",
        debug=legs,
    )


def _leg(signal: NDArray[np.float64], index: int) -> dict[str, float]:
    """Return value and rank (1 = best) of one candidate in one leg."""
    value = float(signal[index])
    return {"score": round(value, _DIGITS), "rank": int((signal > signal[index]).sum()) + 1}
