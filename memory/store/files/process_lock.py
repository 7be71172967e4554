"""A lock that knows its process, so that a forked child gets an error instead of waiting for ever (GUARD-7)."""

from __future__ import annotations

import os
import threading
from types import TracebackType

from recall_loop.state.errors import StoreUnusableError


class ProcessLock:
    """A lock for the threads of the process that made it; one thread may take it several times.

    A fork copies a lock as it is, taken or not, and not the threads that would give it back. Nor may a child use what
    its parent has open of SQLite and Chroma.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that made the lock."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise `StoreUnavailableError` in a forked child."""
        if self.is_foreign:
            raise StoreUnusableError(
                f"the store was opened in process {self._process}, of which this one is a fork: open it here again "
                "(with read_only=True while the other process writes), or start processes with `spawn`"
            )

    def __enter__(self) -> None:
        """Wait for the lock; raises `StoreUnavailableError` at once in a forked child."""
        self.check_process()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
