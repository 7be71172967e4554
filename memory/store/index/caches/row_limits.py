"""How many rows of a tenant are kept in memory, and how many are compared before Chroma is asked."""

from __future__ import annotations

from recall_loop.memory.store.tables.database import Database

CACHED_ROWS = 20_000
# Tenants with more rows are searched through SQLite and Chroma alone: the index would take gigabytes.
INDEXED_ROWS = 200_000
# Up to this many allowed rows, all are compared with one vector; above, Chroma is queried. If the vectors aren't in
# memory, they are read for it.
SCANNED_ROWS = 20_000
# The cost of each further vector in a comparison, as a share of the first one's: rows are read from memory once for
# all. Chroma takes equally long for each.
EXTRA_VECTOR_COST = 0.08
READ_ROWS = 2_000


def compared_rows(database: Database, vectors: int = 1) -> int:
    """Return up to how many rows, held in memory, are compared with so many vectors.

    Outside a folder all that are held: filling a Chroma in memory takes far longer, and a shared store needs none.
    """
    return INDEXED_ROWS if database.file is None else scan_row_limit(vectors)


def scan_row_limit(vectors: int) -> int:
    """Return up to how many rows, held in memory, it is cheaper to compare with so many vectors than to ask Chroma."""
    return int(SCANNED_ROWS * vectors * (1.0 + EXTRA_VECTOR_COST) / (1.0 + EXTRA_VECTOR_COST * vectors))
