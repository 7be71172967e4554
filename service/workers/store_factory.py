"""Opening the store as this process may: for writing, for reading only, or beside an owner that writes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recall_loop.state.errors import StoreLockedError

if TYPE_CHECKING:
    from recall_loop.memory.store.embed.embedders import Embedder
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.service.core.config import ServiceConfig
    from recall_loop.state.settings.settings import Settings

IN_MEMORY_WARNING = "No store is set: what is written lives in memory only, and ends with the service."


def open_service_store(
    config: ServiceConfig, settings: Settings, embedder: Embedder | None, warnings: list[str]
) -> MemoryStore:
    """Open the store that the settings name; what an operator should know goes to `warnings`.

    Raises:
        StoreError: it can't be opened.
    """
    from recall_loop.memory.store.embed.embedder_factory import make_embedder
    from recall_loop.memory.store.store import MemoryStore

    embedder = embedder or make_embedder(settings)
    if config.owner_socket is not None:
        from recall_loop.memory.store.embed.embedder_factory import processors_per_process
        from recall_loop.memory.store.embed.minilm import limit_threads
        from recall_loop.service.workers.remote_writer import open_remote_writer

        limit_threads(processors_per_process(config.workers))
        return open_remote_writer(config.owner_socket, settings, embedder)
    if settings.store_path is None:
        warnings.append(IN_MEMORY_WARNING)
        return MemoryStore.in_memory(embedder=embedder)
    read_only = config.read_only or False
    try:
        return MemoryStore.from_settings(settings, embedder=embedder, create=not read_only, read_only=read_only)
    except StoreLockedError as error:
        if config.read_only is not None:
            raise
        warnings.append(f"The store is open for reading only: {error}")
        return MemoryStore.from_settings(settings, embedder=embedder, create=False, read_only=True)
