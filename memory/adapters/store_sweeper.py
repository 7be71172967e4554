"""A thread that erases expired items from time to time, as LangGraph's stores have one."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future

from recall_loop.state.errors import RecallError

_log = logging.getLogger(__name__)


class Sweeper:
    """Runs a method of an object periodically, as long as the object lives."""

    def __init__(self, sweep: Callable[[], int]) -> None:
        """Take the method; only a weak reference to its object is kept."""
        self._sweep = weakref.WeakMethod(sweep)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._done: Future[None] = Future()
        self._lock = threading.Lock()

    def start(self, interval_minutes: float) -> Future[None]:
        """Start the thread unless it runs; return a future that ends with it, and ends it where it is cancelled."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._stop = stop = threading.Event()
                self._done = Future()
                self._done.add_done_callback(lambda _: stop.set())
                arguments = (self._sweep, self._stop, self._done, 60 * interval_minutes)
                self._thread = threading.Thread(target=_run, args=arguments, name="recall-loop-sweeper", daemon=True)
                self._thread.start()
            return self._done

    def stop(self, timeout: float | None = None) -> bool:
        """End the thread and wait for it, at most `timeout` seconds; return whether it has ended."""
        with self._lock:
            thread = self._thread
        self._stop.set()
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()


def _run(method: weakref.WeakMethod[Callable[[], int]], stop: threading.Event, done: Future[None], wait: float) -> None:
    while not stop.wait(wait):
        sweep = method()
        if sweep is None:
            break
        try:
            if erased := sweep():
                _log.info("%d expired items were erased", erased)
        except RecallError:  # the next sweep may succeed
            _log.warning("expired items could not be erased", exc_info=True)
        del sweep
    if not done.cancelled():
        done.set_result(None)
