"""The store that a `Memory` opens: a given one, a folder, PostgreSQL, or in memory."""

from __future__ import annotations

from pathlib import Path

from recall_loop.memory.store.files.store_place import checked_place
from recall_loop.memory.store.store import EmbedderInput, MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings


def open_place(
    path: str | Path | None, settings: Settings, embedder: EmbedderInput | None, store: MemoryStore | None
) -> MemoryStore:
    """Return the given store, or open one.

    Raises:
        InvalidInputError: `path` isn't a path, or another argument is given together with `store`.
        UnsupportedOptionError: `path` is an address of something else than PostgreSQL, or its driver isn't installed.
        StoreError: the store can't be opened.
    """
    if store is not None:
        for name, value in (("path", path), ("embedder", embedder)):
            if value is not None:
                raise InvalidInputError(name, value, "no value together with store=")
        return store
    check_place(path)
    if path is None:
        return MemoryStore.in_memory_from_settings(settings, embedder=embedder)
    return MemoryStore.from_settings(settings, path, embedder=embedder)


def check_place(path: object) -> None:
    """Check a path without opening anything; raises as `open_place`."""
    if path is not None:
        checked_place(path)
