"""Stores that runs name by path: each is opened once, without blocking others, in a bounded number."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cachetools import LRUCache

from recall_loop.memory.store.files.locks import KeyedLocks
from recall_loop.memory.store.store import MemoryStore

# The path of a store, and the embedder that the context names for it.
StoreKey = tuple[str, str | None]
# Most read-only stores that are kept open for the next run.
MAX_READERS = 32


class OpenedStores:
    """Open stores by key, for any thread.

    Beyond `MAX_READERS` read-only stores, the least recently used one is dropped, and its files are closed once no run
    uses it any more. Stores open for writing, and those in memory, are kept: opening them again would fail at the lock,
    or give an empty store. A store whose folder was removed or replaced is opened again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: LRUCache[StoreKey, MemoryStore] = LRUCache(MAX_READERS)
        self._kept: dict[StoreKey, MemoryStore] = {}
        self._opening = KeyedLocks[StoreKey]()

    def get(self, key: StoreKey, open_store: Callable[[], MemoryStore]) -> MemoryStore:
        """Return the store of `key`, opened by `open_store` if it isn't open; its exceptions are passed on."""
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
