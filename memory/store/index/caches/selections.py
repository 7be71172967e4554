"""The rows that predicates allow: remembered, and followed through what is written (STORE-2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.index import row_queries
from recall_loop.memory.store.index.row_index import RowIndex
from recall_loop.memory.store.tables.database import Database
from recall_loop.memory.store.tables.predicate import ColumnPredicate, Predicate

MAX_SELECTIONS = 64
# Up to this many rows, each is tested for a tag; above, all rows with the tag are read.
_FEW_ROWS = 10_000


class TenantRows(Protocol):
    """What selections need of a tenant's data: the sidecar, its lock, its time, and its index if there is one."""

    database: Database
    lock: ProcessLock
    moment: int

    def index(self) -> RowIndex | None:
        """Return the index of all rows, or None."""


@dataclass
class Selection:
    """Rows that a predicate allows in one state; `allowed` are their positions in one index."""

    state: int
    rowids: NDArray[np.int64]
    index: RowIndex | None = None
    allowed: NDArray[np.bool_] | None = None


class Selections:
    """The last 64 predicates' rows in one tenant; `state` counts up whenever rows change.

    Each call hands the tenant in: two objects that hold each other would be freed by a garbage collection only.
    """

    def __init__(self) -> None:
        self.state = 0
        self._found: LRUCache[tuple[object, ...], Selection] = LRUCache(MAX_SELECTIONS)
        self._changes: list[tuple[int, NDArray[np.int64]]] = []

    def note(self, rowids: NDArray[np.int64]) -> None:
        """Note which rows have changed with the state that is current."""
        self._changes.append((self.state, rowids))

    def clear(self) -> None:
        """Forget everything."""
        self._changes.clear()
        self._found.clear()

    def nbytes(self) -> int:
        """Return how many bytes the rows take."""
        return sum(found.rowids.nbytes for found in self._found.values())

    def allowed(self, tenant: TenantRows, predicate: Predicate, index: RowIndex) -> NDArray[np.bool_]:
        """Return which rows of `index` a predicate allows, by position [n]."""
        chosen = self.of(tenant, predicate)
        if chosen.index is not index or chosen.allowed is None:
            allowed = index.mask(chosen.rowids)
            with tenant.lock:
                chosen.index, chosen.allowed = index, allowed
            return allowed
        return chosen.allowed

    def of(self, tenant: TenantRows, predicate: Predicate) -> Selection:
        """Return what a predicate allows."""
        key = (predicate.where, predicate.params)
        with tenant.lock:
            known, state = self._found.get(key), self.state
            if known is not None and known.state == state:
                return known
            stale = [rowids for at, rowids in self._changes if known is not None and at > known.state]
        fresh = self._load(tenant, predicate, state, known, stale)
        fresh.rowids.setflags(write=False)
        with tenant.lock:
            self._found[key] = fresh
        return fresh

    def _load(
        self,
        tenant: TenantRows,
        predicate: Predicate,
        state: int,
        known: Selection | None,
        stale: list[NDArray[np.int64]],
    ) -> Selection:
        """Ask the index where it can tell, else SQLite: for what changed since, if the rest is known."""
        index = tenant.index() if predicate.column_predicate is not None else None
        if index is not None and predicate.column_predicate is not None:
            allowed = _matching(tenant, index, predicate.column_predicate)
            return Selection(state, index.sorted_rowids(allowed), index, allowed)
        unexpired = predicate.unexpired(tenant.moment)
        if known is None or not stale:
            return Selection(state, row_queries.matching_rowids(tenant.database, unexpired, _tagged(tenant, predicate)))
        changed = np.unique(np.concatenate(stale))
        kept = known.rowids[~np.isin(known.rowids, changed)]
        rowwise = (predicate.rowwise or predicate).unexpired(tenant.moment)
        fresh = row_queries.matching_rowids(tenant.database, rowwise, changed)
        return Selection(state, np.union1d(kept, fresh))


def _tagged(tenant: TenantRows, predicate: Predicate) -> NDArray[np.int64] | None:
    """Return the rows with a tag that a predicate asks for, if they are few: no others need be read then."""
    tags = () if predicate.column_predicate is None else predicate.column_predicate.tags
    found = (row_queries.tagged_rowids_if_few(tenant.database, tag, _FEW_ROWS) for tag in tags)
    return next((few for few in found if few is not None), None)


def _matching(tenant: TenantRows, index: RowIndex, tests: ColumnPredicate) -> NDArray[np.bool_]:
    allowed = index.matching(tests)
    for tag in tests.tags:
        few = index.columns.rowids[allowed] if allowed.sum() <= _FEW_ROWS else None
        allowed &= index.mask(row_queries.tagged_rowids(tenant.database, tag, few))
    return allowed
