"""The view: the only door through which searches read the store (STORE-3).

The predicate is compiled once; every method is confined to it, or, for statistics, to its tenant.
Answers are those of the moment of the call, also when another process has written in between.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from recall_loop.memory.store import reading
from recall_loop.memory.store.cache import CACHED_ROWS, Cache, Corpus, TenantCache
from recall_loop.memory.store.indexing import encode
from recall_loop.memory.store.nearest import Scan, exact, overfetched
from recall_loop.memory.store.predicate import Predicate
from recall_loop.memory.store.rows import Row
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.chroma_side import ChromaError, ChromaSide
    from recall_loop.memory.store.sidecar import Sidecar

# SQLite joins at most 500 selects.
_MOST_STEMS = 400


class Source(Protocol):
    """What a view needs of its store."""

    @property
    def sidecar(self) -> Sidecar:
        """The sidecar that is read."""
        ...

    @property
    def cache(self) -> Cache:
        """The caches of the store."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def searching(self) -> AbstractContextManager[ChromaSide | None]:
        """Give the Chroma side, or None while the store works without it."""
        ...

    def degrade(self, error: ChromaError) -> None:
        """Note that Chroma failed."""
        ...


class View:
    """What one scope, with filters and content types, allows to see."""

    def __init__(self, source: Source, predicate: Predicate) -> None:
        self._source = source
        self.predicate = predicate

    @property
    def tenant(self) -> str:
        """The tenant that the view is confined to."""
        return self.predicate.tenant

    def _cache(self) -> TenantCache:
        version = reading.version(self._source.sidecar, self.tenant)
        return self._source.cache.of(self.tenant, version)

    def count(self) -> int:
        """Return the number of allowed rows."""
        return len(self.rowids())

    def rowids(self) -> NDArray[np.int64]:
        """Return the allowed rowids, ascending: the order of first insertion. Not to be written to."""
        key = (self.predicate.where, self.predicate.params)
        return self._cache().selection(key, lambda: reading.rowids(self._source.sidecar, self.predicate))

    def _allowed(self, rowids: Iterable[int]) -> NDArray[np.int64]:
        """Return those of `rowids` that the predicate allows, each once, ascending."""
        asked = np.unique(_numbers(rowids))
        mine = self.rowids()
        if len(mine) == 0 or len(asked) == 0:
            return asked[:0]
        if len(asked) == len(mine) and np.array_equal(asked, mine):
            return mine
        at = np.minimum(np.searchsorted(mine, asked), len(mine) - 1)
        found: NDArray[np.int64] = asked[mine[at] == asked]
        return found

    def vectors(self, rowids: Iterable[int]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return own and context vectors, float32 [n, d], unit length, in the order of `rowids`.

        A rowid that the view doesn't allow, or that was just deleted, gives a zero vector. The
        arrays are not to be written to.
        """
        asked = _numbers(rowids)
        allowed = self._allowed(asked)
        sidecar, dimension, cache = self._source.sidecar, self._source.dimension, self._cache()
        with cache.lock:
            if cache.vectors is None and reading.rows_of(sidecar, self.tenant) <= CACHED_ROWS:
                cache.vectors = reading.tenant_vectors(sidecar, self.tenant, dimension)
        held = cache.vectors or reading.vectors(sidecar, self.tenant, allowed, dimension)
        if len(asked) == len(held.rowids) == len(allowed) and np.array_equal(asked, held.rowids):
            return held.own, held.context
        return _pick(held.own, held.rowids, asked, allowed), _pick(held.context, held.rowids, asked, allowed)

    def scan(self, vectors: NDArray[np.float32]) -> Scan | None:
        """Compare query vectors [q, d] with every allowed row; None where those are more than 20,000."""
        rowids = self.rowids()
        if len(rowids) > CACHED_ROWS:
            return None
        own, context = self.vectors(rowids)
        # One product for each query: a matrix product rounds differently for one query and for many.
        return Scan(rowids, np.stack([own @ v for v in vectors]), np.stack([context @ v for v in vectors]))

    def lexical(self, stems: Collection[str], limit: int) -> list[int]:
        """Return allowed rowids whose window contains any of `stems`, at most `limit`.

        Those with the rarest stems come first: the sum of the stems' idf in the tenant decides.

        `stems` are those of `recall_loop.text.tokens.stems`. Equal scores go by rowid.

        Raises:
            InvalidInputError: `limit` is below 1.
        """
        _check_limit(limit)
        found = self.document_frequency([stem for stem in stems if stem.strip()])
        rows = self.corpus().rows
        idf = {stem: math.log(1.0 + (max(rows - count, 0) + 0.5) / (count + 0.5)) for stem, count in found.items()}
        present = sorted((stem for stem, count in found.items() if count), key=lambda stem: -idf[stem])
        weights = {encode(stem): idf[stem] for stem in present[:_MOST_STEMS]}
        return reading.lexical(self._source.sidecar, self.predicate, weights, limit) if weights else []

    def nearest(self, vectors: NDArray[np.float32], limit: int) -> list[list[int]]:
        """Return per query vector the allowed rowids with the nearest context vectors, nearest first.

        Chroma is asked for more than `limit` and what isn't allowed is masked; where that doesn't
        give `limit` rows, or Chroma fails, every allowed vector is compared. Equal distances go by
        rowid. Meant for scopes too large to compare with `vectors`.

        Raises:
            InvalidInputError: `limit` is below 1, or `vectors` isn't [q, d].
        """
        _check_limit(limit)
        queries = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
        if queries.ndim != 2 or queries.shape[1] != self._source.dimension:
            raise InvalidInputError("vectors", queries.shape, f"an array [q, {self._source.dimension}]")
        allowed = self.rowids()
        wanted = min(limit, len(allowed))
        found = overfetched(self._source, self.predicate.tenant, queries, allowed, wanted)
        short = [index for index, rowids in enumerate(found) if len(rowids) < wanted]
        if short:
            for index, rowids in zip(short, exact(self, queries[short], allowed, wanted), strict=True):
                found[index] = rowids
        return found

    def rows(self, rowids: Iterable[int]) -> dict[int, Row]:
        """Return the allowed rows among `rowids`, by rowid, in the order asked for."""
        asked = [int(rowid) for rowid in rowids]
        allowed = [int(rowid) for rowid in self._allowed(asked)]
        cache = self._cache()
        with cache.lock:
            found = {rowid: cache.rows[rowid] for rowid in allowed if rowid in cache.rows}
        missing = [rowid for rowid in allowed if rowid not in found]
        if missing:
            loaded = reading.rows(self._source.sidecar, self.tenant, missing)
            found |= loaded
            with cache.lock:
                if len(cache.rows) + len(loaded) <= CACHED_ROWS:
                    cache.rows |= loaded
        return {rowid: found[rowid] for rowid in asked if rowid in found}

    def document_frequency(self, stems: Collection[str]) -> dict[str, int]:
        """Return for each stem the number of the tenant's rows whose window contains it.

        A window contains the record's own stems.
        """
        cache = self._cache()
        wanted = list(dict.fromkeys(stems))
        with cache.lock:
            known = {stem: cache.frequencies[stem] for stem in wanted if stem in cache.frequencies}
        for stem in wanted:
            if stem not in known:
                known[stem] = reading.frequency(self._source.sidecar, self.tenant, encode(stem))
        with cache.lock:
            cache.frequencies |= known
        return {stem: known[stem] for stem in wanted}

    def corpus(self) -> Corpus:
        """Return size and mean lengths of the tenant's corpus."""
        cache = self._cache()
        with cache.lock:
            if cache.corpus is None:
                cache.corpus = reading.corpus(self._source.sidecar, self.tenant)
            return cache.corpus


def _pick(
    matrix: NDArray[np.float32],
    held: NDArray[np.int64],
    asked: NDArray[np.int64],
    allowed: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Return the rows of `matrix` for `asked`; zeros where not held or not allowed."""
    if len(held) == 0 or len(asked) == 0:
        return np.zeros((len(asked), matrix.shape[1]), dtype=np.float32)
    at = np.minimum(np.searchsorted(held, asked), len(held) - 1)
    picked: NDArray[np.float32] = matrix[at]
    good = (held[at] == asked) & np.isin(asked, allowed)
    if not good.all():
        picked[~good] = 0.0
    return picked


def _numbers(rowids: Iterable[int]) -> NDArray[np.int64]:
    return np.asarray(rowids if isinstance(rowids, np.ndarray) else list(rowids), dtype=np.int64)


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidInputError("limit", limit, "a whole number of at least 1")
