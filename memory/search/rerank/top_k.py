"""From signals to results: fused, scaled by content, reranked, and cut to the limit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recall_loop.memory.search.rerank.rerank import Candidate, run_reranker
from recall_loop.memory.search.scoring.fusion import DEFAULT_FUSION, Fusion, query_slices
from recall_loop.memory.store.index.vector_search import top_positions
from recall_loop.state.records.records import Alignment, SearchHit
from recall_loop.state.types import ContentType, OrderBy
from recall_loop.text.time.dates import EARLIEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.search.rerank.rerank import Reranker
    from recall_loop.memory.search.scoring.features import CandidateFeatures
    from recall_loop.memory.store.index.indexed_row import Row
    from recall_loop.memory.store.index.view import View
    from recall_loop.state.scope import Filters
    from recall_loop.state.search import SearchParams

_DIGITS = 6


class RankedRow(NamedTuple):
    """One result: a row with its score."""

    rowid: int
    score: float
    similarity: float
    debug_signals: dict[str, Any] | None
    alignment: Alignment | None = None


@dataclass(frozen=True)
class ScoredCandidates:
    """One query's candidates with their scores, each [n].

    Attributes:
        rowids: the rows.
        kind_codes: numbers of their content types.
        fused: the fused signals, or a reranker's scores.
        factors: the weight of each candidate's content (SEARCH-5).
        raw_similarity: similarities before that weighting.
        signals: the values of the retrievers, by name.
        author_named: 1 if the query names the author, else 0.
        session_codes: numbers of their sessions; -1 if they have none.
        tokens: mean of all and of the worst token matches of each [n, 2]; NaN if unknown. None if none were compared.
    """

    rowids: NDArray[np.int64]
    kind_codes: NDArray[np.int32]
    fused: NDArray[np.float64]
    factors: NDArray[np.float64]
    raw_similarity: NDArray[np.float64]
    signals: Mapping[str, NDArray[np.float64]]
    author_named: NDArray[np.float64]
    session_codes: NDArray[np.int32]
    tokens: NDArray[np.float64] | None = None

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Final ranking values, rounded as they are shown."""
        return (self.fused * self.factors).round(_DIGITS)

    @cached_property
    def similarity(self) -> NDArray[np.float64]:
        """Similarities, rounded as they are shown; thresholds are compared with the rounded values."""
        return (self.raw_similarity * self.factors).round(_DIGITS)

    def alignments(self, positions: Sequence[int]) -> list[Alignment | None]:
        """Return how well candidates' own words match; without token vectors the cosine replaces both means."""
        if "cosine" not in self.signals:
            return [None] * len(positions)
        cosines = [round(value, _DIGITS) for value in self.signals["cosine"][positions].tolist()]
        if self.tokens is None:
            return [Alignment(cosine, cosine, cosine) for cosine in cosines]
        return [
            Alignment(cosine, cosine, cosine)
            if math.isnan(mean)
            else Alignment(cosine, round(mean, _DIGITS), round(least, _DIGITS))
            for cosine, (mean, least) in zip(cosines, self.tokens[positions].tolist(), strict=True)
        ]


def score_candidates(
    found: CandidateFeatures, options: SearchParams, fusion: Fusion = DEFAULT_FUSION
) -> list[ScoredCandidates]:
    """Fuse the signals, weigh by content before anything is cut (SEARCH-5), and return each query's part."""
    fused = fusion.fuse(found.signals, found.author_named, found.session_codes, found.starts)
    factors = found.factors if options.apply_content_scoring else np.ones(len(fused))
    return [
        ScoredCandidates(
            rowids=found.rowids[part],
            kind_codes=found.kind_codes[part],
            fused=fused[part],
            factors=factors[part],
            raw_similarity=found.similarity[part],
            signals={name: signal[part] for name, signal in found.signals.items()},
            author_named=found.author_named[part],
            session_codes=found.session_codes[part],
        )
        for part in query_slices(found.starts, len(fused))
    ]


def rerank_candidates(
    view: View, part: ScoredCandidates, query: str, reranker: Reranker, *, pool: int
) -> tuple[ScoredCandidates, str | None]:
    """Reorder the best `pool` candidates with a reranker; with a reason if it failed and the first order was kept."""
    best = top_positions(part.scores, part.rowids, pool)
    rows = view.rows(part.rowids[best])
    best = best[[int(rowid) in rows for rowid in part.rowids[best]]]
    shown = []
    for rowid, score in zip(part.rowids[best].tolist(), part.fused[best].tolist(), strict=True):
        shown.append(Candidate(rows[rowid].record.id, rows[rowid].index_text, score, rowid))
    found = run_reranker(reranker, query, shown)
    fused = part.fused.copy()
    fused[best] = found.scores
    return replace(part, fused=fused), found.reason


def select_top(part: ScoredCandidates, options: SearchParams, filters: Filters) -> list[RankedRow]:
    """Drop candidates that are too dissimilar and cut to the limit, for each kind or all together (SEARCH-7)."""
    ranked = top_positions(part.scores, part.rowids, len(part.rowids))
    if filters.min_similarity:
        ranked = ranked[part.similarity[ranked] >= filters.min_similarity]
    if options.limit_per_type:
        kinds = part.kind_codes[ranked]
        places = [np.flatnonzero(kinds == kind)[: options.limit] for kind in np.unique(kinds)]
        ranked = ranked[np.sort(np.concatenate(places))] if places else ranked
    else:
        ranked = ranked[: options.limit]
    chosen = ranked.tolist()
    values = (part.rowids[chosen].tolist(), part.scores[chosen].tolist(), part.similarity[chosen].tolist())
    debug = [_debug_signals(part, position) if options.debug else None for position in chosen]
    return list(map(RankedRow, *values, debug, part.alignments(chosen)))


def _debug_signals(part: ScoredCandidates, position: int) -> dict[str, Any]:
    return {name: _signal_debug(signal, position) for name, signal in part.signals.items()}


def _signal_debug(signal: NDArray[np.float64], position: int) -> dict[str, float]:
    """Return the value and rank (1 = best) of one candidate for one signal."""
    value = float(signal[position])
    return {"score": round(value, _DIGITS), "rank": int((signal > signal[position]).sum()) + 1}


def to_hits(rows: Mapping[int, Row], picks: Sequence[RankedRow], options: SearchParams) -> tuple[SearchHit, ...]:
    """Return the results for the caller; a record that was just deleted is left out."""
    found = [_hit(rows[chosen.rowid], chosen) for chosen in picks if chosen.rowid in rows]
    if options.order_by is OrderBy.CREATED_AT:
        found.sort(key=lambda hit: hit.record.created_at or EARLIEST, reverse=True)
    return tuple(found)


def _hit(row: Row, chosen: RankedRow) -> SearchHit:
    return SearchHit(
        record=row.record,
        similarity=min(max(chosen.similarity, 0.0), 1.0),
        score=min(max(chosen.score, 0.0), 1.0),
        window=row.window if row.kind == ContentType.MESSAGE else "",
        alignment=chosen.alignment,
        debug=chosen.debug_signals,
    )
