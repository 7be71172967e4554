"""A worker ends with its parent, so that a killed parent leaves no process behind at its address."""

from __future__ import annotations

import os
import signal
import threading
import time

_POLL_SECONDS = 1.0


def watch_parent(parent: int) -> None:
    """Ask this process to end, as SIGTERM does, soon after process `parent` has."""
    threading.Thread(target=_watch, args=(parent,), name="recall-loop-parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
