"""The search itself: several queries over one view, each fused, scored, cut and explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.search.query.query_preparation import PreparedQuery, prepare_queries
from recall_loop.memory.search.query.query_spec import parse_queries
from recall_loop.memory.search.query.search_response import SearchResponse
from recall_loop.memory.search.rerank.rerank_stage import RerankStage, make_rerank_stage
from recall_loop.memory.search.rerank.search_parts import DEFAULT_SEARCH_PARTS, SearchParts
from recall_loop.memory.search.rerank.top_k import EARLIEST_TIME, RankedRow, score_candidates, select_top, to_hits
from recall_loop.memory.search.scoring.candidates import LEXICAL_DEPTH, VECTOR_DEPTH, VectorRetriever
from recall_loop.memory.search.scoring.features import CandidatePool, TermStatistics, compute_features
from recall_loop.memory.search.search_tracing import with_telemetry
from recall_loop.memory.store.embed.embedders import validate_vectors
from recall_loop.state.errors import UnsupportedOptionError
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType, SearchMode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.search.rerank.rerank import Reranker
    from recall_loop.memory.search.scoring.fusion import Fusion
    from recall_loop.memory.store.index.view import View
    from recall_loop.memory.store.sqlite.rows import Row
    from recall_loop.memory.store.store import MemoryStore

# Rows that are all looked at where a least similarity is asked for.
_MAX_COMPARED = 20_000


def search(
    store: MemoryStore,
    query: str,
    *,
    scope: Scope | None = None,
    params: SearchParams | None = None,
    reranker: Reranker | None = None,
) -> SearchResponse:
    """Search one query; see `search_many`."""
    return search_many(store, [query], scope=scope, params=params, reranker=reranker)[0]


@with_telemetry
def search_many(
    store: MemoryStore,
    queries: Sequence[str],
    *,
    scope: Scope | None = None,
    params: SearchParams | None = None,
    filters: Sequence[Filters] | None = None,
    limits: Sequence[int] | None = None,
    spoken: Sequence[str] | None = None,
    vectors: NDArray[np.float32] | None = None,
    reranker: Reranker | None = None,
    parts: SearchParts = DEFAULT_SEARCH_PARTS,
) -> list[SearchResponse]:
    """Search several queries at once; one embedding call and one pass over the store serve them all.

    Results are in the order of the queries. Scope and filters hold inside both legs (SEARCH-3).

    Args:
        store: the store to search.
        queries: what to look for; each may end in a time, such as `< 3 days` (SEARCH-10).
        scope: who may see what; absent = the default tenant.
        params: the options of all queries; None = the defaults.
        filters: filters for each query instead of those of `params`.
        limits: a limit for each query (1–1000) instead of that of `params`.
        spoken: a wording of each query that is embedded instead of it.
        vectors: float32 [q, d] of length one; nothing is embedded.
        reranker: orders the best candidates anew instead of the built-in late interaction; see
            `recall_loop.memory.search.rerank.custom_rerankers.as_reranker`.
        parts: what the search is made of; measurements hand in others.

    Raises:
        InvalidInputError: a blank query, one that isn't valid Unicode, or lists whose lengths don't fit.
        StoreUnavailableError: the store can't be read.
        UnsupportedOptionError: `rerank` is asked for, and the store can't do it; vectors are given for mode `fts`, or
            `fuzzy` for mode `vector`.
        EmbedderError: the embedder fails and the mode needs it.
    """
    params = params or SearchParams()
    params.check_supported()
    asked = parse_queries(queries, params, spoken=spoken, limits=limits, filters=filters)
    narrowings = dict.fromkeys(query.filters for query in asked)
    places = {
        narrowed: _FilteredSearch.of(store, scope or Scope(), narrowed, params, parts.fusion) for narrowed in narrowings
    }
    known = None if vectors is None else _validate_given(store, vectors, len(queries), params)
    stage = make_rerank_stage(store, scope or Scope(), params, reranker, given=known is not None, gains=parts.gains)
    looked = prepare_queries(
        store, [places[query.filters].view for query in asked], asked, known, with_tokens=stage.with_tokens
    )
    found: dict[int, SearchResponse] = {}
    for narrowed, place in places.items():
        numbers = [number for number, query in enumerate(asked) if query.filters == narrowed]
        responses = place.answer([looked[number] for number in numbers], stage)
        found |= zip(numbers, responses, strict=True)
    return [found[number] for number in range(len(queries))]


def _validate_given(
    store: MemoryStore, vectors: NDArray[np.float32], count: int, params: SearchParams
) -> NDArray[np.float32]:
    """Return the vectors that the caller gave, checked; words alone have no use for them."""
    if params.mode is SearchMode.FTS:
        raise UnsupportedOptionError("vectors", f"{count} vectors", "none: mode fts looks up words alone")
    return validate_vectors(store.embedder, vectors, count, store.dimension)


@dataclass(frozen=True)
class _FilteredSearch:
    """Where queries with the same filters are looked up.

    `parts` are the views of single content types: each has proposals of its own, or one that matches better would
    starve the others (SEARCH-7). With a shared limit there is one part.
    """

    store: MemoryStore
    scope: Scope
    filters: Filters
    kinds: tuple[ContentType, ...]
    view: View
    parts: tuple[View, ...]
    fusion: Fusion

    @classmethod
    def of(
        cls, store: MemoryStore, scope: Scope, filters: Filters, params: SearchParams, fusion: Fusion
    ) -> _FilteredSearch:
        """Open the views."""
        kinds = params.content_types or filters.default_content_types
        view = store.view(scope, filters, kinds).snapshot_view()
        if not params.limit_per_type or len(kinds) == 1:
            return cls(store, scope, filters, kinds, view, (view,), fusion)
        parts = (store.view(scope, filters, (kind,)).snapshot_view(view) for kind in kinds)
        return cls(store, scope, filters, kinds, view, tuple(part for part in parts if part.count()), fusion)

    def answer(self, queries: Sequence[PreparedQuery], stage: RerankStage) -> list[SearchResponse]:
        """Return the responses to queries that are looked up here."""
        allowed = self.view.count()
        picks: dict[PreparedQuery, Sequence[RankedRow]] = {}
        if allowed:
            picks |= self._found([query for query in queries if query.parsed.text], stage)
            picks |= {query: self._newest(query.parsed.options.limit) for query in queries if not query.parsed.text}
        rows = self.view.rows({chosen.rowid for part in picks.values() for chosen in part})
        return [self._response(query, rows, picks.get(query, ()), allowed, stage.reason) for query in queries]

    def _response(
        self,
        query: PreparedQuery,
        rows: Mapping[int, Row],
        picks: Sequence[RankedRow],
        allowed: int,
        reason: str | None,
    ) -> SearchResponse:
        return SearchResponse(
            query=query.parsed.query,
            hits=to_hits(rows, picks, query.parsed.options),
            scope=self.scope,
            filters=self.filters,
            content_types=self.kinds,
            legs=query.legs,
            generation=self.store.generation,
            allowed=allowed,
            degraded_reason=self.store.degraded_reason or reason,
            corrected=query.corrected,
            time_range=query.parsed.time,
        )

    def _newest(self, limit: int) -> list[RankedRow]:
        """Return what a query asks for that names a time and nothing else: everything of that time, newest first."""
        rows = self.view.rows(rowid for part in self.parts for rowid in part.newest(limit)).values()
        latest = sorted(rows, key=lambda row: row.record.created_at or EARLIEST_TIME, reverse=True)
        return [RankedRow(row.rowid, 1.0, 1.0, None) for row in latest]

    def _found(self, queries: Sequence[PreparedQuery], stage: RerankStage) -> dict[PreparedQuery, Sequence[RankedRow]]:
        """Find results; where a least similarity leaves too few of the usual candidates, look at everything."""
        picks = self._chosen(queries, stage, everything=False)
        if self.filters.min_similarity:
            short = [query for query in queries if len(picks.get(query, ())) < self._most(query) and self._more(query)]
            picks |= self._chosen(short, stage, everything=True)
        return picks

    def _more(self, query: PreparedQuery) -> bool:
        """Return whether there are rows that neither leg has to have proposed."""
        return self.view.count() > VECTOR_DEPTH * query.parsed.options.limit

    def _most(self, query: PreparedQuery) -> int:
        """Return how many results there can be."""
        return sum(min(query.parsed.options.limit, part.count()) for part in self.parts)

    def _chosen(
        self, queries: Sequence[PreparedQuery], stage: RerankStage, *, everything: bool
    ) -> dict[PreparedQuery, Sequence[RankedRow]]:
        """Propose candidates for each query, describe them and keep the best."""
        if not queries:
            return {}
        near, words = self._vector_leg(queries, everything=everything), TermStatistics.of(self.view, queries)
        proposed = [self._proposed(query, near, words, everything=everything) for query in queries]
        pool = CandidatePool.of(self.view, proposed)
        places = [pool.positions_of(rowids) for rowids in proposed]
        picks: dict[PreparedQuery, Sequence[RankedRow]] = {}
        # A query without words is judged by meaning alone, whatever the others have.
        for worded in (True, False):
            pairs = zip(queries, places, strict=True)
            alike = [(query, part) for query, part in pairs if len(part) and bool(query.groups) is worded]
            picks |= self._picked(alike, pool, words, stage)
        return picks

    def _picked(
        self,
        alike: Sequence[tuple[PreparedQuery, NDArray[np.int64]]],
        pool: CandidatePool,
        words: TermStatistics,
        stage: RerankStage,
    ) -> dict[PreparedQuery, Sequence[RankedRow]]:
        """Describe the candidates of queries that run the same legs, and keep the best of each."""
        if not alike:
            return {}
        queries, options = [query for query, _ in alike], alike[0][0].parsed.options
        described = compute_features(pool, [places for _, places in alike], queries, words)
        parts = score_candidates(described, options, self.fusion)
        ordered = stage.apply(self.view, queries, parts)
        return {
            query: select_top(part, query.parsed.options, self.filters)
            for query, part in zip(queries, ordered, strict=True)
        }

    def _vector_leg(self, queries: Sequence[PreparedQuery], *, everything: bool) -> VectorRetriever | None:
        """Compare all vectors of all queries at once; None where there are none."""
        vectors = {query: query.vectors for query in queries if query.vectors is not None}
        if not vectors:
            return None
        depth = max(self._depth(query, VECTOR_DEPTH, everything=everything) for query in queries)
        return VectorRetriever(self.view, self.parts, vectors, depth)

    def _proposed(
        self, query: PreparedQuery, near: VectorRetriever | None, words: TermStatistics, *, everything: bool
    ) -> NDArray[np.int64]:
        """Return the rowids that the legs propose for one query, ascending."""
        found = [np.zeros(0, dtype=np.int64)]
        if near is not None:
            found += near.top_rowids(query, self._depth(query, VECTOR_DEPTH, everything=everything))
        weights = words.weights(query) if "fts" in query.legs else []
        if weights:
            depth = self._depth(query, LEXICAL_DEPTH, everything=everything)
            found += [part.top_by_stems(weights, depth) for part in self.parts]
        return np.unique(np.concatenate(found))

    def _depth(self, query: PreparedQuery, factor: int, *, everything: bool) -> int:
        """Return how many rows a leg proposes; `everything` is up to 20,000."""
        depth = factor * query.parsed.options.limit
        return max(depth, min(self.view.count(), _MAX_COMPARED)) if everything else depth
