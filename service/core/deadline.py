"""Blocking work, off the event loop: in the service's own threads, within the request's time."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from enum import Enum
from functools import wraps
from typing import ParamSpec, TypeVar

from recall_loop.state.errors import RecallError
from recall_loop.state.run.cancellation import cancellable

P = ParamSpec("P")
T = TypeVar("T")
_MAX_REPEAT_SECONDS = 3600.0
_log = logging.getLogger(__name__)


class RequestTimeoutError(RecallError):
    """The request took longer than it may."""


class ClientGoneError(Exception):
    """The client has closed the connection: nobody reads an answer."""


class RequestExecutor:
    """Runs one request's blocking work in the service's threads, until its deadline (on `time.monotonic`'s clock).

    `cancelled` is set when nobody waits any more; long work checks it and gives up.
    """

    def __init__(self, pool: Executor, seconds: float) -> None:
        self.pool = pool
        self.deadline = time.monotonic() + seconds
        self.cancelled = threading.Event()

    @property
    def remaining(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.deadline - time.monotonic())

    def extend(self, seconds: float) -> None:
        """Give the request this much time from now, if that is more than it has."""
        self.deadline = max(self.deadline, time.monotonic() + seconds)

    async def run(self, func: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `func` in a thread until the deadline; what isn't done by then raises `RequestTimeoutError`.

        Work that waits for a thread when the request ends never starts. Running work can't be stopped from here: it
        checks `cancelled` or runs to its end.
        """
        with cancellable(self.cancelled):
            context = contextvars.copy_context()
        future = self.pool.submit(lambda: context.run(func, *args, **kwargs))
        try:
            async with asyncio.timeout(self.remaining) as limit:
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            if not limit.expired():  # the function itself raised it
                raise
            self.cancelled.set()
            raise RequestTimeoutError("the request exceeded its time limit") from error
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def stream(
        self, func: Callable[[Callable[[T], None]], None], idle_seconds: float | None = None
    ) -> AsyncGenerator[T | None]:
        """Run `func` in a thread and yield its reports as they arrive; closing early cancels it.

        After every `idle_seconds` without a report None is yielded. Raises like `run`, and whatever `func` raises.
        """
        loop, reports = asyncio.get_running_loop(), asyncio.Queue[T | _End]()

        def report(item: T) -> None:
            loop.call_soon_threadsafe(reports.put_nowait, item)

        running = asyncio.ensure_future(self.run(func, report))
        running.add_done_callback(lambda _: reports.put_nowait(_End.END))
        try:
            while True:
                try:
                    item = await asyncio.wait_for(reports.get(), idle_seconds)
                except TimeoutError:
                    yield None
                    continue
                if item is _End.END:
                    break
                yield item
            await running
        finally:
            running.cancel()


class _End(Enum):
    END = 0


_work: contextvars.ContextVar[RequestExecutor] = contextvars.ContextVar("recall_loop_work")


@contextmanager
def bind_executor(work: RequestExecutor) -> Iterator[RequestExecutor]:
    """Make `work` the executor of `run_blocking` in this request."""
    token = _work.set(work)
    try:
        yield work
    finally:
        work.cancelled.set()
        _work.reset(token)


def current_executor() -> RequestExecutor:
    """Return the executor of this request; raise `LookupError` where there is no request."""
    return _work.get()


async def run_blocking(func: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call of the store in the service's own threads; see `RequestExecutor.run`."""
    return await current_executor().run(func, *args, **kwargs)


def blocking(route: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Return a route that runs the plain function `route` in the service's own threads; see `run_blocking`."""

    @wraps(route)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run_blocking(route, *args, **kwargs)

    return call


def is_cancelled() -> bool:
    """Return whether the request that this thread works for has ended; work in chunks checks it between them."""
    return current_executor().cancelled.is_set()


async def repeat(work: Callable[[], object], seconds: float, pool: Executor, name: str) -> None:
    """Run `work` every `seconds` in a thread of `pool` until cancelled, whatever it raises.

    The log has the first failure of each kind, and the end of failures.
    """
    failing = ""
    while True:
        await asyncio.sleep(seconds)
        try:
            await RequestExecutor(pool, _MAX_REPEAT_SECONDS).run(work)
        except Exception as error:  # noqa: BLE001  # logged below, and retried
            kind, expected = type(error).__name__, isinstance(error, RecallError)
            if kind != failing:
                words = "%s failed and is retried every %g s: %s"
                _log.warning(words, name, seconds, error if expected else kind, exc_info=None if expected else error)
            failing = kind
        else:
            if failing:
                _log.warning("%s works again", name)
            failing = ""
