"""Candidates of a query: the rows that each retriever proposes for scoring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.store.index.vector_search import top_positions
from recall_loop.memory.store.index.vectors import find_sorted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.search.query.query_preparation import PreparedQuery
    from recall_loop.memory.store.index.piece_table import PieceTable
    from recall_loop.memory.store.index.vector_search import ExactScan
    from recall_loop.memory.store.index.view import View

    # Takes the number of a vector and a limit; returns its best rowids.
    _Lookup = Callable[[int, int], NDArray[np.int64]]

# Candidates of a retriever for each requested result: fusion and content scoring need more than the final number.
LEXICAL_DEPTH = 8
VECTOR_DEPTH = 5


class VectorRetriever:
    """Proposes rows for several queries by their vectors, in each part of a view.

    All vectors of a small view or part are compared; a large one is searched by Chroma.

    Args:
        view: all rows that may be proposed.
        parts: views that each have a part of these rows, and together all of them.
        queries: queries, with or without vectors.
        depth: most rows that will be asked for per vector and part.
    """

    def __init__(self, view: View, parts: Sequence[View], queries: Sequence[PreparedQuery], depth: int) -> None:
        vectors = {query: query.vectors for query in queries if query.vectors is not None}
        self._numbers: dict[PreparedQuery, range] = {}
        self._lookups: list[_Lookup] = []
        if not vectors:
            return
        ends = np.cumsum([len(each) for each in vectors.values()]).tolist()
        self._numbers = {query: range(end - len(vectors[query]), end) for query, end in zip(vectors, ends, strict=True)}
        joined = np.concatenate(list(vectors.values()))
        scan = view.scan(joined)
        self._lookups = [
            _part_lookup(part, joined, depth) if scan is None else _scan_lookup(scan, part) for part in parts
        ]
        self._lookups += [_piece_lookup(table, joined) for part in parts if (table := part.pieces()) is not None]

    def top_rowids(self, query: PreparedQuery, depth: int) -> list[NDArray[np.int64]]:
        """Return the proposed rowids for one query, for each part and vector."""
        return [lookup(number, depth) for lookup in self._lookups for number in self._numbers.get(query, ())]


def _scan_lookup(scan: ExactScan, part: View) -> _Lookup:
    """Look up the rows of a part among all that were compared."""
    rowids = part.rowids()
    among = None if len(rowids) == len(scan.rowids) else np.flatnonzero(find_sorted(rowids, scan.rowids)[1])
    return lambda number, depth: scan.top_rowids(number, depth, among)


def _part_lookup(part: View, vectors: NDArray[np.float32], depth: int) -> _Lookup:
    """Compare a part by itself, or search it by Chroma if it is too large."""
    scan = part.scan(vectors)
    if scan is not None:
        return scan.top_rowids
    nearest = part.nearest(vectors, depth)
    return lambda number, wanted: np.array(nearest[number][:wanted], dtype=np.int64)


def _piece_lookup(table: PieceTable, vectors: NDArray[np.float32]) -> _Lookup:
    """Look up long records by the best of their pieces."""
    cosines = table.cosines(vectors)
    return lambda number, depth: table.rowids[top_positions(cosines[number], table.rowids, depth)]
