"""How a batch continues when its workers die, with a small engine whose workers can be killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import Future

import pytest

from recall_loop.graph.batch.batch_requests import BatchRequest, ResultLine
from recall_loop.graph.batch.batch_rounds import BatchScheduler, OutputOrder, WorkerDied


class Houses:
    """Answers requests one after another in two houses; some requests burn theirs down, with all that wait in it."""

    def __init__(self, burning: set[str]) -> None:
        self.slots = 6
        self.tried: Counter[str] = Counter()
        self._burning = burning
        self._houses: list[list[tuple[BatchRequest, Future[ResultLine]]]] = [[], []]
        self._lock = threading.Condition()
        self._open = True
        for house in self._houses:
            threading.Thread(target=self._run, args=[house], daemon=True).start()

    def submit(self, request: BatchRequest) -> Future[ResultLine]:
        given: Future[ResultLine] = Future()
        with self._lock:
            self.tried[str(request.request_id)] += 1
            min(self._houses, key=len).append((request, given))
            self._lock.notify_all()
        return given

    def close(self) -> None:
        with self._lock:
            self._open = False
            self._lock.notify_all()

    def _run(self, house: list[tuple[BatchRequest, Future[ResultLine]]]) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: house or not self._open)
                if not house:
                    return
            time.sleep(0.002)
            with self._lock:
                if house[0][0].request_id in self._burning:
                    gone, house[:] = list(house), []
                else:
                    gone = []
                    request, given = house.pop(0)
            for _, future in gone:
                future.set_exception(WorkerDied())
            if not gone:
                given.set_result(request.result_line(result={}))


@pytest.mark.parametrize("order", ["completed", "input"])
@pytest.mark.parametrize("burning", [{"r3"}, {"r0", "r1", "r2", "r19"}, {f"r{n}" for n in range(20)}])
def test_only_what_ends_its_process_gets_an_error(order: OutputOrder, burning: set[str]) -> None:
    """Proves: OPS-2 (whatever shares a process with it has its result, and no request is lost or doubled)."""
    engine = Houses(burning)
    requests = (BatchRequest(at, f"r{at}", None, {}) for at in range(20))
    lines = [line for some in BatchScheduler(requests, engine, order, 60) for line in some]
    engine.close()
    assert sorted(line["id"] for line in lines) == sorted(f"r{at}" for at in range(20))
    assert {line["id"] for line in lines if "error" in line} == burning
    assert {line["error"]["type"] for line in lines if "error" in line} == {"worker_died"}
    assert {engine.tried[name] for name in burning} == {3} and max(engine.tried.values()) == 3
    if order == "input":
        assert [line["id"] for line in lines] == [f"r{at}" for at in range(20)]
