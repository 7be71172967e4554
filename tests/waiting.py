"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(what: Callable[[], T], seconds: float = 500.0) -> T:
    """Wait until `what()` is true, and return it; the test's own timeout may end the wait before `seconds`."""
    end = time.monotonic() + seconds
    pause = 0.01
    while not (found := what()):
        assert time.monotonic() < end, "it didn't happen in time"
        time.sleep(pause)
        # Whoever asks for a process to be ready takes processor time from it.
        pause = min(pause * 1.2, 0.1)
    return found
