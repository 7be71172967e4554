"""A tenant's vectors in memory: what was loaded, and what changed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from recall_loop.memory.store.embeddings import normalised
from recall_loop.memory.store.sharing import shared

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Float = TypeVar("_Float", bound="np.floating[Any]")
# Gathering a row's vector takes about so many times as long as comparing it.
_GATHERING = 6
# OpenBLAS does a product of fewer than 262,144 multiplications as it stands. A larger one of a few queries it first
# copies into another order, and shares it among threads that wait for each other where processors are busy.
_AT_ONCE = 240_000
# Blocks that a thread takes at a time.
_PIECE = 16
# Rows are compared in multiples of what a processor takes at a stroke.
_STROKE = 16


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of rows by ascending rowid [n, d]: float32 of unit length.

    `own` may be the halves that were stored, with their `lengths` [n, 1], which are a little off one.
    """

    rowids: NDArray[np.int64]
    own: NDArray[np.float32] | NDArray[np.float16]
    context: NDArray[np.float32]
    lengths: NDArray[np.float32] | None = None


class VectorTable:
    """Vectors of all rows of a tenant: a large part, and a small one of rows that changed since."""

    def __init__(self, loaded: Vectors, fresh: Vectors | None = None, dead: NDArray[np.int64] | None = None) -> None:
        self._loaded, self._fresh = loaded, fresh
        self._dead = np.zeros(0, dtype=np.int64) if dead is None else dead
        self._compared: tuple[bytes, NDArray[np.float32]] | None = None

    @property
    def halves(self) -> bool:
        """Whether own vectors are kept as they are stored, in half the space: few are looked at in one search."""
        return self._loaded.lengths is not None

    def changed(self, fresh: Vectors, dead: NDArray[np.int64]) -> VectorTable:
        """Return the table with `fresh` instead of what was loaded of the rowids `dead`."""
        return VectorTable(self._loaded, fresh, dead)

    def own(self, rowids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return own vectors [n, d]; zeros for a rowid that isn't here."""
        picked = _picked([(part.rowids, part.own) for part in self._parts()], rowids, self._dead)
        held = [(part.rowids, part.lengths) for part in self._parts() if part.lengths is not None]
        if not held:
            return np.asarray(picked, dtype=np.float32)
        return normalised(picked.astype(np.float32), _picked(held, rowids, self._dead))

    def context(self, rowids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return context vectors [n, d]; zeros for a rowid that isn't here."""
        return _picked([(part.rowids, part.context) for part in self._parts()], rowids, self._dead)

    def compare(self, rowids: NDArray[np.int64], queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return cosines of queries [q, d] with the context vectors of rows, [q, n]. Not to be written to."""
        loaded, asked, last = self._loaded, queries.tobytes(), self._compared
        known = last is not None and last[0] == asked
        if len(self._dead) == 0 and (known or len(rowids) * _GATHERING > len(loaded.rowids)):
            cosines = last[1] if last is not None and known else products(queries, loaded.context)
            # The parts of one search are compared one after another with the same queries.
            cosines.setflags(write=False)
            self._compared = (asked, cosines)
            if len(rowids) == len(loaded.rowids) and np.array_equal(rowids, loaded.rowids):
                return cosines
            at, here = find(loaded.rowids, rowids)
            return np.where(here, cosines[:, at], np.float32(0.0))
        return products(queries, self.context(rowids))

    def _parts(self) -> list[Vectors]:
        return [self._loaded] if self._fresh is None else [self._loaded, self._fresh]

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return sum(part.context.nbytes + part.own.nbytes for part in self._parts())


def products(queries: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the products of queries [q, d] with rows [n, d], [q, n]: of many rows in blocks, in one pass over them."""
    block = _AT_ONCE // max(queries.size, 1) // _STROKE * _STROKE
    whole = len(rows) // block if block else 0
    if len(queries) == 1 or whole < 2:
        return queries @ rows.T
    found = np.empty((len(queries), len(rows)), dtype=np.float32)
    end = whole * block
    blocks = rows[:end].reshape(whole, block, rows.shape[1]).transpose(0, 2, 1)
    into = found[:, :end].reshape(len(queries), whole, block).transpose(1, 0, 2)

    def some(piece: int) -> None:
        part = slice(piece * _PIECE, (piece + 1) * _PIECE)
        np.matmul(queries, blocks[part], out=into[part])

    shared(some, -(-whole // _PIECE))
    np.matmul(queries, rows[end:].T, out=found[:, end:])
    return found


def _picked(
    parts: list[tuple[NDArray[np.int64], NDArray[_Float]]], asked: NDArray[np.int64], dead: NDArray[np.int64]
) -> NDArray[_Float]:
    """Return the rows of `asked`; the first part doesn't count for the rowids `dead`, which ascend."""
    picked: NDArray[_Float] | None = None
    for number, (held, matrix) in enumerate(parts):
        at, here = find(held, asked)
        if number == 0 and len(dead):
            here &= ~find(dead, asked)[1]
        if picked is None:
            picked = matrix[at] if len(held) else np.zeros((len(asked), matrix.shape[1]), dtype=matrix.dtype)
            if not here.all():
                picked[~here] = 0.0
        else:
            picked[here] = matrix[at[here]]
    assert picked is not None, "a table has at least one part"
    return picked


def find(held: NDArray[np.int64], asked: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where each of `asked` stands in ascending `held`, and whether it does; `held` may be long."""
    if len(held) == 0:
        return np.zeros(len(asked), dtype=np.int64), np.zeros(len(asked), dtype=bool)
    at = np.minimum(np.searchsorted(held, asked), len(held) - 1)
    return at, held[at] == asked
