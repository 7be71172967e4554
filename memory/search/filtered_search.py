"""The search of queries with the same filters: candidates are proposed, scored, reranked and cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recall_loop.memory.search.query.query_preparation import PreparedQuery, SearchResponse
from recall_loop.memory.search.rerank.rerank_stage import RerankStage
from recall_loop.memory.search.rerank.top_k import RankedRow, score_candidates, select_top, to_hits
from recall_loop.memory.search.scoring.candidates import LEXICAL_DEPTH, VECTOR_DEPTH, VectorRetriever
from recall_loop.memory.search.scoring.features import CandidatePool, TermStatistics, compute_features
from recall_loop.memory.search.scoring.fusion import words_first
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType
from recall_loop.text.time.dates import EARLIEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.search.scoring.fusion import Fusion
    from recall_loop.memory.store.index.indexed_row import Row
    from recall_loop.memory.store.index.view import View
    from recall_loop.memory.store.store import MemoryStore

# Most rows that a search with a minimum similarity compares.
_MAX_COMPARED = 20_000
# From this share of a query's words in memory, words decide if the embedder doesn't know the language.
_ENOUGH_WORDS = 0.5


class _Signals(NamedTuple):
    """The signals by which a query is compared.

    Attributes:
        worded: whether it has words.
        legs: the retrievers that run.
        words_first: whether words decide, since memory has enough of them.
    """

    worded: bool
    legs: tuple[str, ...]
    words_first: bool

    @classmethod
    def of(cls, query: PreparedQuery, statistics: TermStatistics) -> _Signals:
        """Return the signals of one query."""
        words_first = query.parsed.words_first and statistics.share_known(query) >= _ENOUGH_WORDS
        return cls(bool(query.groups), query.parsed.legs, words_first)


@dataclass(frozen=True)
class FilteredSearch:
    """The search of queries with the same filters.

    `parts` are the views of single content types: each has its own candidates, or a type that matches better would
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
    def open(
        cls, store: MemoryStore, scope: Scope, filters: Filters, params: SearchParams, fusion: Fusion
    ) -> FilteredSearch:
        """Open the views."""
        kinds = params.content_types or filters.default_content_types
        view = store.view(scope, filters, kinds).snapshot_view()
        if not params.limit_per_type or len(kinds) == 1:
            return cls(store, scope, filters, kinds, view, (view,), fusion)
        parts = (store.view(scope, filters, (kind,)).snapshot_view(view) for kind in kinds)
        return cls(store, scope, filters, kinds, view, tuple(part for part in parts if part.count()), fusion)

    def answer(self, queries: Sequence[PreparedQuery], stage: RerankStage) -> dict[PreparedQuery, SearchResponse]:
        """Return the responses to queries; if a minimum similarity leaves too few results, compare every row."""
        ranked: dict[PreparedQuery, Sequence[RankedRow]] = {}
        allowed = self.view.count()
        if allowed:
            texts = [query for query in queries if query.parsed.text]
            ranked = self._rank(texts, stage, everything=False)
            if self.filters.min_similarity:
                ranked |= self._rank(
                    [query for query in texts if self._may_have_more(query, ranked)], stage, everything=True
                )
            ranked |= {query: self._newest(query.parsed.options.limit) for query in queries if not query.parsed.text}
        rows = self.view.rows({row.rowid for best in ranked.values() for row in best})
        reason = self.store.degraded_reason or stage.reason
        return {query: self._response(query, rows, ranked.get(query, ()), allowed, reason) for query in queries}

    def _response(
        self,
        query: PreparedQuery,
        rows: Mapping[int, Row],
        ranked: Sequence[RankedRow],
        allowed: int,
        reason: str | None,
    ) -> SearchResponse:
        return SearchResponse(
            query=query.parsed.query,
            hits=to_hits(rows, ranked, query.parsed.options),
            scope=self.scope,
            filters=self.filters,
            content_types=self.kinds,
            legs=query.parsed.legs,
            generation=self.store.generation,
            allowed=allowed,
            degraded_reason=reason,
            corrected=query.corrected,
            time_range=query.parsed.time,
        )

    def _newest(self, limit: int) -> list[RankedRow]:
        """Return the results of a query that is only a time: everything from that time, newest first."""
        rows = self.view.rows(rowid for part in self.parts for rowid in part.newest(limit)).values()
        latest = sorted(rows, key=lambda row: row.record.created_at or EARLIEST, reverse=True)
        return [RankedRow(row.rowid, 1.0, 1.0, None) for row in latest]

    def _may_have_more(self, query: PreparedQuery, ranked: Mapping[PreparedQuery, Sequence[RankedRow]]) -> bool:
        """Return whether a query has too few results although there are rows that no retriever had to propose."""
        limit = query.parsed.options.limit
        most = sum(min(limit, part.count()) for part in self.parts)
        return len(ranked.get(query, ())) < most and self.view.count() > VECTOR_DEPTH * limit

    def _rank(
        self, queries: Sequence[PreparedQuery], stage: RerankStage, *, everything: bool
    ) -> dict[PreparedQuery, Sequence[RankedRow]]:
        """Propose candidates for each query, score them and keep the best; `everything` compares up to 20,000 rows."""
        if not queries:
            return {}
        statistics = TermStatistics.from_view(self.view, queries)
        proposed = self._propose(queries, statistics, min(self.view.count(), _MAX_COMPARED) if everything else 0)
        pool = CandidatePool.from_proposals(self.view, proposed)
        positions = [pool.positions_of(rowids) for rowids in proposed]
        ranked: dict[PreparedQuery, Sequence[RankedRow]] = {}
        # A query without words is compared by meaning alone, one in an unknown language mostly by words.
        kinds = [_Signals.of(query, statistics) for query in queries]
        for kind in dict.fromkeys(kinds):
            found = zip(queries, positions, kinds, strict=True)
            alike = {query: part for query, part, own in found if len(part) and own == kind}
            if alike:
                ranked |= self._rank_alike(alike, pool, statistics, stage, words_go_first=kind.words_first)
        return ranked

    def _rank_alike(
        self,
        candidates: Mapping[PreparedQuery, NDArray[np.int64]],
        pool: CandidatePool,
        statistics: TermStatistics,
        stage: RerankStage,
        *,
        words_go_first: bool,
    ) -> dict[PreparedQuery, Sequence[RankedRow]]:
        """Score the candidates, positions in the pool, of queries with the same retrievers; keep the best of each."""
        queries = list(candidates)
        features = compute_features(pool, list(candidates.values()), queries, statistics)
        options = queries[0].parsed.options
        fusion = replace(self.fusion, combine=words_first) if words_go_first else self.fusion
        scored = score_candidates(features, options, fusion)
        if not words_go_first or options.rerank:
            scored = stage.apply(self.view, queries, scored)
        return {
            query: select_top(part, query.parsed.options, self.filters)
            for query, part in zip(queries, scored, strict=True)
        }

    def _propose(
        self, queries: Sequence[PreparedQuery], statistics: TermStatistics, least_depth: int
    ) -> list[NDArray[np.int64]]:
        """Return for each query the rowids that the retrievers propose, ascending; `least_depth` rows or more of each.

        All vectors of all queries are compared at once.
        """

        def depth(query: PreparedQuery, factor: int) -> int:
            return max(factor * query.parsed.options.limit, least_depth)

        deepest = max(depth(query, VECTOR_DEPTH) for query in queries)
        retriever = VectorRetriever(self.view, self.parts, queries, deepest)
        proposed = []
        for query in queries:
            rowids = retriever.top_rowids(query, depth(query, VECTOR_DEPTH))
            weights = statistics.weights(query) if "fts" in query.parsed.legs else []
            if weights:
                rowids += [part.top_by_stems(weights, depth(query, LEXICAL_DEPTH)) for part in self.parts]
            proposed.append(np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *rowids])))
        return proposed
