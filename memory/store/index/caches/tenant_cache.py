"""Data in memory per tenant, and how it follows the tenant's writes.

The version comes from the sidecar, so that another process's writes are seen too. It is read before
the data: data newer than its version is merely loaded once more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.index import row_queries
from recall_loop.memory.store.index.caches import row_limits
from recall_loop.memory.store.index.caches.selections import MAX_SELECTIONS, Selections
from recall_loop.memory.store.index.indexed_row import Row
from recall_loop.memory.store.index.piece_table import PieceTable
from recall_loop.memory.store.index.row_index import RowIndex
from recall_loop.memory.store.index.row_queries import CorpusStatistics
from recall_loop.memory.store.index.vectors import VectorTable
from recall_loop.memory.store.tables.changes import read_changes
from recall_loop.memory.store.tables.database import Database
from recall_loop.memory.store.tables.predicate import Predicate
from recall_loop.memory.store.tables.row_memo import KnownTokens, RowMemo

# Up to this many changed rows are kept beside the index before it is rebuilt.
_MIN_DIRTY = 256
_DIRTY_SHARE = 0.05
# Rows are kept up to the size of 20,000 rows of this many characters: fewer if texts are long.
_ROW_CHARACTERS, _ROW_OVERHEAD = 2_000, 300
_MAX_POSTING_ROWS = 4_000_000
_NEVER = sys.maxsize
# Not a version of the data: changes since then are never known.
_UNKNOWN = -1
_T = TypeVar("_T")
_NONE: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


@dataclass
class TenantCache:
    """One tenant's data at one version and one time; see `catch_up` and `expire`.

    Attributes:
        moment: rows that had expired until then are left out; microseconds since 1970.
        next_expiry: when the next row expires; 0 where that isn't known yet.
        beside_expired: rows whose stored windows hold words of expired rows, until these are swept.
    """

    database: Database
    tenant: str
    dimension: int
    version: int
    rows: RowMemo[Row] = field(
        default_factory=lambda: RowMemo(
            lambda row: row.characters + _ROW_OVERHEAD, row_limits.CACHED_ROWS * _ROW_CHARACTERS
        )
    )
    frequencies: dict[str, int] = field(default_factory=dict)
    frequencies_within: LRUCache[tuple[object, ...], dict[str, int]] = field(
        default_factory=lambda: LRUCache(MAX_SELECTIONS)
    )
    postings: LRUCache[tuple[tuple[str, ...], str], NDArray[np.int64]] = field(
        default_factory=lambda: LRUCache(_MAX_POSTING_ROWS, getsizeof=len)
    )
    tokens: KnownTokens = field(default_factory=KnownTokens)
    lock: ProcessLock = field(default_factory=ProcessLock)
    moment: int = 0
    next_expiry: int = 0
    beside_expired: set[int] = field(default_factory=set)
    _derived: dict[object, object] = field(default_factory=dict)
    _index: RowIndex | None = None
    _vectors: VectorTable | None = None
    _pieces: PieceTable | None = None
    _grown: bool = False
    _dirty: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    _selections: Selections = field(default_factory=Selections)

    def catch_up(self, version: int) -> None:
        """Take over what was written since; forget everything where that is too much, or not known."""
        with self.lock:
            if version == self.version:
                return
            with self._forgotten_on_error():
                found = read_changes(self.database, self.tenant, self.version)
                self.next_expiry = 0
                if found is None:  # it is also unknown which windows are complete again
                    self.moment = 0
                    self.beside_expired.clear()
                else:
                    self.beside_expired.difference_update(found.rowids.tolist())
                    late = row_queries.expired_rowids(self.database, self.tenant, 0, self.moment, found.rowids)
                    self.beside_expired |= row_queries.read_window_neighbours(self.database, late)
                self._take_over(None if found is None else found.rowids)
                self.version = version if found is None else found.version

    def expire(self, now: int) -> None:
        """Leave out the rows that have expired until `now` (microseconds since 1970), as if they were deleted."""
        with self.lock:
            if now < self.next_expiry:
                return
            gone = row_queries.expired_rowids(self.database, self.tenant, self.moment, now)
            following = row_queries.next_expiry(self.database, self.tenant, now)
            with self._forgotten_on_error():
                self.moment, self.next_expiry = now, _NEVER if following is None else following
                if len(gone):
                    beside = row_queries.read_window_neighbours(self.database, gone)
                    self.beside_expired |= beside
                    self.rows.forget(beside)
                    self._take_over(gone)

    @contextmanager
    def _forgotten_on_error(self) -> Iterator[None]:
        """Forget everything where taking changes over fails half-way: the next call starts over."""
        try:
            yield
        except BaseException:
            self.version, self.moment, self.next_expiry = _UNKNOWN, 0, 0
            self.beside_expired.clear()
            self._selections.state += 1
            self._forget()
            raise

    def _take_over(self, rowids: NDArray[np.int64] | None) -> None:
        """Read again what rows have become; forget everything where they are too many, or not known."""
        self._selections.state += 1
        self.frequencies.clear()
        self.frequencies_within.clear()
        self.postings.clear()
        self._derived.clear()
        if rowids is None or len(rowids) + len(self._dirty) > self._max_dirty():
            self._forget()
            return
        self.rows.forget(rowids.tolist())
        self.tokens.forget(rowids.tolist())
        if self._pieces is not None:
            fresh = row_queries.read_pieces(self.database, self.tenant, self.dimension, rowids)
            if len(fresh.rowids) or np.isin(self._pieces.rowids, rowids).any():
                self._pieces = self._pieces.with_changes(fresh, rowids)
        self._dirty = np.union1d(self._dirty, rowids)
        self._selections.note(rowids)
        self._update()

    def _max_dirty(self) -> int:
        return max(_MIN_DIRTY, int(_DIRTY_SHARE * (0 if self._index is None else self._index.head)))

    def _forget(self) -> None:
        self.rows.forget()
        self.tokens.forget()
        self._index, self._vectors, self._pieces, self._dirty = None, None, None, _NONE
        self._selections.clear()

    def _update(self) -> None:
        if self._index is not None:
            rows = row_queries.read_index_rows(self.database, self.tenant, self.moment, self._dirty)
            self._index = self._index.with_changes(rows, self._dirty)
        if self._vectors is not None:
            float16 = self._vectors.is_float16
            fresh = row_queries.read_vectors(self.database, self.tenant, self.dimension, self._dirty, float16=float16)
            self._vectors = self._vectors.with_changes(fresh, self._dirty)

    def size(self) -> int:
        """Return the tenant's number of rows."""
        return self._once("size", lambda: row_queries.count_rows(self.database, self.tenant))

    def _once(self, name: object, make: Callable[[], _T]) -> _T:
        """Return what `make` gives; kept until the data changes."""
        with self.lock:
            if name not in self._derived:
                self._derived[name] = make()
            return cast("_T", self._derived[name])

    def index(self) -> RowIndex | None:
        """Return the index of all rows; None for a tenant with more than 200,000."""
        with self.lock:
            if self._index is None and self.size() <= row_limits.INDEXED_ROWS:
                self._reset_if_dirty()
                self._index = RowIndex.from_rows(row_queries.read_index_rows(self.database, self.tenant, self.moment))
                self._grown = True
            return self._index

    def vectors(self) -> VectorTable | None:
        """Return the vectors of all rows; None where they are too many to be kept."""
        with self.lock:
            if self._vectors is None and self.size() <= row_limits.INDEXED_ROWS:
                self._reset_if_dirty()
                float16 = self.size() > row_limits.CACHED_ROWS
                held = row_queries.read_vectors(self.database, self.tenant, self.dimension, float16=float16)
                self._vectors = VectorTable(held)
                self._grown = True
            return self._vectors

    def pieces(self) -> PieceTable | None:
        """Return the pieces of all long records; None for a tenant with more than 200,000 rows."""
        with self.lock:
            if self._pieces is None and self.size() <= row_limits.INDEXED_ROWS:
                self._pieces = row_queries.read_pieces(self.database, self.tenant, self.dimension)
                self._grown = True
            return self._pieces

    def statistics(self) -> CorpusStatistics:
        """Return size and mean lengths of the tenant's corpus."""
        return self._once("statistics", self._read_statistics)

    def _read_statistics(self) -> CorpusStatistics:
        index = self.index()
        return row_queries.corpus_statistics(self.database, self.tenant) if index is None else index.statistics()

    def derived_from_vocabulary(self, make: Callable[[dict[str, int]], _T]) -> _T:
        """Return what `make` makes of the tenant's stems, each with the number of rows that have it."""
        return self._once(make, lambda: make(self._once("vocabulary", self._read_vocabulary)))

    def _read_vocabulary(self) -> dict[str, int]:
        index = self.index()
        if index is None:
            return row_queries.read_vocabulary(self.database, self.tenant, self.moment)
        return index.frequencies()

    def posting(self, facets: tuple[str, ...], token: str) -> NDArray[np.int64]:
        """Return the rowids of `row_queries.read_posting`; the last ones are kept, up to four million rows in all."""
        with self.lock:
            known, state = self.postings.get((facets, token)), self._selections.state
        if known is not None:
            return known
        found = row_queries.read_posting(self.database, facets, token)
        with self.lock:
            if state == self._selections.state and len(found) <= self.postings.maxsize:
                self.postings[facets, token] = found
        return found

    def _reset_if_dirty(self) -> None:
        """Forget index and vectors before one is loaded: changes are counted from then on for both."""
        if len(self._dirty):
            self._index, self._vectors, self._dirty = None, None, _NONE

    def selection(self, predicate: Predicate) -> NDArray[np.int64]:
        """Return the rowids that a predicate allows; the last 64 predicates are remembered."""
        return self._selections.of(self, predicate).rowids

    def allowed(self, predicate: Predicate, index: RowIndex) -> NDArray[np.bool_]:
        """Return which rows of `index` a predicate allows, by position [n]."""
        return self._selections.allowed(self, predicate, index)

    def has_grown(self) -> bool:
        """Return whether the index or the vectors were loaded since the last call."""
        grown, self._grown = self._grown, False  # no lock: nobody should wait here for what another thread loads
        return grown

    def nbytes(self) -> int:
        """Return a rough number of bytes."""
        with self.lock:
            total = self.rows.nbytes + self._selections.nbytes() + self.tokens.nbytes
            total += _NONE.itemsize * int(self.postings.currsize)
            total += 0 if self._vectors is None else self._vectors.nbytes()
            total += 0 if self._pieces is None else self._pieces.nbytes
            return total + (0 if self._index is None else self._index.nbytes())
