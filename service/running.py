"""What a running service holds from start to end: store, threads, keys, figures."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recall_loop.service.problems import ProblemError
from recall_loop.service.work import Work
from recall_loop.state.errors import StoreLockedError
from recall_loop.state.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from recall_loop.memory.store.embeddings import Embedder
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.service.config import ServiceConfig

_log = logging.getLogger(__name__)


@dataclass
class Service:
    """One process of the service.

    Attributes:
        embedder: bound by whoever makes the app; None = what the settings name.
        llm: a chat model bound likewise; None = what the settings name, if any.
        warnings: what an operator should know, as /ready shows it.
    """

    config: ServiceConfig
    settings: Settings
    embedder: Embedder | None = None
    llm: BaseChatModel | None = None
    warnings: list[str] = field(default_factory=list)
    _store: MemoryStore | None = None
    _pool: ThreadPoolExecutor | None = None

    @property
    def store(self) -> MemoryStore:
        """The opened store.

        Raises:
            ProblemError: 503, the service is starting or ending.
        """
        if self._store is None:
            raise ProblemError(503, "The service is starting or ending.", headers={"Retry-After": "1"})
        return self._store

    def work(self, seconds: float) -> Work:
        """Return what a request may use: the service's threads, for so many seconds.

        Raises:
            ProblemError: 503, the service is starting or ending.
        """
        if self._pool is None:
            raise ProblemError(503, "The service is starting or ending.", headers={"Retry-After": "1"})
        return Work(self._pool, seconds)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Open the store, serve, and at the end let begun work finish before the store is closed."""
        pool = ThreadPoolExecutor(self.config.concurrency, thread_name_prefix="recall-loop-service")
        try:
            self._store = await Work(pool, 3600.0).run(self._open)
            self._pool = pool
            yield
        finally:
            self._pool = None
            pool.shutdown(wait=True, cancel_futures=True)
            if self._store is not None:
                store, self._store = self._store, None
                store.close()

    def _open(self) -> MemoryStore:
        from recall_loop.memory.store.embeddings import make_embedder
        from recall_loop.memory.store.store import MemoryStore

        embedder = self.embedder or make_embedder(self.settings)
        if self.settings.store_path is None:
            self.warnings.append("No store is set: what is written lives in memory only, and ends with the service.")
            return MemoryStore.in_memory(embedder=embedder)
        if self.config.read_only is not None:
            return self._open_folder(embedder, read_only=self.config.read_only)
        try:
            return self._open_folder(embedder, read_only=False)
        except StoreLockedError as error:
            self.warnings.append(f"The store is open for reading only: {error}")
            return self._open_folder(embedder, read_only=True)

    def _open_folder(self, embedder: Embedder, *, read_only: bool) -> MemoryStore:
        from recall_loop.memory.store.server import chroma_server
        from recall_loop.memory.store.store import MemoryStore

        path, url = str(self.settings.store_path), chroma_server(self.settings)
        return MemoryStore.open(path, embedder=embedder, create=not read_only, read_only=read_only, url=url)
