"""The search itself: several queries over one view, each fused, scored, cut and explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from recall_loop.memory.search.candidates import (
    LEXICAL_DEPTH,
    VECTOR_DEPTH,
    Candidates,
    cosines_of,
    describe,
    lexical_ids,
    query_stems,
    vector_ids,
)
from recall_loop.memory.search.content_scoring import content_factor
from recall_loop.memory.search.fusion import fuse
from recall_loop.memory.search.options import SearchOptions, SearchResponse
from recall_loop.memory.store.embeddings import checked
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
_NO_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class _Asked:
    """One query as it is looked up, as it is embedded, and how it is searched."""

    text: str
    spoken: str
    options: SearchOptions


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
    spoken: Sequence[str] | None = None,
) -> list[SearchResponse]:
    """Search several queries at once; one embedding call and one pass over the store serve them all.

    Results are in the order of the queries. Scope and filters hold inside both legs (SEARCH-3).
    `limits` gives each query a limit of its own (1–1000) instead of the options'; `spoken` the wording of each
    that is embedded instead of the query itself.

    Raises:
        InvalidInputError: a blank query, one that isn't valid Unicode, or lists whose lengths don't fit.
        StoreUnavailableError: the store can't be read.
        EmbedderError: the embedder fails and the mode needs it.
    """
    chosen = options or SearchOptions()
    asked = _asked(queries, spoken, limits, chosen)
    asked_scope, asked_filters = scope or Scope(), filters or Filters()
    kinds = (ContentType(content_types),) if isinstance(content_types, str) else tuple(content_types)
    view = store.view(asked_scope, asked_filters, kinds)
    allowed = view.count()
    legs = _legs(chosen.mode)
    # Each content type has proposals of its own, or one that matches better would starve the others (SEARCH-7).
    apart = chosen.limit_per_type and len(kinds) > 1
    parts = [store.view(asked_scope, asked_filters, (kind,)) for kind in kinds] if apart else [view]
    parts = [part for part in parts if part.count()]
    hits = _search(store, view, parts, asked, legs, asked_filters) if allowed and asked else [()] * len(queries)
    return [
        SearchResponse(
            query=query,
            hits=found,
            scope=asked_scope,
            filters=asked_filters,
            content_types=kinds,
            legs=_legs(chosen.mode, query),
            generation=store.generation,
            allowed=allowed,
            degraded_reason=store.degraded_reason,
        )
        for query, found in zip(queries, hits, strict=True)
    ]


def _asked(
    queries: Sequence[str], spoken: Sequence[str] | None, limits: Sequence[int] | None, options: SearchOptions
) -> list[_Asked]:
    """Return the queries with their wordings and options, checked."""
    for name, values in (("spoken", spoken), ("limits", limits)):
        if values is not None and len(values) != len(queries):
            raise InvalidInputError(name, list(values), f"one for each of the {len(queries)} queries")
    for text in (*queries, *(spoken or ())):
        _check_query(text)
    wordings = spoken or queries
    each = [options] * len(queries) if limits is None else [replace(options, limit=limit) for limit in limits]
    return [_Asked(*parts) for parts in zip(queries, wordings, each, strict=True)]


def _check_query(query: str) -> None:
    if not query.strip():
        raise InvalidInputError("query", query, "text with at least one character that is not white space")
    try:
        no_surrogates(query)
    except ValueError as error:
        raise InvalidInputError("query", shown(query), str(error)) from error


def _legs(mode: SearchMode, query: str | None = None) -> tuple[str, ...]:
    if mode is SearchMode.FTS:
        return ("fts",)
    if mode is SearchMode.VECTOR or (query is not None and not query_stems(query)):
        return ("vector",)
    return ("fts", "vector")


def _search(
    store: MemoryStore,
    view: View,
    parts: Sequence[View],
    asked: Sequence[_Asked],
    legs: tuple[str, ...],
    filters: Filters,
) -> list[tuple[SearchHit, ...]]:
    """Propose candidates for each query, describe them and keep the best."""
    vectors = _embedded(store, [query.spoken for query in asked]) if "vector" in legs else None
    scan = view.scan(vectors) if vectors is not None else None
    deepest = max(VECTOR_DEPTH * query.options.limit for query in asked)
    near = [vector_ids(part, scan, vectors, deepest) for part in parts] if vectors is not None else []
    results: list[tuple[SearchHit, ...]] = []
    for index, query in enumerate(asked):
        depth = query.options.limit
        proposed = {rowid for found in near for rowid in found[index][: VECTOR_DEPTH * depth]}
        for part in parts if "fts" in legs else ():
            proposed.update(lexical_ids(part, query_stems(query.text), LEXICAL_DEPTH * depth))
        rows = list(view.rows(sorted(proposed)).values())
        if not rows:
            results.append(())
            continue
        cosines = None if vectors is None else cosines_of(view, scan, index, rows, vectors[index])
        results.append(_best(describe(view, rows, query.text, cosines, "fts" in legs), query.options, filters))
    return results


def _embedded(store: MemoryStore, texts: list[str]) -> NDArray[np.float32]:
    return checked(store.embedder, store.embedder.embed_queries(texts), len(texts), store.dimension)


def _best(found: Candidates, options: SearchOptions, filters: Filters) -> tuple[SearchHit, ...]:
    """Fuse, scale by content, drop what is too dissimilar, and cut to the limit (SEARCH-5, SEARCH-7)."""
    fused = fuse(found.signals, found.named, [row.session_place for row in found.rows])
    similar = found.similarity
    if options.apply_content_scoring and not all(row.is_plain for row in found.rows):
        factors = np.array([content_factor(row.record) for row in found.rows])
        fused, similar = fused * factors, similar * factors
    similar = similar.round(_DIGITS)  # what is shown is what a threshold is compared with
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
        hits.sort(key=lambda hit: hit.record.created_at or _NO_TIME, reverse=True)
    return tuple(hits)


def _order(fused: NDArray[np.float64], rows: list[Row]) -> list[int]:
    """Return indices, best first; ties by order of insertion, so that equal runs give equal results."""
    rowids = np.array([row.rowid for row in rows])
    return [int(index) for index in np.lexsort((rowids, -np.round(fused, _DIGITS)))]


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
