"""Cancellation: the caller may cancel a run, which then ends at its next step.

A run checks an event in its context, so that no function has to pass it on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class RunCancelledError(Exception):
    """The caller cancelled the run; nobody waits for its result."""


_cancellation_event: ContextVar[threading.Event | None] = ContextVar("recall_loop_given_up", default=None)


@contextmanager
def cancellable(cancelled: threading.Event) -> Iterator[threading.Event]:
    """Let runs that start inside end soon after `cancelled`, which is given back, is set."""
    token = _cancellation_event.set(cancelled)
    try:
        yield cancelled
    finally:
        _cancellation_event.reset(token)


def cancellation_event() -> threading.Event | None:
    """Return the event that cancels this run, or None if nobody can."""
    return _cancellation_event.get()


def raise_if_cancelled() -> None:
    """Raise `RunCancelledError` if the run was cancelled."""
    event = _cancellation_event.get()
    if event is not None and event.is_set():
        raise RunCancelledError("the run was cancelled")
