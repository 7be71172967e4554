"""Nearest neighbours for large scopes: Chroma asked for more than needed, then masked; or all compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex
from recall_loop.memory.store.chroma.chroma_link import ChromaLink
from recall_loop.memory.store.index import row_queries
from recall_loop.memory.store.index.caches.tenant_caches import TenantCaches
from recall_loop.memory.store.index.vectors import VectorTable, dot_products, find_sorted
from recall_loop.memory.store.tables.database import Database

# Below this share of all rows, and up to this many rows, comparing them all is cheaper than masking.
_SMALL_SHARE = 0.1
_SMALL_ROWS = 20_000
# Above this share hardly anything is masked: no more is fetched than wanted.
_ALL = 0.98
_NEXT_FACTOR = 5
_LEAST_FETCH = 100
_MAX_FETCH = 4_000
_CHUNK = 10_000
_NONE: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
# Of many values, only those at least as high as the best of some block of this size are sorted.
_BLOCK = 32
# Products of unit vectors may be off by this share of the query's length.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class ExactScan:
    """Products of q queries [q, d] with the windows of all n allowed rows [q, n].

    Their last digits depend on how many were multiplied at once, and on where a row stood among them. So rows too near
    to the cut are compared again by `table`, where equal vectors have equal cosines: the result is the same in every
    batch.
    """

    rowids: NDArray[np.int64]
    products: NDArray[np.float32]
    queries: NDArray[np.float32]
    table: VectorTable

    def top_rowids(self, query: int, wanted: int, among: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the rowids with the best cosines, ascending; `among` are positions in `rowids` to choose from."""
        values, rowids = self.products[query], self.rowids
        if among is not None:
            values, rowids = values[among], rowids[among]
        if wanted >= len(rowids):
            return rowids
        least = _kth_highest(values, wanted)
        margin = 2 * _ROUNDING * float(np.linalg.norm(self.queries[query]))
        near = np.flatnonzero(values >= least - margin)
        if len(near) <= wanted:
            return rowids[near]
        sure = values[near] > least + margin
        unsure = rowids[near[~sure]]
        cosines = self.table.cosines(unsure, self.queries[query])
        unsure = unsure[top_positions(cosines, unsure, wanted - int(sure.sum()))]
        return np.sort(np.concatenate([rowids[near[sure]], unsure]))


def _kth_highest(values: NDArray[np.float32], wanted: int) -> float:
    """Return the least of the `wanted` highest values; infinity where none is a number."""
    high = values[_high_positions(values, wanted)] if len(values) > _BLOCK * wanted else values
    at = max(len(high) - wanted, 0)
    return float(np.partition(high, at)[at]) if len(high) else math.inf


def top_positions(values: NDArray[Any], rowids: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Return the positions of the `wanted` highest values, best first; equal ones go by rowid."""
    if wanted >= len(values):
        return np.lexsort((rowids, -values))
    if len(values) > _BLOCK * wanted:
        positions = _high_positions(values, wanted)
        if len(positions) <= len(values) // 2:
            return positions[top_positions(values[positions], rowids[positions], wanted)]
    least = np.partition(values, len(values) - wanted)[len(values) - wanted]
    above, equal = np.flatnonzero(values > least), np.flatnonzero(values == least)
    equal = equal[np.argsort(rowids[equal], kind="stable")][: wanted - len(above)]
    chosen = np.concatenate([above, equal])
    return chosen[np.lexsort((rowids[chosen], -values[chosen]))]


def top_positive_positions(
    values: NDArray[Any], allowed: NDArray[np.bool_], rowids: NDArray[np.int64], wanted: int
) -> NDArray[np.int64]:
    """Return the positions of the `wanted` highest values above 0 of allowed rows, as `top_positions` does."""
    whole = allowed.all()
    positions = _high_positions(values, wanted) if whole and len(values) > _BLOCK * wanted else _NONE
    # Where few rows have any of the words, all others tie with the lowest value that is taken.
    if not len(positions) or len(positions) > len(values) // 2 or not values[positions].all():
        positions = np.flatnonzero(values > 0 if whole else (values > 0) & allowed)
    return positions[top_positions(values[positions], rowids[positions], wanted)]


def _high_positions(values: NDArray[Any], wanted: int) -> NDArray[np.int64]:
    """Return the positions of the `wanted` highest values, of those equal to them, and of some more, ascending.

    As many blocks have a value as high as the least that is taken.
    """
    blocks = len(values) // _BLOCK
    highest = values[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
    return np.flatnonzero(values >= np.partition(highest, blocks - wanted)[blocks - wanted])


class ViewSource(Protocol):
    """An open store as its views see it; see `StoreSession`."""

    database: Database
    cache: TenantCaches

    @property
    def connection(self) -> ChromaLink:
        """The connection to Chroma."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""


def search_chroma(
    source: ViewSource, tenant: str, queries: NDArray[np.float32], allowed: NDArray[np.int64], wanted: int
) -> list[list[int]]:
    """Return up to `wanted` allowed rowids per query; fewer where Chroma's best hold no more of them."""
    if wanted:
        with source.connection.searching() as chroma:
            try:
                if chroma is not None:
                    return _masked(source, chroma, tenant, queries, allowed, wanted)
            except ChromaError as error:
                source.connection.degrade(error)
    return [[] for _ in queries]


def _masked(
    source: ViewSource,
    chroma: ChromaIndex,
    tenant: str,
    queries: NDArray[np.float32],
    allowed: NDArray[np.int64],
    wanted: int,
) -> list[list[int]]:
    total = chroma.size()
    found: list[list[int]] = [[] for _ in queries]
    share = len(allowed) / max(total, 1)
    if share < _SMALL_SHARE and len(allowed) <= _SMALL_ROWS:
        return found
    # Never fewer than a hundred, so that ties at the cut are broken by rowid.
    fetch = min(_MAX_FETCH, max(_LEAST_FETCH, wanted if share > _ALL else int(wanted / share * 2)))
    open_queries = list(range(len(queries)))
    while open_queries and total:
        hits = chroma.nearest(queries[open_queries], min(fetch, total))
        known = row_queries.rowids_by_key(source.database, tenant, [key for hit in hits for key, _ in hit])
        for query, hit in zip(open_queries, hits, strict=True):
            ordered = sorted((distance, known[key]) for key, distance in hit if key in known)
            numbers = np.array([rowid for _, rowid in ordered], dtype=np.int64)
            found[query] = numbers[find_sorted(allowed, numbers)[1]][:wanted].tolist()
        open_queries = [query for query in open_queries if len(found[query]) < wanted]
        if fetch >= min(total, _MAX_FETCH):
            break
        fetch = min(fetch * _NEXT_FACTOR, _MAX_FETCH)
    return found


def search_exhaustively(
    windows: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    queries: NDArray[np.float32],
    allowed: NDArray[np.int64],
    wanted: int,
) -> list[list[int]]:
    """Return the `wanted` nearest allowed rowids per query by comparing every one, in chunks.

    `windows` gives the vectors [n, d] of the windows of rows.
    """
    best = [(np.zeros(0, dtype=np.float32), _NONE) for _ in queries]
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    units = (queries / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    for start in range(0, len(allowed), _CHUNK):
        part = allowed[start : start + _CHUNK]
        for query, cosines in enumerate(dot_products(units, windows(part))):
            values, rowids = np.concatenate([best[query][0], cosines]), np.concatenate([best[query][1], part])
            top = top_positions(values, rowids, wanted)
            best[query] = values[top], rowids[top]
    return [rowids.tolist() for _, rowids in best]
