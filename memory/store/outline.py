"""Outlines of many vectors: most are seen by them to be too far from a query, and needn't be read.

The vectors are turned so that their first numbers hold most of their lengths (towards the eigenvectors of their second
moments). The outline is those numbers, and the length of the rest. By Cauchy and Schwarz no product of a query with a
vector is above the product of the first numbers plus the product of both rests: a bound for half of the reading.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.store.products import STROKE, blockwise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

# Which share of the squared lengths the first numbers hold; a bound is then some tenths of a cosine too high.
SHARE = 0.9
# Where more than such a share of the numbers is needed for it, outlines aren't worth their memory.
MOST = 0.6
# Rows whose second moments stand for all rows', and rows that are turned at once.
_SAMPLE = _CHUNK = 4_096
# Making an outline takes as long as it saves with some hundred queries: a process that asks a few never makes one.
WORTH = 100
# Fewer rows are compared as fast without.
LEAST = 20_000
# Rows in a block.
_BLOCK = 32
# More than the rounding errors of a squared length.
_ROUNDING = 4e-6


class Outline:
    """The outline of rows [n, d], made once enough queries were compared with them.

    Args:
        rows: the vectors, of length one or zero.
    """

    def __init__(self, rows: Floats) -> None:
        self._rows = rows
        self._missing = WORTH
        self._lock = threading.Lock()
        self._useful = len(rows) >= LEAST
        self._made: tuple[Floats, Floats] | None = None

    def bounds(self, queries: Floats) -> Floats | None:
        """Return at least the products of queries [q, d] with the rows, [q, n]; None where that takes as long.

        Rounding may make them too low by 1e-5 of a query's length.
        """
        if not self._useful:
            return None
        with self._lock:
            self._missing -= len(queries)
            if self._made is None and self._missing < 0:
                self._made = _made(self._rows)
                self._useful = self._made is not None
        if self._made is None:
            return None
        basis, blocks = self._made
        asked = np.zeros((len(queries), blocks.shape[1]), dtype=np.float32)
        _outlined(queries, basis, asked)
        found = np.empty((len(queries), len(blocks) * _BLOCK), dtype=np.float32)
        blockwise(asked, blocks, found)
        return found[:, : len(self._rows)]

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return 0 if self._made is None else sum(part.nbytes for part in self._made)


def _made(rows: Floats) -> tuple[Floats, Floats] | None:
    """Return the directions of the first numbers [d, k], and the outlines in blocks [n / 32, k + 1 and more, 32]."""
    basis = _basis(rows)
    if basis is None:
        return None
    size = -(-(basis.shape[1] + 1) // STROKE) * STROKE
    blocks = np.zeros((-(-len(rows) // _BLOCK), size, _BLOCK), dtype=np.float32)
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        outlined = np.zeros((-(-len(part) // _BLOCK) * _BLOCK, size), dtype=np.float32)
        _outlined(part, basis, outlined[: len(part)])
        at = start // _BLOCK
        into = blocks[at : at + len(outlined) // _BLOCK]
        into[:] = outlined.reshape(len(into), _BLOCK, size).transpose(0, 2, 1)
    return basis, blocks


def _basis(rows: Floats) -> Floats | None:
    """Return the fewest directions that hold nine tenths of the squared lengths; None where they are too many."""
    sample = rows[:: max(len(rows) // _SAMPLE, 1)]
    shares, directions = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    held = np.cumsum(shares[::-1])
    most = int(MOST * rows.shape[1])
    wanted = int(np.searchsorted(held, SHARE * held[-1])) + 1
    # One number of a block of them is the rest's.
    wanted = -(-(wanted + 1) // STROKE) * STROKE - 1
    return None if wanted > most else np.ascontiguousarray(directions[:, ::-1][:, :wanted], dtype=np.float32)


def _outlined(vectors: Floats, basis: Floats, into: Floats) -> None:
    """Write the first numbers of vectors [n, d] and the length of the rest, rounded up, `into` [n, k + 1 and more]."""
    numbers = basis.shape[1]
    np.matmul(vectors, basis, out=into[:, :numbers])
    rest = (vectors * vectors).sum(axis=1) - (into[:, :numbers] ** 2).sum(axis=1)
    into[:, numbers] = np.sqrt(np.maximum(rest, 0.0) + _ROUNDING)
