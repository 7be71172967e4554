"""The reranking stage, and the parts of a search that measurements may replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recall_loop.memory.search.rerank.late_interaction import LateInteractionReranker
from recall_loop.memory.search.rerank.learned import learned_gains, rerank_by_tokens
from recall_loop.memory.search.rerank.top_k import ScoredCandidates, rerank_candidates
from recall_loop.memory.search.scoring.fusion import DEFAULT_FUSION, Fusion
from recall_loop.memory.store.embed.embedders import TokenEmbedder
from recall_loop.memory.store.index.vector_search import top_positions
from recall_loop.state.errors import RecallError, UnsupportedOptionError
from recall_loop.state.types import SearchMode

if TYPE_CHECKING:
    from recall_loop.memory.search.query.query_preparation import PreparedQuery
    from recall_loop.memory.search.rerank.learned import OrderGains
    from recall_loop.memory.search.rerank.rerank import Reranker
    from recall_loop.memory.store.index.view import View
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.scope import Scope
    from recall_loop.state.search import SearchParams


@dataclass
class RerankStage:
    """Reranking for the queries of one call.

    Attributes:
        reranker: orders the best candidates; None = the stage doesn't run.
        reason: why the first order was kept despite a reranker, once that has happened.
        use_learned_order: whether the learned order is applied; not with the caller's own reranker.
        gains: returns the learned order's additions to scores.
    """

    reranker: Reranker | None = None
    reason: str | None = None
    use_learned_order: bool = False
    gains: OrderGains = learned_gains

    @property
    def with_tokens(self) -> bool:
        """Whether token vectors of the queries are needed."""
        return isinstance(self.reranker, LateInteractionReranker)

    def apply(
        self, view: View, queries: Sequence[PreparedQuery], parts: Sequence[ScoredCandidates]
    ) -> list[ScoredCandidates]:
        """Return each query's candidates with the stage's scores; those of a query without reranking stay."""
        reranked = {query: part for query, part in zip(queries, parts, strict=True) if query.is_reranked}
        if self.reranker is None or not reranked:
            return list(parts)
        if isinstance(self.reranker, LateInteractionReranker):
            try:
                _prepare(self.reranker, reranked)
            except RecallError as error:
                self._note(self.reranker, error)
                return list(parts)
        ordered = {query: self._ordered(view, query, part, self.reranker) for query, part in reranked.items()}
        return [ordered.get(query, part) for query, part in zip(queries, parts, strict=True)]

    def _ordered(
        self, view: View, query: PreparedQuery, part: ScoredCandidates, reranker: Reranker
    ) -> ScoredCandidates:
        if self.use_learned_order and isinstance(reranker, LateInteractionReranker):
            try:
                gains = self.gains if query.parsed.options.rerank_learned else None
                return rerank_by_tokens(view, query, part, reranker, gains)
            except RecallError as error:
                self._note(reranker, error)
                return part
        found, reason = rerank_candidates(
            view, part, query.parsed.embedded_text, reranker, pool=query.parsed.options.rerank_pool
        )
        self.reason = self.reason or reason
        return found

    def _note(self, reranker: Reranker, error: RecallError) -> None:
        self.reason = self.reason or f"reranker {reranker.name}: {error.told}"


def _prepare(reranker: LateInteractionReranker, found: Mapping[PreparedQuery, ScoredCandidates]) -> None:
    """Compare all queries with all their candidates at once."""
    reranker.query_tokens = {query.parsed.embedded_text: query.tokens for query in found if query.tokens is not None}
    candidates: dict[int, float] = {}
    for query, part in found.items():
        best = top_positions(part.scores, part.rowids, query.parsed.options.rerank_pool)
        for rowid, score in zip(part.rowids[best].tolist(), part.fused[best].tolist(), strict=True):
            candidates[rowid] = max(score, candidates.get(rowid, score))
    reranker.prepare([query.parsed.embedded_text for query in found], candidates)


def make_rerank_stage(
    store: MemoryStore,
    scope: Scope,
    options: SearchParams,
    own: Reranker | None,
    *,
    given: bool,
    gains: OrderGains = learned_gains,
) -> RerankStage:
    """Choose the reranker: the caller's own, or late interaction if token vectors are stored.

    By default (`rerank` None) the stage stays off if it would have to embed something first: if the store has no token
    vectors, the queries' vectors were `given`, or only words are looked up.

    Raises:
        UnsupportedOptionError: `rerank` is True and the embedder has no token vectors, or it is False and there
            is a caller's reranker.
    """
    if own is not None:
        if options.rerank is False:
            raise UnsupportedOptionError("rerank", False, "None or True: a reranker is given")
        return RerankStage(own)
    embedder = store.embedder
    source = None if options.rerank is False else store.token_source(scope.tenant)
    if source is None or not isinstance(embedder, TokenEmbedder):
        if options.rerank:
            raise UnsupportedOptionError(
                "rerank", True, f"False or None: embedder {embedder.name} has no token vectors"
            )
        return RerankStage()
    bare = given or options.mode is SearchMode.FTS
    if not options.rerank and (bare or not source.stored):
        return RerankStage()
    reranker = LateInteractionReranker(embedder, source, options.rerank_budget_ms)
    return RerankStage(reranker, use_learned_order=True, gains=gains)


@dataclass(frozen=True)
class SearchParts:
    """The functions that a search uses; the defaults are the product's own.

    Attributes:
        fusion: joins the signals of candidates into one score.
        gains: returns the learned order's additions to the scores of the best candidates.
    """

    fusion: Fusion = DEFAULT_FUSION
    gains: OrderGains = learned_gains


DEFAULT_SEARCH_PARTS = SearchParts()
