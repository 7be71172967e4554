"""Stores that runs name by path: each opened once, without blocking others, in a bounded number."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cachetools import LRUCache

from recall_loop.memory.store.files.keyed_locks import KeyedLocks
from recall_loop.memory.store.store import MemoryStore

# The path of a store, and the embedder that the context names for it.
StoreKey = tuple[str, str | None]
# Stores open for reading only that are kept for the next run.
MAX_READERS = 32


class OpenedStores:
    """Open stores by key, for any thread.

    Of those open for reading only the least recently used one is forgotten beyond `MAX_READERS`, and its files are
    closed once no run has it any more. Those open for writing, and those in memory, are kept: another open would meet
    the lock, or an empty store. One whose folder was removed or replaced is opened again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: LRUCache[StoreKey, MemoryStore] = LRUCache(MAX_READERS)
        self._kept: dict[StoreKey, MemoryStore] = {}
        self._opening = KeyedLocks[StoreKey]()

    def get(self, key: StoreKey, open_store: Callable[[], MemoryStore]) -> MemoryStore:
        """Return the store of `key`, which `open_store` opens if it isn't open; raises what that raises."""
        with self._lock:
            found = self._find(key)
        if found is not None:
            return found
        with self._opening[key]:
            with self._lock:
                found = self._find(key)
            if found is None:
                found = open_store()
                with self._lock:
                    (self._readers if found.read_only else self._kept)[key] = found
            return found

    def _find(self, key: StoreKey) -> MemoryStore | None:
        found = self._kept[key] if key in self._kept else self._readers.get(key)
        return found if found is not None and found.in_place else None
