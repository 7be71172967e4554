"""Vectors of a tenant in memory, and products with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.embed.embedders import normalise_vectors

Floats = NDArray[np.float32]


# OpenBLAS multiplies directly below 262,144 multiplications, or 9,216 for a single query. Above that it copies the
# matrices into another order first and splits the work among its own threads, which wait for each other: for 2 to 24
# queries and 20,000 rows or more that takes two to five times as long as products of blocks below the limit.
_DIRECT, _DIRECT_SINGLE = 240_000, 9_000
# With more queries than this OpenBLAS's copies and threads are worth it.
_MANY = 64
# Block sizes are multiples of the rows that a processor takes in one instruction.
_ROW_MULTIPLE = 16


def dot_products(queries: Floats, rows: Floats) -> Floats:
    """Return the dot products of queries [q, d] with rows [n, d] as [q, n], computed block by block for many rows."""
    size = (_DIRECT_SINGLE if len(queries) == 1 else _DIRECT) // max(queries.size, 1)
    block = size // _ROW_MULTIPLE * _ROW_MULTIPLE or size
    if not block or len(queries) > _MANY or len(rows) <= block:
        return queries @ rows.T
    products = np.empty((len(queries), len(rows)), dtype=np.float32)
    count = len(rows) // block
    end = count * block
    blocks = rows[:end].reshape(count, block, rows.shape[1]).transpose(0, 2, 1)
    np.matmul(queries, blocks, out=products[:, :end].reshape(len(queries), count, block).transpose(1, 0, 2))
    np.matmul(queries, rows[end:].T, out=products[:, end:])
    return products


_Float = TypeVar("_Float", bound="np.floating[Any]")
# Gathering a row's vector takes about this many times as long as comparing it.
_GATHERING = 6
# This many rows are gathered at once to be compared with one query.
_CHUNK = 4_096


@dataclass(frozen=True, slots=True)
class RowVectors:
    """Vectors of rows by ascending rowid [n, d]: float32 of unit length.

    `own` may be float16 as it is stored, with its `lengths` [n, 1], which are a little off one.
    """

    rowids: NDArray[np.int64]
    own: NDArray[np.float32] | NDArray[np.float16]
    context: NDArray[np.float32]
    lengths: NDArray[np.float32] | None = None


class VectorTable:
    """Vectors of all rows of a tenant: a large part, and a small one of rows that changed since."""

    def __init__(
        self, loaded: RowVectors, fresh: RowVectors | None = None, dead: NDArray[np.int64] | None = None
    ) -> None:
        self._loaded, self._fresh = loaded, fresh
        self._dead = np.zeros(0, dtype=np.int64) if dead is None else dead
        self._compared: tuple[bytes, NDArray[np.float32]] | None = None

    @property
    def is_float16(self) -> bool:
        """Whether own vectors are kept as float16, as they are stored: a search reads only a few of them."""
        return self._loaded.lengths is not None

    def with_changes(self, fresh: RowVectors, dead: NDArray[np.int64]) -> VectorTable:
        """Return the table with `fresh` instead of what was loaded of the rowids `dead`."""
        return VectorTable(self._loaded, fresh, dead)

    def own(self, rowids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return own vectors [n, d]; zeros for a rowid that isn't in the table."""
        picked = _picked([(part.rowids, part.own) for part in self._parts()], rowids, self._dead)
        held = [(part.rowids, part.lengths) for part in self._parts() if part.lengths is not None]
        if not held:
            return np.asarray(picked, dtype=np.float32)
        return normalise_vectors(picked.astype(np.float32), _picked(held, rowids, self._dead))

    def context(self, rowids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return context vectors [n, d]; zeros for a rowid that isn't in the table."""
        return _picked([(part.rowids, part.context) for part in self._parts()], rowids, self._dead)

    def compare(self, rowids: NDArray[np.int64], queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the products of queries [q, d] with the context vectors of rows [q, n]. Not to be written to."""
        key, last = queries.tobytes(), self._compared
        if last is None or last[0] != key:
            if len(rowids) * _GATHERING <= len(self._loaded.rowids):
                return dot_products(queries, self.context(rowids))
            # The parts of one search are compared one after another with the same queries.
            products = self._compare_all(queries)
            products.setflags(write=False)
            self._compared = last = key, products
        products = last[1]
        if np.array_equal(rowids, self._loaded.rowids) and self._fresh is None:
            return products
        positions = self._positions(rowids)
        picked = products[:, positions]
        picked[:, positions < 0] = 0.0
        return picked

    def cosines(self, rowids: NDArray[np.int64], query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosines of a query [d] with the context vectors of rows [n], equal ones for equal vectors."""
        found = np.empty(len(rowids), dtype=np.float32)
        for start in range(0, len(rowids), _CHUNK):
            part = slice(start, start + _CHUNK)
            np.einsum("nd,d->n", self.context(rowids[part]), query, out=found[part])
        return found

    def _compare_all(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compare with all rows that were loaded, dead or not, and behind them with those that changed since."""
        loaded = dot_products(queries, self._loaded.context)
        if self._fresh is None:
            return loaded
        return np.concatenate([loaded, dot_products(queries, self._fresh.context)], axis=1)

    def _positions(self, rowids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows' positions among all that were loaded, or behind them; -1 for a rowid that isn't here."""
        positions, present = find_sorted(self._loaded.rowids, rowids)
        positions[~present | find_sorted(self._dead, rowids)[1]] = -1
        if self._fresh is not None:
            at, present = find_sorted(self._fresh.rowids, rowids)
            positions[present] = len(self._loaded.rowids) + at[present]
        return positions

    def _parts(self) -> list[RowVectors]:
        return [self._loaded] if self._fresh is None else [self._loaded, self._fresh]

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return sum(part.context.nbytes + part.own.nbytes for part in self._parts())


def _picked(
    parts: list[tuple[NDArray[np.int64], NDArray[_Float]]], wanted: NDArray[np.int64], dead: NDArray[np.int64]
) -> NDArray[_Float]:
    """Return the rows of `wanted`; the first part doesn't count for the rowids `dead`, which ascend."""
    picked: NDArray[_Float] | None = None
    for number, (held, matrix) in enumerate(parts):
        at, present = find_sorted(held, wanted)
        if number == 0 and len(dead):
            present &= ~find_sorted(dead, wanted)[1]
        if picked is None:
            picked = matrix[at] if len(held) else np.zeros((len(wanted), matrix.shape[1]), dtype=matrix.dtype)
            if not present.all():
                picked[~present] = 0.0
        else:
            picked[present] = matrix[at[present]]
    assert picked is not None, "a table has at least one part"
    return picked


def find_sorted(held: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where each of `wanted` stands in ascending `held`, and whether it does; `held` may be long."""
    if len(held) == 0:
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    return at, held[at] == wanted
