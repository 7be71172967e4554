"""Bringing committed chunks to Chroma while the next one is prepared (STORE-2, STORE-4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recall_loop.memory.store.sqlite.schema import APPLIED

if TYPE_CHECKING:
    from recall_loop.memory.store.chroma.chroma_index import ChromaRow
    from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase

# A row that was written again in the meantime has another revision, and stays pending.
_APPLY = f"UPDATE records SET state = {APPLIED} WHERE rowid = ? AND revision = ?"


def mark_applied(database: SqliteDatabase, rows: Sequence[ChromaRow], *, deleted: Sequence[str] = ()) -> None:
    """Note that Chroma holds rows at these revisions, and no longer those with the keys `deleted`.

    Raises:
        StoreUnavailableError: SQLite fails; the rows stay pending.
    """
    if rows or deleted:
        with database.transaction() as connection:
            connection.executemany("DELETE FROM tombstones WHERE key = ?", [(key,) for key in deleted])
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
