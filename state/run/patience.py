"""Patience: a run with a deadline, or a check with a waiting caller, waits less for a backend than others do.

The limit is a context variable, so that no function has to pass it on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Late callers still get an available result, or return at once.
_LEAST_SECONDS = 0.5
_until: ContextVar[float] = ContextVar("recall_loop_patience", default=math.inf)


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Limit the wait for a backend inside the block to `seconds` from now, and to any outer limit."""
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


def patience(usual: float) -> float:
    """Return for how many seconds to wait: `usual`, or what a limit leaves of it."""
    return min(usual, max(_until.get() - time.monotonic(), _LEAST_SECONDS))
