"""Giving up: whoever starts a run may take it back, and the run ends at its next step.

A run looks at the event that its context carries, so that no function has to hand it on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class RunCancelledError(Exception):
    """The run was taken back by whoever started it; nobody waits for its result."""


_cancellation_event: ContextVar[threading.Event | None] = ContextVar("recall_loop_given_up", default=None)


@contextmanager
def cancellable(given_up: threading.Event) -> Iterator[None]:
    """Let runs that start inside end soon after `given_up` is set."""
    token = _cancellation_event.set(given_up)
    try:
        yield
    finally:
        _cancellation_event.reset(token)


def cancellation_event() -> threading.Event | None:
    """Return the event that ends this run, or None where nobody can."""
    return _cancellation_event.get()


def raise_if_cancelled() -> None:
    """Go on, unless the run was taken back.

    Raises:
        RunCancelledError: it was.
    """
    event = _cancellation_event.get()
    if event is not None and event.is_set():
        raise RunCancelledError("the run was taken back")
