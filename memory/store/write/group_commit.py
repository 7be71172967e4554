"""Group commit: waiting writes share a transaction and a delivery to Chroma."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.tables.database import APPLIED, Database
from recall_loop.memory.store.tables.prepared_records import PreparedRecord, WriteStatus

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

    `commit` writes the records of some calls, and settles each of them.
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
    """Note that Chroma holds rows at these revisions, and knows of `deleted` keys, each with its commit."""
    if rows or deleted:
        with database.transaction() as connection:
            connection.executemany(_HEARD, deleted)
            connection.executemany(_APPLY, [(row.rowid, row.revision) for row in rows])


@contextmanager
def chroma_delivery(deliver: Callable[[Sequence[ChromaRow]], None]) -> Iterator[Callable[[Sequence[ChromaRow]], None]]:
    """Give a function that has `deliver` bring chunk after chunk to Chroma, in order, at most one behind the sidecar.

    Each is delivered in a thread while the next is prepared. A failed delivery is raised with the next chunk or when
    the context is left, which waits for the last one: a write returns only when all of it is in Chroma.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="recall-loop-chroma") as pool:
        running: list[Future[None]] = []

        def wait() -> None:
            if running:
                running.pop().result()

        def hand_over(rows: Sequence[ChromaRow]) -> None:
            wait()
            running.append(pool.submit(deliver, rows))

        yield hand_over
        wait()
