"""Patience: a run with a deadline, or a check that somebody waits for, doesn't wait for a backend as long as others do.

The limit stands in the context, so that no function has to pass it on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Who is late still gets what is there, or comes at once.
_LEAST_SECONDS = 0.5
_until: ContextVar[float] = ContextVar("recall_loop_patience", default=math.inf)


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Let nothing inside wait for a backend beyond so many seconds from now, nor beyond an outer limit."""
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


def patience(usual: float) -> float:
    """Return for how many seconds to wait: `usual`, or what a limit leaves of it."""
    return min(usual, max(_until.get() - time.monotonic(), _LEAST_SECONDS))
