"""Keys take turns at the service's threads (GUARD-4)."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import CancelledError

import pytest

from recall_loop.service.core.fair_threads import FairThreadPool


@pytest.fixture
def held():
    """Return a pool of one thread that is busy until the event is set."""
    free, begun = threading.Event(), threading.Event()
    with FairThreadPool(1) as pool:
        pool.of_key("greedy").submit(lambda: (begun.set(), free.wait(30)))
        assert begun.wait(30)
        yield pool, free
        free.set()


def test_a_key_with_much_work_waiting_keeps_no_other_waiting_for_all_of_it(held):
    """Proves: GUARD-4."""
    pool, free = held
    done = list[str]()
    futures = [pool.of_key("greedy").submit(done.append, f"greedy {at}") for at in range(4)]
    futures += [pool.of_key(key).submit(done.append, f"{key} {at}") for at in range(2) for key in ("ada", "bo")]
    free.set()
    for future in futures:
        future.result(30)
    first = ["greedy 0", "ada 0", "bo 0", "greedy 1", "ada 1", "bo 1"]
    assert done == [*first, "greedy 2", "greedy 3"]


def test_results_errors_and_what_is_cancelled_come_back(held):
    """Proves: GUARD-4 (as with any executor)."""
    pool, free = held
    mine = pool.of_key("ada")
    good, bad, gone = mine.submit(divmod, 7, 2), mine.submit(divmod, 7, 0), mine.submit(divmod, 7, 1)
    assert gone.cancel()
    free.set()
    assert good.result(30) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        bad.result(30)


def test_a_shutdown_cancels_what_waits(held):
    """Nobody waits for an answer that never comes. Proves: GUARD-4."""
    pool, free = held
    waiting = pool.of_key("ada").submit(divmod, 7, 2)
    pool.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(CancelledError):
        waiting.result(30)
    free.set()
    with pytest.raises(RuntimeError):
        pool.of_key("ada").submit(divmod, 7, 2)


def test_what_failed_work_held_is_free_at_once():
    """An error holds the frames that it went through, and they must not hold the work. Proves: GUARD-4."""

    class Held:
        pass

    def fail(given: Held) -> None:
        raise ValueError("wrong")

    gc.disable()
    try:
        with FairThreadPool(1) as pool:
            held = Held()
            gone = weakref.ref(held)
            future = pool.of_key("a").submit(fail, held)
            with pytest.raises(ValueError, match="wrong"):
                future.result()
            del future, held
            pool.of_key("a").submit(int).result()
        assert gone() is None
    finally:
        gc.enable()
