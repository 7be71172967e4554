"""The search: several queries at once, each fused, scored, cut to its limit and explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from recall_loop.memory.search.filtered_search import FilteredSearch
from recall_loop.memory.search.query.parsed_queries import ParsedQuery, parse_queries
from recall_loop.memory.search.query.query_preparation import PreparedQuery, SearchResponse, prepare_queries
from recall_loop.memory.search.rerank.rerank_stage import DEFAULT_SEARCH_PARTS, SearchParts, make_rerank_stage
from recall_loop.memory.search.search_tracing import observe_search
from recall_loop.memory.store.embed.embedders import known_languages, validate_vectors
from recall_loop.state.errors import EmbedderError, UnsupportedOptionError
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recall_loop.memory.search.rerank.rerank import Reranker
    from recall_loop.memory.store.store import MemoryStore


def search(
    store: MemoryStore,
    query: str,
    *,
    scope: Scope | None = None,
    params: SearchParams | None = None,
    reranker: Reranker | None = None,
    fallback: bool = True,
) -> SearchResponse:
    """Search one query; see `search_many`."""
    return search_many(store, [query], scope=scope, params=params, reranker=reranker, fallback=fallback)[0]


def search_many(
    store: MemoryStore,
    queries: Sequence[str],
    *,
    scope: Scope | None = None,
    params: SearchParams | None = None,
    filters: Sequence[Filters] | None = None,
    limits: Sequence[int] | None = None,
    modes: Sequence[SearchMode] | None = None,
    reranked: Sequence[bool] | None = None,
    spoken: Sequence[str] | None = None,
    vectors: NDArray[np.float32] | None = None,
    reranker: Reranker | None = None,
    parts: SearchParts = DEFAULT_SEARCH_PARTS,
    fallback: bool = True,
) -> list[SearchResponse]:
    """Search several queries with one embedding call and one pass through the store.

    Results are in the order of the queries. Scope and filters hold inside both retrievers (SEARCH-3). If the embedder
    fails, all are looked up by words alone, and `degraded_reason` says so.

    Args:
        store: the store to search.
        queries: the queries; each may end in a time, such as `< 3 days` (SEARCH-10).
        scope: the records to search; absent = the default tenant.
        params: the options of all queries; None = the defaults.
        filters: filters for each query instead of those of `params`.
        limits: a limit for each query (1–1000) instead of that of `params`.
        modes: a mode for each query instead of that of `params`.
        reranked: for each query, whether it is reranked as `params` say; queries that only support others needn't be.
            None = all.
        spoken: a wording of each query that is embedded in its place.
        vectors: vectors [q, d]; then nothing is embedded.
        reranker: reorders the best candidates instead of the built-in late interaction; see
            `recall_loop.memory.search.rerank.rerank.as_reranker`.
        parts: the functions that the search uses; replaced only for measurements.
        fallback: whether words are enough if the embedder fails; they never are for mode `vector` or with `vectors`.

    Raises:
        InvalidInputError: a blank query, one that isn't valid Unicode, or lists whose lengths don't fit.
        StoreUnavailableError: the store can't be read.
        UnsupportedOptionError: `rerank` is requested, and the store can't do it; vectors are given for mode `fts`, or
            `fuzzy` for mode `vector`.
        EmbedderError: the embedder fails and there is no `fallback`, or the given vectors don't fit.
    """
    params, scope = params or SearchParams(), scope or Scope()
    with observe_search(params.mode) as responses:
        params.check_supported()
        languages = None if vectors is not None else known_languages(store.embedder)
        parsed = parse_queries(
            queries,
            params,
            spoken=spoken,
            limits=limits,
            filters=filters,
            modes=modes,
            reranked=reranked,
            languages=languages,
        )
        responses.extend(_answers(store, scope, params, parsed, vectors, reranker, parts, fallback=fallback))
    return responses


def _answers(
    store: MemoryStore,
    scope: Scope,
    params: SearchParams,
    queries: Sequence[ParsedQuery],
    vectors: NDArray[np.float32] | None,
    reranker: Reranker | None,
    parts: SearchParts,
    *,
    fallback: bool,
) -> list[SearchResponse]:
    """Prepare all queries at once, and answer those with the same filters together."""
    searches = {
        narrowed: FilteredSearch.open(store, scope, narrowed, params, parts.fusion)
        for narrowed in dict.fromkeys(query.filters for query in queries)
    }
    if vectors is not None:
        vectors = _given_vectors(store, vectors, len(queries), params.mode)
    stage = make_rerank_stage(store, scope, params, reranker, given=vectors is not None, gains=parts.gains)
    views = [searches[query.filters].view for query in queries]
    readable = store.view(scope).snapshot_view(views[0]) if views else store.view(scope)
    try:
        prepared = prepare_queries(store, views, readable, queries, vectors, with_tokens=stage.with_tokens)
    except EmbedderError as error:
        needs_vectors = vectors is not None or any(query.options.mode is SearchMode.VECTOR for query in queries)
        if needs_vectors or not fallback:
            raise
        return _answers_by_words(error, store, scope, params, queries, reranker, parts)
    answers: dict[PreparedQuery, SearchResponse] = {}
    for narrowed, filtered in searches.items():
        answers |= filtered.answer([query for query in prepared if query.parsed.filters == narrowed], stage)
    return [answers[query] for query in prepared]


def _answers_by_words(
    error: EmbedderError,
    store: MemoryStore,
    scope: Scope,
    params: SearchParams,
    queries: Sequence[ParsedQuery],
    reranker: Reranker | None,
    parts: SearchParts,
) -> list[SearchResponse]:
    """Answer queries that can't be embedded, and say why."""
    worded = [replace(query, options=_by_words(query.options)) for query in queries]
    found = _answers(store, scope, _by_words(params), worded, None, reranker, parts, fallback=False)
    reason = words_alone(error.told)
    return [replace(each, degraded_reason="; ".join(filter(None, (each.degraded_reason, reason)))) for each in found]


def _by_words(options: SearchParams) -> SearchParams:
    """Return the options without what has to be embedded."""
    return options.model_copy(update={"mode": SearchMode.FTS, "rerank": False if options.rerank is False else None})


def words_alone(failure: str) -> str:
    """Return the reason for a search by words alone, as results give it."""
    return f"searched by words alone: {failure}"


def _given_vectors(
    store: MemoryStore, vectors: NDArray[np.float32], count: int, mode: SearchMode
) -> NDArray[np.float32]:
    if mode is SearchMode.FTS:
        raise UnsupportedOptionError("vectors", f"{count} vectors", "none: mode fts looks up words alone")
    return validate_vectors(store.embedder, vectors, count, store.dimension)
