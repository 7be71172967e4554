"""Group commit: waiting writes share a transaction and a delivery to Chroma."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recall_loop.memory.store.tables.database import APPLIED
from recall_loop.memory.store.tables.prepared_records import PreparedRecord, WriteStatus

if TYPE_CHECKING:
    from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
    from recall_loop.memory.store.files.process_lock import ProcessLock
    from recall_loop.memory.store.tables.database import Database


# Maximum number of records written together; those of a single caller are never split.
_MAX_RECORDS = 1000


@dataclass(slots=True, eq=False)
class PendingWrite:
    """The records of one call, and their outcome: a status for each, or the error of the call."""

    prepared: Sequence[PreparedRecord]
    statuses: list[WriteStatus] | None = None
    error: BaseException | None = None

    @property
    def is_settled(self) -> bool:
        """Whether its caller can be answered."""
        return self.statuses is not None or self.error is not None


class GroupCommit:
    """Lets calls wait for their turn at a lock; the first to get it writes for all that wait then, in their order.

    Args:
        lock: held while anything is written.
        commit: writes the records of some calls, and settles each of them.
    """

    def __init__(self, lock: ProcessLock, commit: Callable[[Sequence[PendingWrite]], None]) -> None:
        self._lock, self._commit = lock, commit
        self._queue: list[PendingWrite] = []
        self._exclusive_depth = 0

    @contextmanager
    def exclusive_writes(self) -> Iterator[None]:
        """Hold off what other threads write; this thread writes nothing but its own meanwhile."""
        with self._lock:
            self._exclusive_depth += 1
            try:
                yield
            finally:
                self._exclusive_depth -= 1

    def write(self, drafts: Sequence[PreparedRecord]) -> list[WriteStatus]:
        """Write the records of one call, return the outcome of each.

        Raises:
            BaseException: the error of this call, as `commit` noted it, or what interrupted it; other calls don't see
                it, and write nothing of this one.
        """
        write = PendingWrite(drafts)
        self._queue.append(write)
        try:
            with self._lock:
                self._settle(write)
        finally:  # each call removes itself, so that none is forgotten if another call's thread is interrupted
            self._queue.remove(write)
        if write.error is not None:
            raise write.error
        return write.statuses or []

    def _settle(self, write: PendingWrite) -> None:
        while not write.is_settled:
            try:
                self._commit(self._group(write))
            except BaseException as interruption:
                write.error = interruption  # before the lock is released, since the next owner would write it too
                raise

    def _group(self, write: PendingWrite) -> list[PendingWrite]:
        """Return the next writes: the first that wait, in order; only `write` while this thread holds others off."""
        if self._exclusive_depth:
            return [write]
        group, room = list[PendingWrite](), _MAX_RECORDS
        for pending in list(self._queue):
            if pending.is_settled:
                continue
            room -= len(pending.prepared)
            if group and room < 0:
                break
            group.append(pending)
        return group


# A row that was rewritten in the meantime has another revision, and stays pending.
_HEARD = f"UPDATE tombstones SET state = {APPLIED} WHERE key = ? AND commit_number = ?"
_APPLY = f"UPDATE records SET state = {APPLIED} WHERE rowid = ? AND revision = ?"


def mark_applied(database: Database, rows: Sequence[ChromaRow], *, deleted: Sequence[tuple[str, int]] = ()) -> None:
    """Note that Chroma holds rows at these revisions, and knows of `deleted` keys, each with its commit.

    Raises:
        StoreUnavailableError: SQLite fails; the rows stay pending.
    """
    if rows or deleted:
        with database.transaction() as connection:
            connection.executemany(_HEARD, deleted)
            connection.executemany(_APPLY, [(row.rowid, row.revision) for row in rows])


class ChromaDelivery:
    """Delivers chunk after chunk, in order, at most one behind the sidecar.

    Leaving the context waits for the last chunk, so that a write returns only when all of it is in
    Chroma; a failed delivery is raised there, or when the next chunk is handed over.

    Args:
        deliver: brings the rows of one chunk to Chroma.
    """

    def __init__(self, deliver: Callable[[Sequence[ChromaRow]], None]) -> None:
        self._deliver = deliver
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None

    def deliver_chunk(self, rows: Sequence[ChromaRow], *, more: bool) -> None:
        """Deliver rows: at once if nothing follows, else in a thread while `more` is prepared.

        Raises:
            StoreUnavailableError: this delivery or the one before it failed; all rows stay pending.
        """
        self._wait()
        if not more:
            self._deliver(rows)
            return
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="recall-loop-chroma")
        self._running = self._pool.submit(self._deliver, rows)

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def __enter__(self) -> Self:
        """Return the delivery itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for what is under way; its failure is raised unless there is an error already."""
        try:
            if error is None:
                self._wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=True)
