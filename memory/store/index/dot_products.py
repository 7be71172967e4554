"""Products of some vectors with many, in one pass over the many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.store.index.thread_sharing import run_in_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

# OpenBLAS does a product of fewer than 262,144 multiplications as it stands, and one of a single query of fewer than
# 9,216. A larger one it shares among threads of its own, which wait for each other where processors are busy: for
# milliseconds, where one thread takes a tenth of one. One of a few queries it also copies into another order first.
_AT_ONCE, _AT_ONCE_ALONE = 240_000, 9_000
# Of more queries than these, OpenBLAS's own order and threads are worth it.
_MANY = 64
# Multiplications that a thread takes at a time.
_PIECE = 16_000_000
# Rows are compared in multiples of what a processor takes at a stroke.
ROW_MULTIPLE = 16


def dot_products(queries: Floats, rows: Floats) -> Floats:
    """Return the products of queries [q, d] with rows [n, d], [q, n]: of many rows in blocks, in one pass over them."""
    size = (_AT_ONCE_ALONE if len(queries) == 1 else _AT_ONCE) // max(queries.size, 1)
    block = size // ROW_MULTIPLE * ROW_MULTIPLE or size
    if not block or len(queries) > _MANY or len(rows) <= block:
        return queries @ rows.T
    found = np.empty((len(queries), len(rows)), dtype=np.float32)
    whole = len(rows) // block
    end = whole * block
    blockwise_products(queries, rows[:end].reshape(whole, block, rows.shape[1]).transpose(0, 2, 1), found[:, :end])
    if end < len(rows):
        np.matmul(queries, rows[end:].T, out=found[:, end:])
    return found


def blockwise_products(queries: Floats, blocks: Floats, found: Floats) -> None:
    """Write the products of queries [q, d] with vectors in blocks [w, d, b] into `found` [q, w * b].

    So many queries go together that a product with a block is done as it stands.
    """
    whole, size, block = blocks.shape
    group = max(_AT_ONCE // (size * block), 1)
    for start in range(0, len(queries), group):
        part = queries[start : start + group]
        into = found[start : start + group].reshape(len(part), whole, block).transpose(1, 0, 2)
        at_once = max(_PIECE // (part.size * block), 1)

        def some(piece: int, part: Floats = part, into: Floats = into, at_once: int = at_once) -> None:
            of = slice(piece * at_once, (piece + 1) * at_once)
            np.matmul(part, blocks[of], out=into[of])

        run_in_threads(some, -(-whole // at_once))
