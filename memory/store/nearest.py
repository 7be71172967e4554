"""Nearest neighbours for large scopes: Chroma asked for more than needed, then masked; or all compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recall_loop.memory.store import reading
from recall_loop.memory.store.chroma_side import ChromaError, ChromaSide
from recall_loop.memory.store.products import products
from recall_loop.memory.store.vectors import find

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.vectors import VectorTable
    from recall_loop.memory.store.view import Source, View

# Below this share of all rows, and up to so many rows, comparing them all is cheaper than masking.
_SMALL_SHARE = 0.1
_SMALL_ROWS = 20_000
# Above this share hardly anything is masked: no more is fetched than is wanted.
_ALL = 0.98
_NEXT_FACTOR = 5
_LEAST_FETCH = 100
_MOST_FETCH = 4_000
_CHUNK = 10_000
_NONE: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
# Of many values only those are sorted that are as high as the best of some block of so many.
_BLOCK = 32
# Cosines that are looked at before it is known how high those of the best are, for each that is wanted.
_TRIED = 2
# Bounds may be too low by so much of a query's length, which is one.
_ROUNDING = 1e-5
# Where bounds leave more than this share of the rows, it is cheaper to compare all with all queries.
_FEW = 32


@dataclass(frozen=True)
class Scan:
    """Cosines of q queries with the windows of all n allowed rows [q, n]."""

    rowids: NDArray[np.int64]
    cosines: NDArray[np.float32]

    def best(self, query: int, wanted: int, among: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the rowids with the best cosines for one query; `among` are places in `rowids` to choose from."""
        cosines, rowids = self.cosines[query], self.rowids
        if among is not None:
            cosines, rowids = cosines[among], rowids[among]
        return rowids[best(cosines, rowids, wanted)]


@dataclass(frozen=True)
class BoundedScan:
    """Bounds of the cosines of q queries [q, d] with the windows of all n allowed rows [q, n].

    They are at least the cosines, but for rounding. Those that might be among the best are taken from `table`.
    """

    rowids: NDArray[np.int64]
    bounds: NDArray[np.float32]
    queries: NDArray[np.float32]
    table: VectorTable

    def best(self, query: int, wanted: int, among: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the rowids with the best cosines for one query; `among` are places in `rowids` to choose from."""
        bounds, rowids = self.bounds[query], self.rowids
        if among is not None:
            bounds, rowids = bounds[among], rowids[among]
        few = _high(bounds, _TRIED * wanted) if len(bounds) > _BLOCK * _TRIED * wanted else np.arange(len(bounds))
        cosines = self._cosines(query, rowids[few])
        if len(few) < len(bounds):
            # As many cosines are at least as high as the least of the best of a few.
            least = np.partition(cosines, len(cosines) - wanted)[len(cosines) - wanted]
            few = np.flatnonzero(bounds >= least - _ROUNDING)
            cosines = self._cosines(query, rowids[few])
        return rowids[few][best(cosines, rowids[few], wanted)]

    def _cosines(self, query: int, rowids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the cosines of one query with a few rows, or with so many that all are compared with all queries."""
        if len(rowids) * _FEW <= len(self.rowids):
            return self.table.cosines(rowids, self.queries[query])
        cosines: NDArray[np.float32] = self._whole[query, find(self.rowids, rowids)[0]]
        return cosines

    @cached_property
    def _whole(self) -> NDArray[np.float32]:
        return products(self.queries, self.table.context(self.rowids))


def best(values: NDArray[Any], rowids: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Return the places of the `wanted` highest values, best first; equal ones go by rowid."""
    if wanted >= len(values):
        return np.lexsort((rowids, -values))
    if len(values) > _BLOCK * wanted:
        places = _high(values, wanted)
        if len(places) <= len(values) // 2:
            return places[best(values[places], rowids[places], wanted)]
    least = np.partition(values, len(values) - wanted)[len(values) - wanted]
    above, equal = np.flatnonzero(values > least), np.flatnonzero(values == least)
    equal = equal[np.argsort(rowids[equal], kind="stable")][: wanted - len(above)]
    chosen = np.concatenate([above, equal])
    return chosen[np.lexsort((rowids[chosen], -values[chosen]))]


def heaviest(
    values: NDArray[Any], allowed: NDArray[np.bool_], rowids: NDArray[np.int64], wanted: int
) -> NDArray[np.int64]:
    """Return the places of the `wanted` highest values above 0 of allowed rows, best first; equal ones go by rowid."""
    whole = allowed.all()
    places = _high(values, wanted) if whole and len(values) > _BLOCK * wanted else _NONE
    # Where few rows have any of the words, all the others are as high as the least that is taken.
    if not len(places) or len(places) > len(values) // 2 or not values[places].all():
        places = np.flatnonzero(values > 0 if whole else (values > 0) & allowed)
    return places[best(values[places], rowids[places], wanted)]


def _high(values: NDArray[Any], wanted: int) -> NDArray[np.int64]:
    """Return the places of the `wanted` highest values, of those equal to them, and of some more, ascending.

    As many blocks have a value as high as the least that is taken.
    """
    blocks = len(values) // _BLOCK
    highest = values[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
    return np.flatnonzero(values >= np.partition(highest, blocks - wanted)[blocks - wanted])


def overfetched(
    source: Source, tenant: str, queries: NDArray[np.float32], allowed: NDArray[np.int64], wanted: int
) -> list[list[int]]:
    """Return up to `wanted` allowed rowids per query; fewer where Chroma's best hold no more of them."""
    if wanted:
        with source.searching() as chroma:
            try:
                if chroma is not None:
                    return _masked(source, chroma, tenant, queries, allowed, wanted)
            except ChromaError as error:
                source.degrade(error)
    return [[] for _ in queries]


def _masked(
    source: Source,
    chroma: ChromaSide,
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
    # Never fewer than a hundred, so that equal distances at the cut go by rowid.
    fetch = min(_MOST_FETCH, max(_LEAST_FETCH, wanted if share > _ALL else int(wanted / share * 2)))
    open_queries = list(range(len(queries)))
    while open_queries and total:
        hits = chroma.nearest(queries[open_queries], min(fetch, total))
        known = reading.keys_to_rowids(source.sidecar, tenant, [key for hit in hits for key, _ in hit])
        for query, hit in zip(open_queries, hits, strict=True):
            ordered = sorted((distance, known[key]) for key, distance in hit if key in known)
            numbers = np.array([rowid for _, rowid in ordered], dtype=np.int64)
            found[query] = numbers[find(allowed, numbers)[1]][:wanted].tolist()
        open_queries = [query for query in open_queries if len(found[query]) < wanted]
        if fetch >= min(total, _MOST_FETCH):
            break
        fetch = min(fetch * _NEXT_FACTOR, _MOST_FETCH)
    return found


def exact(view: View, queries: NDArray[np.float32], allowed: NDArray[np.int64], wanted: int) -> list[list[int]]:
    """Return the `wanted` nearest allowed rowids per query by comparing every one, in chunks."""
    best: list[list[tuple[float, int]]] = [[] for _ in queries]
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    units = (queries / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    for start in range(0, len(allowed), _CHUNK):
        part = allowed[start : start + _CHUNK]
        similarities = products(units, view.vectors(part)[1])
        for index, row in enumerate(similarities):
            order = np.lexsort((part, -row))[:wanted]
            merged = best[index] + [(-float(row[at]), int(part[at])) for at in order]
            best[index] = sorted(merged)[:wanted]
    return [[rowid for _, rowid in pairs] for pairs in best]
