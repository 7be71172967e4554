"""Outlines of many vectors: most are seen by them to be too far from a query, and needn't be read.

The vectors are turned so that their first numbers hold most of their lengths (towards the eigenvectors of their second
moments). The outline is those numbers, and the length of the rest. By Cauchy and Schwarz no product of a query with a
vector is above the product of the first numbers plus the product of both rests: a bound for half of the reading.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.store.index.dot_products import ROW_MULTIPLE, blockwise_products, dot_products

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

# Which share of the squared lengths the first numbers hold; a bound is then some tenths of a cosine too high.
SHARE = 0.9
# Where more than such a share of the numbers is needed for it, outlines aren't worth their memory.
MOST = 0.6
# Rows whose second moments stand for all rows', rows that are turned at once, and directions at once.
_SAMPLE, _CHUNK, _FEW = 2_048, 4_096, 48
# Making an outline takes as long as it saves with some four hundred queries; after half of them more may be expected. A
# process that asks a few never makes one.
WORTH = 200
# Fewer rows are compared as fast without.
LEAST = 20_000
# Rows in a block.
_BLOCK = 32
# More than the rounding errors of a squared length, as a share of it.
_ROUNDING = 4e-6
# What a call costs for which bounds were in vain, in calls for which they weren't; and after how much of it they are
# given up: half a dozen calls in a row.
_IN_VAIN, _MOST_IN_VAIN = 3, 18


class PruningBounds:
    """The outline of rows [n, d], made once enough queries were compared with them.

    Args:
        rows: the vectors, of length one or zero.
    """

    def __init__(self, rows: Floats) -> None:
        self._rows = rows
        self._missing, self._in_vain = WORTH, 0
        self._lock = threading.Lock()
        self._useful = len(rows) >= LEAST
        self._made: tuple[Floats, Floats] | None = None

    def bounds(self, queries: Floats) -> Floats | None:
        """Return at least the products of queries [q, d] with the rows, [q, n]; None where that takes as long.

        Rounding may make them too low by 1e-5 of a query's length.
        """
        if not self._useful:
            return None
        if self._made is None and self._due(len(queries)):
            made = _made(self._rows)
            self._made, self._useful = made, made is not None
        known = self._made
        if known is None:
            return None
        directions, blocks = known
        asked = _outlined(queries, directions)
        if not np.isfinite(asked).all():
            return None
        with self._lock:
            self._in_vain = max(self._in_vain - 1, 0)
        found = np.empty((len(queries), len(blocks) * _BLOCK), dtype=np.float32)
        blockwise_products(asked, blocks, found)
        return found[:, : len(self._rows)]

    def note_wasted_bounds(self) -> None:
        """Note a call for which bounds were in vain; after some there are no more, and their memory is free."""
        with self._lock:
            self._in_vain += _IN_VAIN + 1  # the call itself counted as one
            if self._in_vain > _MOST_IN_VAIN:
                self._useful, self._made = False, None

    def _due(self, queries: int) -> bool:
        """Count queries; return True once, to the thread that is to make the outline. Others go on without."""
        with self._lock:
            before, self._missing = self._missing, self._missing - queries
            return before >= 0 > self._missing

    def nbytes(self) -> int:
        """Return the number of bytes."""
        made = self._made
        return 0 if made is None else sum(part.nbytes for part in made)


def _made(rows: Floats) -> tuple[Floats, Floats] | None:
    """Return the directions of the first numbers [k, d], and the outlines in blocks [n / 32, k + 1, 32]."""
    directions = _directions(rows)
    if directions is None:
        return None
    size = len(directions) + 1
    blocks = np.zeros((-(-len(rows) // _BLOCK), size, _BLOCK), dtype=np.float32)
    for start in range(0, len(rows), _CHUNK):
        outlined = _outlined(rows[start : start + _CHUNK], directions)
        if not np.isfinite(outlined).all():
            return None  # damaged vectors have no bounds
        whole = np.zeros((-(-len(outlined) // _BLOCK), _BLOCK, size), dtype=np.float32)
        whole.reshape(-1, size)[: len(outlined)] = outlined
        at = start // _BLOCK
        blocks[at : at + len(whole)] = whole.transpose(0, 2, 1)
    return directions, blocks


def _directions(rows: Floats) -> Floats | None:
    """Return directions [k, d] that hold nine tenths of the squared lengths; None where they are too many.

    With the length of the rest they are a multiple of 16 numbers.
    """
    sample = rows[:: max(len(rows) // _SAMPLE, 1)]
    moments = (sample.T @ sample).astype(np.float64)
    if not np.isfinite(moments).all():
        return None  # damaged vectors have no directions
    shares, directions = np.linalg.eigh(moments)
    held = np.cumsum(shares[::-1])
    wanted = int(np.searchsorted(held, SHARE * held[-1])) + 1
    wanted = -(-(wanted + 1) // ROW_MULTIPLE) * ROW_MULTIPLE - 1
    if wanted > MOST * rows.shape[1]:
        return None
    return np.ascontiguousarray(directions.T[::-1][:wanted], dtype=np.float32)


@np.errstate(invalid="ignore", over="ignore")
def _outlined(vectors: Floats, directions: Floats) -> Floats:
    """Return the first numbers of vectors [n, d], and the length of the rest, rounded up, [n, k + 1].

    Of damaged vectors, and of some too long to be squared, not all of them are finite.
    """
    outlined = np.empty((len(vectors), len(directions) + 1), dtype=np.float32)
    for start in range(0, len(directions), _FEW):
        part = directions[start : start + _FEW]
        outlined[:, start : start + len(part)] = dot_products(part, vectors).T
    first = outlined[:, :-1]
    squares = np.einsum("nd,nd->n", vectors, vectors)
    rest = squares - np.einsum("nd,nd->n", first, first)
    outlined[:, -1] = np.sqrt(np.maximum(rest, 0.0) + _ROUNDING * squares)
    return outlined
