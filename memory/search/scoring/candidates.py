"""Candidates of a query: which rows each leg proposes to look at closely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.search.query.query_preparation import PreparedQuery
    from recall_loop.memory.store.index.vector_search import BoundedScan, ExactScan
    from recall_loop.memory.store.index.view import View

    Cosines = tuple[NDArray[np.float32], NDArray[np.float32]]

# Candidates of a leg for each result that is wanted: fusion and content scoring choose among more than the cut.
LEXICAL_DEPTH = 8
VECTOR_DEPTH = 5


class VectorRetriever:
    """What the vector leg proposes for several queries, in each part of a view.

    A small view or part is compared whole; for a large one Chroma is asked.
    """

    def __init__(self, rows: dict[PreparedQuery, range], parts: Sequence[_Candidates]) -> None:
        self._rows, self._parts = rows, parts

    @classmethod
    def of(
        cls, view: View, parts: Sequence[View], vectors: Mapping[PreparedQuery, NDArray[np.float32]], depth: int
    ) -> VectorRetriever:
        """Look up to `depth` rows for each of each query's vectors [v, d]."""
        rows, start = {}, 0
        for query, part in vectors.items():
            rows[query] = range(start, start + len(part))
            start += len(part)
        joined = np.concatenate(list(vectors.values()))
        scan = view.scan(joined, depth * len(parts))
        if scan is not None:
            return cls(rows, [_ScanCandidates(scan, _among(scan, part)) for part in parts])
        return cls(rows, [_part_candidates(part, joined, depth) for part in parts])

    def top_rowids(self, query: PreparedQuery, depth: int) -> list[NDArray[np.int64]]:
        """Return the rowids that are proposed for one query, for each part and vector."""
        return [part.top_rowids(row, depth) for part in self._parts for row in self._rows.get(query, ())]


class _Candidates(Protocol):
    def top_rowids(self, row: int, depth: int) -> NDArray[np.int64]:
        """Return the best rowids for one vector."""
        ...


@dataclass(frozen=True)
class _ScanCandidates:
    scan: ExactScan | BoundedScan
    among: NDArray[np.int64] | None = None

    def top_rowids(self, row: int, depth: int) -> NDArray[np.int64]:
        """Return the best rowids for one vector."""
        return self.scan.top_rowids(row, depth, self.among)


@dataclass(frozen=True)
class _ChromaCandidates:
    found: list[list[int]]

    def top_rowids(self, row: int, depth: int) -> NDArray[np.int64]:
        """Return the best rowids for one vector."""
        return np.array(self.found[row][:depth], dtype=np.int64)


def _among(scan: ExactScan | BoundedScan, part: View) -> NDArray[np.int64] | None:
    """Return where a part's rows stand among those that were compared; None where it is all of them."""
    rowids = part.rowids()
    return None if len(rowids) == len(scan.rowids) else np.flatnonzero(np.isin(scan.rowids, rowids))


def _part_candidates(part: View, vectors: NDArray[np.float32], depth: int) -> _Candidates:
    scan = part.scan(vectors, depth)
    return _ChromaCandidates(part.nearest(vectors, depth)) if scan is None else _ScanCandidates(scan)
