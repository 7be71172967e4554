"""The state of a running service from start to end: store, threads, keys, metrics."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from recall_loop.graph.frozen_heap import freeze_heap
from recall_loop.memory.store.embed.embedders import Embedder, run_embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.access.api_keys import KeyRing, KeysUnreadableError
from recall_loop.service.core.config import ServiceConfig, is_loopback
from recall_loop.service.core.deadline import RequestExecutor, repeat
from recall_loop.service.core.fair_threads import FairThreadPool
from recall_loop.service.core.problems import ProblemError
from recall_loop.service.core.rate_limits import PlaceLimiter, RateLimiter
from recall_loop.service.core.request_log import RequestLog
from recall_loop.service.core.service_metrics import Metrics
from recall_loop.service.workers.remote_writer import open_service_store
from recall_loop.service.workers.supervisor import watch_parent
from recall_loop.state.errors import EmbedderError, InvalidInputError, StoreError
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings.settings import Settings

if TYPE_CHECKING:  # the process that supervises workers asks no model
    from recall_loop.llm.endpoint.wrapped_models import ChatModel

NO_KEYS_WARNING = (
    "No API keys are in use: everybody on this machine may read, write and erase. "
    "Make keys with `recall-loop keys add`, and name their file with --keys."
)
# For work that must not wait behind requests: /health, /ready, and the check of Chroma.
_SPARE_THREADS = 2
_PROBE_SECONDS = 5.0
_HEALTH_CACHE_SECONDS = 1.0
_OPENING_SECONDS = 3600.0
_REPLACED = "the store's folder or its lock was removed or replaced while it was open"
_log = logging.getLogger(__name__)


class HealthIssue(NamedTuple):
    """A part that is missing; the detail may name paths and addresses."""

    what: str
    detail: str


HealthStatus = tuple[tuple[HealthIssue, ...], tuple[HealthIssue, ...]]


@dataclass
class Service:
    """One process of the service.

    `embedder` and `llm` were given with the app; None is what the settings name. `warnings` are for the operator, as
    /ready shows them. Raises as `load_keys`, and `OSError` where the request log can't be written.
    """

    config: ServiceConfig
    settings: Settings
    embedder: Embedder | None = None
    llm: ChatModel | str | None = None
    metrics: Metrics = field(default_factory=Metrics)
    warnings: list[str] = field(default_factory=list)
    keys: KeyRing | None = None
    _store: MemoryStore | None = None
    _pool: FairThreadPool | None = None
    _spare: ThreadPoolExecutor | None = None
    _requests: RequestLog | None = None
    _log_fails: bool = False
    _embedded: bool = False
    _health_lock: threading.Lock = field(default_factory=threading.Lock)
    _checked_at: float = -math.inf
    _health: HealthStatus = ((), ())

    def __post_init__(self) -> None:
        """Check keys and address before anything is opened."""
        config = self.config
        self.keys = load_keys(config)
        if self.keys is None:
            self.warnings.append(NO_KEYS_WARNING)
        self.places = PlaceLimiter(config.concurrency + config.queue)
        self.rate_limiter = RateLimiter(config.rate_per_minute, config.rate_burst, config.shared_rates)

    @property
    def store(self) -> MemoryStore:
        """The opened store; raises `ProblemError` (503) while the service is starting or ending."""
        if self._store is None:
            raise not_running_problem()
        return self._store

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        return self._store is not None and not self._store.writable

    def executor(self, seconds: float, *, key: str = "", spare: bool = False) -> RequestExecutor:
        """Return an executor for one request: the service's threads, for at most this many seconds; raises as `store`.

        `key` is whose request it is: keys take turns. `spare` gives the threads that clients' requests never occupy.
        """
        if self._pool is None or self._spare is None:
            raise not_running_problem()
        return RequestExecutor(self._spare if spare else self._pool.of_key(key), seconds)

    def record_result(self, request: RetrieveRequest, result: RetrieveResult) -> None:
        """Count a run, and log its request where that is asked for."""
        self.metrics.run(result)
        if self._requests is not None:
            try:
                self._requests.append(request, result)
                self._log_fails = False
            except OSError as error:  # the answer is valid anyway
                if not self._log_fails:
                    _log.error("the request log can't be written: %s", error)
                self._log_fails = True

    def health(self) -> HealthStatus:
        """Return the issues that prevent answers, and those that degrade them, as of the last second."""
        with self._health_lock:
            if time.monotonic() - self._checked_at > _HEALTH_CACHE_SECONDS:
                self._health = self._check_health()
                self._checked_at = time.monotonic()
            return self._health

    def _check_health(self) -> HealthStatus:
        blocking_issues: list[HealthIssue] = []
        degrading_issues: list[HealthIssue] = []
        try:
            self._load_embedder()
        except EmbedderError as error:
            degrading_issues.append(HealthIssue("texts can't be embedded", str(error)))
        try:
            reason = self.store.maintenance.probe()
            degrading_issues += [HealthIssue("the store works without one of its parts", reason)] if reason else []
            if not self.read_only and not self.store.in_place:
                blocking_issues.append(HealthIssue("writes are refused until the service is restarted", _REPLACED))
        except StoreError as error:
            blocking_issues.append(HealthIssue("the store can't be read", str(error)))
        try:
            if self.keys is not None:
                self.keys.refresh()
        except KeysUnreadableError as error:
            blocking_issues.append(HealthIssue("the API keys can't be read", str(error)))
        return tuple(blocking_issues), tuple(degrading_issues)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Open the store, serve, and at the end let begun work finish before the store is closed."""
        if self.config.parent is None:  # otherwise the parent has reported it
            for warning in self.warnings:
                _log.warning("%s", warning)
        pool = FairThreadPool(self.config.concurrency, thread_name_prefix="recall-loop-service")
        spare = ThreadPoolExecutor(_SPARE_THREADS, thread_name_prefix="recall-loop-spare")
        tending: list[asyncio.Task[None]] = []
        try:
            if self.config.request_log is not None:
                self._requests = RequestLog(self.config.request_log)
            if self._store is None:
                await RequestExecutor(pool, _OPENING_SECONDS).run(self.open)
            self._pool, self._spare = pool, spare
            if self.config.parent is not None:
                watch_parent(self.config.parent)
                freeze_heap()
            tending = self._tend(spare)
            yield
        finally:
            self._pool = self._spare = None
            for task in tending:
                task.cancel()
            if tending:
                await asyncio.wait(tending)  # the store is closed however they ended
            last = ThreadPoolExecutor(1, thread_name_prefix="recall-loop-close")
            await asyncio.wrap_future(last.submit(self._close, [pool, spare]))
            last.shutdown()

    def open(self) -> None:
        """Open the store, and load the embedder; raises `StoreError` where the store can't be opened."""
        self._store = open_service_store(self.config, self.settings, self.embedder, self.warnings)
        self.embedder = self._store.embedder
        try:
            self._load_embedder()
        except EmbedderError as error:  # a remote one may recover; /ready reports it
            _log.error("texts can't be embedded: %s", error)

    def _load_embedder(self) -> None:
        """Embed a word once: a model that is loaded then stays so."""
        if not self._embedded and self.embedder is not None:
            run_embedder(self.embedder, ["ready"], self.store.dimension, as_queries=True)
            self._embedded = True

    def _tend(self, spare: ThreadPoolExecutor) -> list[asyncio.Task[None]]:
        """Check Chroma, so that answers show its failure before a write meets it, and erase what has expired."""
        maintenance, seconds = self.store.maintenance, self.settings.sweep_seconds
        tasks = [asyncio.create_task(repeat(maintenance.probe, _PROBE_SECONDS, spare, "the check of the store"))]
        if seconds and not self.store.read_only:
            tasks.append(asyncio.create_task(repeat(maintenance.sweep, seconds, spare, "the sweep")))
        return tasks

    def _close(self, pools: list[ThreadPoolExecutor]) -> None:
        for pool in pools:
            pool.shutdown(wait=True, cancel_futures=True)
        if self._store is not None:
            store, self._store = self._store, None
            store.close()
        if self._requests is not None:
            self._requests.close()
        self.rate_limiter.close()


def not_running_problem() -> ProblemError:
    """Return the problem of a service that has no store: it is starting or ending."""
    return ProblemError(503, "The service is starting or stopping.", kind="not_running", retry_after=1)


def load_keys(config: ServiceConfig) -> KeyRing | None:
    """Return the keys that are in use, or None.

    Raises `KeysUnreadableError` where they can't be read, and `InvalidInputError` where there are none, and the service
    would be reached from elsewhere.
    """
    if config.keys_file is not None:
        return KeyRing(config.keys_file)
    if not is_loopback(config.host):
        allowed = "a loopback address such as 127.0.0.1, unless API keys are in use (--keys)"
        raise InvalidInputError("host", config.host, allowed)
    return None
