"""Locks by key, for work that is done once for each key while other keys go on."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

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
