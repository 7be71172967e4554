"""Locks by key, and a lock that knows its process: a forked child gets an error instead of waiting (GUARD-7)."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from recall_loop.state.errors import StoreUnusableError

_K = TypeVar("_K", bound=Hashable)


class KeyedLocks(Generic[_K]):
    """A lock for each key, there for as long as a thread has it or waits for it; one thread may take it several times.

    That it may is for what a garbage collection closes, which comes at any time.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._locks: WeakValueDictionary[_K, Any] = WeakValueDictionary()

    def __getitem__(self, key: _K) -> AbstractContextManager[bool]:
        """Return the lock of a key, to be held by `with`."""
        with self._lock:
            lock: AbstractContextManager[bool] = self._locks.setdefault(key, threading.RLock())
        return lock


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
