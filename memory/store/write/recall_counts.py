"""How often records are recalled: counted in memory, written every few seconds and when the store closes (PAGE-1).

A retrieval only adds to a table in memory. What is written is added to what stands in the tables, so that any number
of processes may count; a process that is killed loses its last seconds.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from recall_loop.memory.store.encoding.indexing import from_microseconds, now_microseconds
from recall_loop.memory.store.tables.database import RECALLS_SINCE_META_KEY, Connection, Database
from recall_loop.memory.store.tables.predicate import Predicate
from recall_loop.state.errors import StoreError, StoreUnusableError

_FLUSH_SECONDS = 10.0
# Maximum number of records waiting to be written; while a store can't be written, further ones are not counted.
_MAX_PENDING = 100_000
RecallRow = tuple[str, str, int, int]
"""A tenant, the id of one of its records, how often it was recalled, and when last, in microseconds since 1970."""
_ROWID = "SELECT rowid FROM records WHERE tenant = ? AND id = ?"
_ADD = """INSERT INTO recalls (rowid, times, last_at) SELECT r.rowid, ?, ? FROM records r WHERE r.rowid = ?
ON CONFLICT (rowid) DO UPDATE SET times = recalls.times + excluded.times,
  last_at = CASE WHEN excluded.last_at > recalls.last_at THEN excluded.last_at ELSE recalls.last_at END"""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecallFigures:
    """How often a record was among the facts of a retrieval.

    Attributes:
        times: how often, as far as it is known to this process; others write what they count every ten seconds.
        last: when last; None if never.
        since: since when the store counts: it was made then, upgraded from a version that didn't, or rebuilt.
        counting: whether retrievals of this process count; not where the store is open for reading only.
    """

    times: int
    last: datetime | None
    since: datetime
    counting: bool


class RecallCounter:
    """Counts in memory until `write` has taken them; any thread may call it.

    Args:
        write: adds rows to those that are stored; raises a `StoreError` where it can't, and is given them again.
    """

    def __init__(self, write: Callable[[Sequence[RecallRow]], None]) -> None:
        self._write = write
        self._pending: dict[tuple[str, str], tuple[int, int]] = {}
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._timer: threading.Timer | None = None
        self._closed = False

    def add(self, tenant: str, ids: Iterable[str]) -> None:
        """Count one retrieval that has given these records."""
        self._merge((tenant, record_id, 1, now_microseconds()) for record_id in ids)

    def pending(self, tenant: str, record_id: str) -> tuple[int, int]:
        """Return how often a record was counted and isn't written yet, and when last; zeros for not at all."""
        with self._lock:
            return self._pending.get((tenant, record_id), (0, 0))

    def forget(self, tenant: str, ids: Collection[str]) -> None:
        """Drop what isn't written yet of records that are being deleted."""
        with self._lock:
            for record_id in ids:
                self._pending.pop((tenant, record_id), None)

    def flush(self) -> None:
        """Write what was counted; where that fails it is kept for the next time."""
        with self._writing:
            with self._lock:
                taken, self._pending, self._timer = self._pending, {}, None
            rows = [(*name, *counted) for name, counted in taken.items()]
            try:
                if rows:
                    self._write(rows)
            except StoreUnusableError as error:
                _LOG.warning("the recall counts of %d records were not written: %s", len(rows), error)
            except StoreError as error:
                _LOG.warning("the recall counts of %d records will be written later: %s", len(rows), error)
                self._merge(rows)

    def close(self) -> None:
        """Write what is left, and count nothing more."""
        with self._lock:
            self._closed = True
            timer = self._timer
        if timer is not None:
            timer.cancel()
        self.flush()

    def _merge(self, rows: Iterable[RecallRow]) -> None:
        with self._lock:
            for tenant, record_id, times, last in rows:
                known, before = self._pending.get((tenant, record_id), (0, 0))
                if known or len(self._pending) < _MAX_PENDING:
                    self._pending[tenant, record_id] = known + times, max(before, last)
            if self._pending and self._timer is None and not self._closed:
                # Weakly: pending counts must not keep an unused store alive.
                self._timer = threading.Timer(_FLUSH_SECONDS, _flush_later, [weakref.ref(self)])
                self._timer.daemon = True
                self._timer.start()


def _flush_later(reference: weakref.ref[RecallCounter]) -> None:
    counter = reference()
    if counter is not None:
        counter.flush()


def add_recalls(connection: Connection, rows: Iterable[RecallRow]) -> None:
    """Add counts to those that are stored, within a transaction; what is no longer there has none."""
    found = [(connection.execute(_ROWID, row[:2]).fetchone(), row) for row in rows]
    counts = sorted((rowid[0], times, last) for rowid, (_, _, times, last) in found if rowid is not None)
    # In the order in which all writers of a shared store lock rows.
    connection.executemany(_ADD, [(times, last, rowid) for rowid, times, last in counts])


def read_recalls(
    database: Database, predicate: Predicate, record_id: str, counter: RecallCounter | None
) -> RecallFigures:
    """Return how often a record was recalled that a predicate allows, with what a counter has still to write."""
    query = f"""SELECT c.times, c.last_at FROM recalls c JOIN records r ON r.rowid = c.rowid
        WHERE {predicate.where} AND r.id = ?"""
    times, last = next(iter(database.fetch(query, (*predicate.params, record_id))), (0, 0))
    more, latest = (0, 0) if counter is None else counter.pending(predicate.tenant, record_id)
    moment = max(last, latest)
    return RecallFigures(
        times=times + more,
        last=from_microseconds(moment) if moment else None,
        since=from_microseconds(int(database.meta()[RECALLS_SINCE_META_KEY])),
        counting=counter is not None,
    )


def forget_recalls(connection: Connection, rowids: Iterable[int]) -> None:
    """Delete the counts of records, within a transaction; deleting a record does so by itself."""
    connection.executemany("DELETE FROM recalls WHERE rowid = ?", [(rowid,) for rowid in rowids])
