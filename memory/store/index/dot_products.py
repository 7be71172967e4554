"""Dot products of a few query vectors with many vectors, in one pass over the many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
