"""Writes that wait at the same time go together: one transaction, one run of the embedder, one delivery (STORE-4).

A delivery to Chroma takes much the same time for one record as for a hundred. While one is under way others come to
wait, so that many writers at once are served at that pace, and a single one waits for nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from recall_loop.memory.store.sqlite.prepared_records import PreparedRecord, WriteStatus

# So many records go together at most; a single caller's go together whatever their number.
_MOST_RECORDS = 1000


@dataclass(slots=True, eq=False)
class PendingWrite:
    """The records of one call, and their outcome: a status for each, or the error of the call."""

    prepared: Sequence[PreparedRecord]
    statuses: list[WriteStatus] | None = None
    error: Exception | None = None

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

    def __init__(self, lock: threading.RLock, commit: Callable[[Sequence[PendingWrite]], None]) -> None:
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
            Exception: the error of this call, as `commit` noted it; other calls don't see it.
        """
        write = PendingWrite(drafts)
        self._queue.append(write)
        try:
            with self._lock:
                while not write.is_settled:
                    self._commit(self._group(write))
        finally:  # each call takes itself out, so that none is forgotten if another's thread is interrupted
            self._queue.remove(write)
        if write.error is not None:
            raise write.error
        return write.statuses or []

    def _group(self, write: PendingWrite) -> list[PendingWrite]:
        """Return the next writes: the first that wait, in order; only `write` while this thread holds others off."""
        if self._exclusive_depth:
            return [write]
        group, room = list[PendingWrite](), _MOST_RECORDS
        for pending in list(self._queue):
            if pending.is_settled:
                continue
            room -= len(pending.prepared)
            if group and room < 0:
                break
            group.append(pending)
        return group
