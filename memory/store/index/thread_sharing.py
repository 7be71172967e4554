"""One piece of work shared among the processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

# More than so many threads wait for memory, not for processors.
_MOST = 4


def run_in_threads(work: Callable[[int], None], pieces: int) -> None:
    """Do `work` for each of the numbers from 0 to `pieces` - 1, in this thread and in helpers that have time for it.

    For work that lets other threads run, as numpy's products do. A helper that hasn't begun when nothing is left
    isn't waited for, so that nobody loses by busy processors. What `work` raises is raised.
    """
    numbers = iter(range(pieces))
    helpers = [_pool().submit(_some, work, numbers) for _ in range(min(_processors(), pieces) - 1)]
    try:
        _some(work, numbers)
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        for helper in begun:
            helper.result()


def _some(work: Callable[[int], None], numbers: Iterator[int]) -> None:
    for number in numbers:  # of a range: each number is given once, whichever thread asks
        work(number)


def _processors() -> int:
    """Return how many processors this process may use, at most four."""
    try:
        return min(len(os.sched_getaffinity(0)), _MOST)
    except AttributeError:  # not on this system
        return min(os.cpu_count() or 1, _MOST)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, _MOST - 1), thread_name_prefix="recall-loop-shared")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads
