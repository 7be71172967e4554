"""How several processes of one machine share its processors."""

from __future__ import annotations

import os

# Matrix products take every processor too, unless these say otherwise before numpy is imported.
_BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def available_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processors_per_process(processes: int) -> int:
    """Return how many processors each of so many processes takes, at least 1."""
    return max(1, available_processors() // processes)


def thread_environment(count: int) -> dict[str, str]:
    """Return the variables that let a process which is started with them use `count` processors for matrix products."""
    return dict.fromkeys(_BLAS_THREADS, str(count))
