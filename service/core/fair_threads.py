"""Threads whose queue is fair: keys take turns, however much work each of them has waiting (GUARD-4)."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class FairThreadPool(ThreadPoolExecutor):
    """A thread pool that takes, when a thread is free, the oldest work of the key that waited longest for a turn."""

    def __init__(self, threads: int, thread_name_prefix: str = "") -> None:
        super().__init__(threads, thread_name_prefix=thread_name_prefix)
        self._guard = threading.Lock()
        self._turns: OrderedDict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = OrderedDict()

    def of_key(self, key: str) -> Executor:
        """Return the pool as one key has it: an executor whose work waits in the key's own queue."""
        return _KeyExecutor(self, key)

    def queue(self, key: str, work: Callable[[], T]) -> Future[T]:
        """Let work wait for the key's turn; raises `RuntimeError` where the pool is shut down."""
        future = Future[T]()
        with self._guard:  # otherwise, work that never gets its turn would be invisible
            self.submit(self._run_next)  # one per piece of work; which piece it runs is decided when it starts
            self._turns.setdefault(key, deque()).append((future, work))
        return future

    def _run_next(self) -> None:
        with self._guard:
            if not self._turns:
                return
            key, waiting = self._turns.popitem(last=False)
            future, work = waiting.popleft()
            if waiting:
                self._turns[key] = waiting
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # passed on to the waiting caller, as in every executor
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            del future, work  # an error references this frame, and would keep them alive

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads, as `ThreadPoolExecutor` does; what waits in a queue is cancelled if that is asked for."""
        if cancel_futures:
            with self._guard:
                waiting = [future for queued in self._turns.values() for future, _ in queued]
                self._turns.clear()
            for future in waiting:
                future.cancel()
        super().shutdown(wait, cancel_futures=cancel_futures)


class _KeyExecutor(Executor):
    def __init__(self, pool: FairThreadPool, key: str) -> None:
        self._pool, self._key = pool, key

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._pool.queue(self._key, lambda: fn(*args, **kwargs))
