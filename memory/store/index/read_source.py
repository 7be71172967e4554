"""The part of a store that views read through."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex
from recall_loop.memory.store.index.tenant_cache import TenantCaches
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase


class ViewSource(Protocol):
    """A store as its views see it."""

    @property
    def sqlite(self) -> SqliteDatabase:
        """The sidecar that is read."""
        ...

    @property
    def cache(self) -> TenantCaches:
        """The caches of the store."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def searching(self) -> AbstractContextManager[ChromaIndex | None]:
        """Give the Chroma side, or None while the store works without it."""
        ...

    def degrade(self, error: ChromaError) -> None:
        """Note that Chroma failed."""
        ...
