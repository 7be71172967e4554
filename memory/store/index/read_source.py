"""What reading needs of a store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaSide
from recall_loop.memory.store.index.tenant_cache import Cache
from recall_loop.memory.store.sqlite.sqlite_store import Sidecar


class Source(Protocol):
    """What a view needs of its store."""

    @property
    def sidecar(self) -> Sidecar:
        """The sidecar that is read."""
        ...

    @property
    def cache(self) -> Cache:
        """The caches of the store."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def searching(self) -> AbstractContextManager[ChromaSide | None]:
        """Give the Chroma side, or None while the store works without it."""
        ...

    def degrade(self, error: ChromaError) -> None:
        """Note that Chroma failed."""
        ...
