"""The flow of a batch's requests through an engine: order, concurrency and time limits (OPS-2).

Only as many requests are read as are running or wait for an earlier one to be written: the memory that a batch
needs does not depend on how many requests it has.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Literal, Protocol

from recall_loop.graph.batch.batch_requests import BatchRequest, ResultLine

OutputOrder = Literal["completed", "input"]
# This many results per running request may wait for an earlier one.
_MAX_READY_PER_SLOT = 4
# A request whose process has died this often runs alone the next time, so that nothing else is lost with it.
_DEATHS_BEFORE_ISOLATION = 2


class WorkerDied(Exception):  # an event, passed through a future
    """The process that ran a request ended before it answered."""


class BatchEngine(Protocol):
    """Runs requests; `slots` at a time."""

    slots: int

    def submit(self, request: BatchRequest) -> Future[ResultLine]:
        """Begin a request; its line comes through the future."""
        ...

    def close(self) -> None:
        """Drop requests that haven't started, and stop the engine."""
        ...


@dataclass(slots=True)
class _RunningRequest:
    request: BatchRequest
    position: int
    began: float
    reported: bool = False
    deaths: int = 0


class BatchScheduler:
    """Goes through the requests; `timeout` is in seconds, None = no limit."""

    def __init__(
        self, requests: Iterator[BatchRequest], engine: BatchEngine, order: OutputOrder, timeout: float | None
    ) -> None:
        self._requests, self._engine = requests, engine
        self._timeout = timeout
        self._ordered = order == "input"
        self._running: dict[Future[ResultLine], _RunningRequest] = {}
        self._suspects: deque[_RunningRequest] = deque()
        self._ready: dict[int, ResultLine] = {}
        self._taken = self._written = 0
        self._more = True
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[list[ResultLine]]:
        """Yield lists of lines, each as soon as one of its lines is there.

        What the requests raise is raised behind the lines of those that came before it.
        """
        while self._more or self._running or self._suspects or self._ready:
            self._fill()
            writable = self._written in self._ready if self._ordered else bool(self._ready)
            if self._running and not writable:
                self._wait()
            lines = self._take_ready()
            if lines:
                yield lines
        if self._failure is not None:
            raise self._failure

    def _next(self) -> BatchRequest | None:
        try:
            return next(self._requests, None)
        except Exception as error:  # noqa: BLE001 - an iterable of the caller's may raise anything
            self._failure = error
            return None

    def _fill(self) -> None:
        """Begin requests while there is room, or a suspect alone; a line that can't be run is ready at once."""
        if self._suspects and not self._running:
            job = self._suspects.popleft()
            job.began = time.monotonic()  # the others' time was not its own
            self._begin(job)
        if self._suspects or any(job.deaths >= _DEATHS_BEFORE_ISOLATION for job in self._running.values()):
            return
        room = self._engine.slots * _MAX_READY_PER_SLOT
        while self._more and len(self._running) < self._engine.slots and len(self._ready) < room:
            request = self._next()
            if request is None:
                self._more = False
            elif request.error is not None:
                self._ready[self._taken] = request.result_line(error=request.error)
                self._taken += 1
            else:
                self._begin(_RunningRequest(request, self._taken, time.monotonic()))
                self._taken += 1

    def _begin(self, job: _RunningRequest) -> None:
        self._running[self._engine.submit(job.request)] = job

    def _wait(self) -> None:
        """Wait until a request ends or has used up its time."""
        finished, _ = wait(self._running, self._patience(), FIRST_COMPLETED)
        for future in finished:
            self._end(self._running.pop(future), future)
        now = time.monotonic()
        for job in self._running.values():
            if self._timeout is not None and not job.reported and now >= job.began + self._timeout:
                self._give_up(job)

    def _patience(self) -> float | None:
        """Return the seconds until the next request has used up its time."""
        begun = [job.began for job in self._running.values() if not job.reported]
        if self._timeout is None or not begun:
            return None
        return max(0.0, min(begun) + self._timeout - time.monotonic())

    def _end(self, job: _RunningRequest, future: Future[ResultLine]) -> None:
        try:
            line = future.result()
        except WorkerDied:
            self._died(job)
            return
        if job.reported:
            return
        if self._timeout is not None and time.monotonic() >= job.began + self._timeout:
            self._give_up(job)
        else:
            self._ready[job.position] = line

    def _died(self, job: _RunningRequest) -> None:
        """Try once more: most likely another request, or the system, ended the process. Then once with no other."""
        if job.reported:
            return
        job.deaths += 1
        if job.deaths < _DEATHS_BEFORE_ISOLATION:
            self._begin(job)
        elif job.deaths == _DEATHS_BEFORE_ISOLATION:
            self._suspects.append(job)
        else:
            message = f"the process that ran it ended, {job.deaths} times, and the last time it was alone there"
            self._ready[job.position] = job.request.result_line(error={"type": "worker_died", "message": message})

    def _give_up(self, job: _RunningRequest) -> None:
        """Have the error written now; the run keeps its slot until the loop looks at the clock again, and ends."""
        job.reported = True
        message = f"not done after {self._timeout:g} s; a lower deadline_seconds returns what was found by then"
        self._ready[job.position] = job.request.result_line(error={"type": "timeout", "message": message})

    def _take_ready(self) -> list[ResultLine]:
        if not self._ordered:
            lines = list(self._ready.values())
            self._ready.clear()
            return lines
        lines = []
        while self._written in self._ready:
            lines.append(self._ready.pop(self._written))
            self._written += 1
        return lines
