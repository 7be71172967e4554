"""Features of the candidates of several queries: the signals of every retriever, computed for all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.search.query.lexical import TermMatches, bm25, idf, match_terms
from recall_loop.memory.search.scoring.fusion import (
    combine_similarities,
    content_factors,
    idf_weighted_coverage,
    query_numbers,
    query_slices,
    semantic_similarity,
)
from recall_loop.memory.store.index.vectors import dot_products, find_sorted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.search.query.query_preparation import PreparedQuery
    from recall_loop.memory.store.index.piece_table import PieceTable
    from recall_loop.memory.store.index.row_index import RowIndex
    from recall_loop.memory.store.index.row_queries import CorpusStatistics
    from recall_loop.memory.store.index.view import View

    Cosines = tuple[NDArray[np.float32], NDArray[np.float32]]

# Up to so many authors of a tenant are all compared with a query; if there are more, only those of its candidates.
_FEW_AUTHORS = 64


@dataclass(frozen=True)
class TermStatistics:
    """Frequencies of some queries' stems in the tenant, and lengths of its texts."""

    corpus: CorpusStatistics
    frequencies: Mapping[str, int]

    @classmethod
    def from_view(cls, view: View, queries: Sequence[PreparedQuery]) -> TermStatistics:
        """Look up all stems."""
        stems = {stem for query in queries for group in query.groups for stem, _ in group.variants}
        return cls(view.corpus(), view.document_frequency(stems))

    def weights(self, query: PreparedQuery) -> list[tuple[str, float]]:
        """Return the query's stems that the tenant has, weighted by idf times the variant's weight; best first."""
        found: dict[str, float] = {}
        for group in query.groups:
            for stem, weight in group.variants:
                if self.frequencies[stem]:
                    sure = weight * idf(self.corpus.rows, self.frequencies[stem])
                    found[stem] = max(sure, found.get(stem, 0.0))
        return sorted(found.items(), key=lambda item: -item[1])

    def share_known(self, query: PreparedQuery) -> float:
        """Return the share of the query's words that the tenant has in any form, in [0,1]; 1 without words."""
        known = [any(self.frequencies[stem] for stem, _ in group.variants) for group in query.groups]
        return sum(known) / len(known) if known else 1.0

    def intended_stems(self, query: PreparedQuery) -> set[str]:
        """Return the query's stems in all their forms, and the likeliest correction of unknown ones."""
        found = {stem for group in query.groups for stem, weight in group.variants if weight == 1.0}
        unknown = [group for group in query.groups if not self.frequencies[group.stem]]
        return found | {group.variants[1][0] for group in unknown if len(group.variants) > 1}


@dataclass(frozen=True)
class CandidateFeatures:
    """Candidates of q queries, concatenated, each array [n]; a retriever that didn't run has no signal.

    Attributes:
        starts: the index of each query's first candidate [q].
        rowids: the rows.
        kind_codes: numbers of their content types.
        session_codes: numbers of their sessions; -1 if they have none.
        factors: the weight of each one's content (SEARCH-5).
        signals: the values of the retrievers, by name.
        similarity: see `recall_loop.memory.search.scoring.fusion`.
        author_named: 1 if the query names the author, else 0.
    """

    starts: NDArray[np.int64]
    rowids: NDArray[np.int64]
    kind_codes: NDArray[np.int32]
    session_codes: NDArray[np.int32]
    factors: NDArray[np.float64]
    signals: dict[str, NDArray[np.float64]]
    similarity: NDArray[np.float64]
    author_named: NDArray[np.float64]


@dataclass(frozen=True)
class CandidatePool:
    """All rows that were proposed for some queries: their index, and their vectors if they are needed."""

    view: View
    index: RowIndex
    rowids: NDArray[np.int64]

    @classmethod
    def from_proposals(cls, view: View, proposed: Sequence[NDArray[np.int64]]) -> CandidatePool:
        """Collect the proposed rows; rows deleted since are left out."""
        rowids = np.unique(np.concatenate(proposed))
        index = view.index_of(rowids)
        return cls(view, index, rowids[index.positions(rowids) >= 0])

    def positions_of(self, rowids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions in the pool of ascending rowids, without rows deleted since."""
        positions, present = find_sorted(self.rowids, rowids)
        return positions[present]

    @cached_property
    def vectors(self) -> Cosines:
        """Own and context vectors of the rows, [n, d] each."""
        return self.view.vectors(self.rowids)

    @cached_property
    def pieces(self) -> PieceTable:
        """The pieces of the rows that are long records."""
        return self.view.pieces_of(self.rowids)

    def cosines(self, positions: NDArray[np.int64], vectors: NDArray[np.float32]) -> Cosines:
        """Return own and context cosines of the rows at `positions`, each [n]: the best of `vectors` [v, d].

        The context of a long record, which has no neighbours, is made of its best pieces.
        """
        own, context = (dot_products(vectors, matrix.take(positions, axis=0)).max(axis=0) for matrix in self.vectors)
        if len(self.pieces.rowids):
            at, long = find_sorted(self.pieces.rowids, self.rowids[positions])
            context[long] = np.maximum(context[long], self.pieces.cosines(vectors).max(axis=0)[at[long]])
        return own, context


def compute_features(
    pool: CandidatePool,
    positions: Sequence[NDArray[np.int64]],
    queries: Sequence[PreparedQuery],
    statistics: TermStatistics,
) -> CandidateFeatures:
    """Compute every signal of the candidates of queries that run the same retrievers.

    Args:
        pool: the rows.
        positions: for each query, the positions of its candidates in the pool, ascending and not empty.
        queries: the queries.
        statistics: the frequencies of their stems in the tenant.
    """
    starts = np.cumsum([0, *(len(part) for part in positions[:-1])])
    joined, index = np.concatenate(positions), pool.index
    index_rows = index.positions(pool.rowids[joined])
    of_query = query_numbers(starts, len(joined))
    signals: dict[str, NDArray[np.float64]] = {}
    coverage = semantic = None
    if any(query.groups for query in queries):
        counts = _count_stems(index, index_rows, starts, queries, statistics)
        weights, worded = counts.idf[of_query], (counts.idf * _worded(queries, counts.idf.shape[1]))[of_query]
        coverage = idf_weighted_coverage(counts.own_present, counts.window_present, worded)
        if "fts" in queries[0].parsed.legs:
            signals |= _word_signals(index, index_rows, counts, weights, worded, statistics.corpus)
    if queries[0].vectors is not None:
        cosines = _cosines(pool, positions, queries)
        signals["cosine"], signals["cosine_window"] = (part.astype(np.float64) for part in cosines)
        semantic = semantic_similarity(np.maximum(*cosines))
    columns, intended = index.columns, [statistics.intended_stems(query) for query in queries]
    return CandidateFeatures(
        starts,
        pool.rowids[joined],
        columns.coded["kind"][index_rows],
        columns.coded["session_place"][index_rows],
        content_factors(columns.tool[index_rows], columns.aside[index_rows]),
        signals,
        combine_similarities(semantic, coverage),
        _author_named(index, columns.coded["author"][index_rows], starts, intended),
    )


def _cosines(pool: CandidatePool, positions: Sequence[NDArray[np.int64]], queries: Sequence[PreparedQuery]) -> Cosines:
    """Return own and context cosines of the candidates of all queries, each [n]."""
    pairs = [
        pool.cosines(part, query.vectors)
        for part, query in zip(positions, queries, strict=True)
        if query.vectors is not None
    ]
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _count_stems(
    index: RowIndex,
    positions: NDArray[np.int64],
    starts: NDArray[np.int64],
    queries: Sequence[PreparedQuery],
    statistics: TermStatistics,
) -> TermMatches:
    """Count each query's stems in its own candidates; queries with fewer stems get columns of zeros."""
    width = max(len(query.groups) for query in queries)
    own, window, own_present, window_present = (np.zeros((len(positions), width)) for _ in range(4))
    rarity = np.zeros((len(queries), width))
    for number, (query, rows) in enumerate(zip(queries, query_slices(starts, len(positions)), strict=True)):
        found = match_terms(index, positions[rows], query.groups, statistics.frequencies, statistics.corpus.rows)
        part = rows, slice(0, len(query.groups))
        own[part], window[part] = found.own, found.window
        own_present[part], window_present[part] = found.own_present, found.window_present
        rarity[number, : len(query.groups)] = found.idf
    return TermMatches(own, window, own_present, window_present, rarity)


def _worded(queries: Sequence[PreparedQuery], width: int) -> NDArray[np.float64]:
    """Return 1 for each group of a query that is a word, and 0 for a time [q, width]."""
    found = np.ones((len(queries), width))
    for number, query in enumerate(queries):
        found[number, : len(query.groups)] = [not group.dated for group in query.groups]
    return found


def _word_signals(
    index: RowIndex,
    positions: NDArray[np.int64],
    counts: TermMatches,
    weights: NDArray[np.float64],
    worded: NDArray[np.float64],
    corpus: CorpusStatistics,
) -> dict[str, NDArray[np.float64]]:
    own_lengths, window_lengths = index.own_lengths[positions], index.window_lengths[positions]
    whole = np.maximum(worded.sum(axis=1), np.finfo(float).tiny)
    return {
        "bm25": bm25(counts.own, own_lengths, corpus.mean_terms, weights),
        "bm25_window": bm25(counts.window, window_lengths, corpus.mean_window_terms, weights),
        "word_share": (counts.window_present * worded).sum(axis=1) / whole,
    }


def _author_named(
    index: RowIndex, authors: NDArray[np.int32], starts: NDArray[np.int64], intended: Sequence[set[str]]
) -> NDArray[np.float64]:
    """Return 1 if the candidate's query names its author, else 0 [n]."""
    named = np.zeros(len(authors))
    few = index.author_count() <= _FEW_AUTHORS
    for stems, rows in zip(intended, query_slices(starts, len(authors)), strict=True):
        part = authors[rows]
        codes = range(index.author_count()) if few else np.unique(part[part >= 0]).tolist()
        for code in codes:
            name = index.author_stems(code)
            if name and name <= stems:
                named[rows][part == code] = 1.0
    return named
