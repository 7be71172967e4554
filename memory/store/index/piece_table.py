"""Vectors of a tenant's pieces in memory, and how well the best of each record match (GUARD-8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.index.vectors import dot_products, find_sorted

# Share of the best piece; the rest goes to the second best.
_BEST = 2 / 3


@dataclass(frozen=True, slots=True)
class PieceTable:
    """Pieces of n records: rowids [n], ascending; where each one's pieces begin [n]; vectors [p, d], float32.

    The vectors have unit length, and each record has two pieces or more.
    """

    rowids: NDArray[np.int64]
    starts: NDArray[np.int64]
    vectors: NDArray[np.float32]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of pieces of each record [n]."""
        return np.diff(self.starts, append=len(self.vectors))

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.vectors.nbytes + self.rowids.nbytes + self.starts.nbytes

    def cosines(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return for q queries [q, d] the cosine of each record's best piece, and some of its second best [q, n].

        One piece alone would let a long record win by a single sentence that is near to anything.
        """
        if not len(self.rowids):
            return np.zeros((len(queries), 0), dtype=np.float32)
        products = dot_products(queries, self.vectors)
        best: NDArray[np.float32] = np.maximum.reduceat(products, self.starts, axis=1)
        rest = np.where(products < np.repeat(best, self.lengths, axis=1), products, -np.inf)
        second = np.maximum.reduceat(rest, self.starts, axis=1)
        second = np.where(np.isneginf(second), best, second)
        return np.asarray(_BEST * best + (1.0 - _BEST) * second, dtype=np.float32)

    def among(self, rowids: NDArray[np.int64]) -> PieceTable:
        """Return the part of the table that is about some rowids, which ascend."""
        kept = find_sorted(rowids, self.rowids)[1]
        if kept.all():
            return self
        lengths = self.lengths[kept]
        return PieceTable(self.rowids[kept], np.cumsum(lengths) - lengths, self.vectors[np.repeat(kept, self.lengths)])

    def with_changes(self, fresh: PieceTable, changed: NDArray[np.int64]) -> PieceTable:
        """Return the table with `fresh` instead of what it has of the rowids `changed`, which ascend."""
        kept = zip(self.rows(), np.isin(self.rowids, changed).tolist(), strict=True)
        parts = [row for row, is_changed in kept if not is_changed]
        return PieceTable.from_rows([*parts, *fresh.rows()], self.vectors.shape[1])

    def rows(self) -> list[tuple[int, NDArray[np.float32]]]:
        """Return each record with its pieces' vectors [m, d]."""
        if not len(self.rowids):
            return []
        return list(zip(self.rowids.tolist(), np.split(self.vectors, self.starts[1:]), strict=True))

    @classmethod
    def from_rows(cls, rows: list[tuple[int, NDArray[np.float32]]], dimension: int) -> PieceTable:
        """Return the table of records with their pieces' vectors [m, d]."""
        rows = sorted(rows, key=lambda row: row[0])
        lengths = [len(vectors) for _, vectors in rows]
        starts: NDArray[np.int64] = np.cumsum(lengths, dtype=np.int64) - np.array(lengths, dtype=np.int64)
        joined = (
            np.concatenate([vectors for _, vectors in rows]) if rows else np.zeros((0, dimension), dtype=np.float32)
        )
        return cls(np.array([row for row, _ in rows], dtype=np.int64), starts, joined)
