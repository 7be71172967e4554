"""Engines of batches: threads of this process, or processes that each open the store to read (OPS-2).

Most of a request without a language model is Python's own work, which one process does one at a time, however many
threads it has. Threads suffice if requests wait for a model; processes are for requests that compute.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from recall_loop.graph.batch.batch_requests import BatchRequest, ResultLine, RunOptions, run_request
from recall_loop.graph.batch.batch_rounds import WorkerDied
from recall_loop.memory.store.chroma import chroma_server
from recall_loop.memory.store.embed.embedder_factory import make_embedder, processors_per_process, thread_environment
from recall_loop.memory.store.embed.embedders import embedder_of_version
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import WorkerError

# If more processes than this die without an answer, they are no longer replaced.
_MAX_DEATHS = 8
_SHUTDOWN_SECONDS = 5.0
# This many requests are queued in each process, so that it continues while its last line is being written.
_QUEUED_PER_WORKER = 2


class ThreadEngine:
    """Runs requests in threads of this process, over an open store."""

    def __init__(self, store: MemoryStore, options: RunOptions, concurrency: int) -> None:
        self.slots = concurrency
        self._store, self._options = store, options
        self._pool = ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="recall-loop-batch")

    def submit(self, request: BatchRequest) -> Future[ResultLine]:
        """Begin a request."""
        return self._pool.submit(run_request, request, self._store, self._options)

    def close(self) -> None:
        """Drop requests that haven't started, and wait for the others."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class ProcessEngine:
    """Runs requests in `workers` processes, at most `concurrency` at a time in all; a process that dies is replaced.

    Raises `WorkerError` where a process can't begin, or one after the other dies.
    """

    def __init__(self, setup: dict[str, Any], concurrency: int, workers: int) -> None:
        threads = min(-(-concurrency // workers), _useful_threads(setup))
        # A queued request uses up its timeout there: only as many are queued as keep the process busy.
        self.slots = min(concurrency, workers * (threads + _QUEUED_PER_WORKER))
        self._setup = {**setup, "threads": threads, "processors": processors_per_process(workers)}
        self._deaths = 0
        self._workers: list[_WorkerProcess] = []
        try:
            for _ in range(workers):
                self._workers.append(_WorkerProcess(self._setup))
        except BaseException:
            self.close()
            raise

    def submit(self, request: BatchRequest) -> Future[ResultLine]:
        """Begin a request in the process that has least to do."""
        at = min(range(len(self._workers)), key=lambda place: self._workers[place].busy)
        worker = self._workers[at]
        if worker.dead:
            self._deaths = 1 if worker.answered else self._deaths + 1
            if self._deaths > _MAX_DEATHS:
                raise WorkerError(f"worker processes exit without an answer (exit code {worker.process.poll()})")
            worker.close()
            worker = self._workers[at] = _WorkerProcess(self._setup)
        return worker.submit(request)

    def close(self) -> None:
        """Ask the processes to exit, and kill those that don't."""
        for worker in self._workers:
            worker.request_stop()
        for worker in self._workers:
            worker.close()


class _WorkerProcess:
    """One process, and the requests that it has."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self._lock = threading.Lock()
        self._futures: dict[int, Future[ResultLine]] = {}
        self._numbers = 0
        self.dead = False
        self.answered = 0
        # -P: a `queue.py` in the current folder must not replace Python's own.
        # A separate session: Ctrl-C reaches only this process, which then stops the others in order.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "recall_loop.graph.batch.batch_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            # Matrix products use every processor unless limited: the processes share them.
            env={**os.environ, **thread_environment(setup["processors"])},
        )
        assert self.process.stdin is not None and self.process.stdout is not None  # both are pipes
        self._to, self._from = self.process.stdin, self.process.stdout
        self._reader = threading.Thread(target=self._read, name="recall-loop-batch-reader", daemon=True)
        self._reader.start()
        self._send(pickle.dumps(setup))

    @property
    def busy(self) -> int:
        """How many requests it has; a dead one has none."""
        return len(self._futures)

    def submit(self, request: BatchRequest) -> Future[ResultLine]:
        """Hand a request to the process."""
        future: Future[ResultLine] = Future()
        try:
            packed = pickle.dumps((self._numbers, request))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            refusal = {"type": "invalid_input", "message": f"request: can't be handed to another process: {error}"}
            future.set_result(request.result_line(error=refusal))
            return future
        with self._lock:
            if self.dead:
                future.set_exception(WorkerDied())
                return future
            self._futures[self._numbers] = future
            self._numbers += 1
        self._send(packed)
        return future

    def request_stop(self) -> None:
        """Signal the end of input to the process."""
        try:
            self._to.close()
        except OSError:  # it has already ended
            self.dead = True

    def close(self) -> None:
        """Kill the process: its running requests have been given up."""
        self.request_stop()
        if self._futures:
            self.process.terminate()
        try:
            self.process.wait(_SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self._from.close()

    def _send(self, packed: bytes) -> None:
        try:
            self._to.write(packed)
            self._to.flush()
        except OSError:  # it died; the reader sees the end of its output and notifies the waiting caller
            self.process.kill()

    def _read(self) -> None:
        """Read answers until the process ends, then notify waiting callers."""
        reason: BaseException = WorkerDied()
        try:
            while True:
                number, given = pickle.load(self._from)  # from a process started by this one
                if number is None:
                    reason = given
                    continue
                with self._lock:
                    future = self._futures.pop(number)
                    self.answered += 1
                future.set_result(given)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            with self._lock:
                self.dead = True
                left = list(self._futures.values())
                self._futures.clear()
            for future in left:
                future.set_exception(reason)


def _useful_threads(setup: dict[str, Any]) -> int:
    """Return how many requests at once are worth their threads in one process: any number, if they wait for a model."""
    options: RunOptions = setup["options"]
    if options.has_model or options.settings.embedder == "openai":
        return sys.maxsize
    # A second thread takes turns with the first at Python; beside a server it computes while the first one waits.
    location: Path | str = setup["location"]
    alone = isinstance(location, Path) and chroma_server.read_server_file(location) is None
    return 1 if alone and options.settings.chroma_url is None else 2


def multiprocess_blocker(store: MemoryStore, options: RunOptions) -> str | None:
    """Return why other processes can't share the work on this store; None if they can."""
    settings = options.settings
    if store.location is None:
        return "the store is in memory"
    if options.llm is not None and not isinstance(options.llm, str):
        return "the chat model is an object, which other processes can't have: name it as provider:model"
    if settings.capture_runs and store.path is not None:
        return "runs are captured, and a store has one writer"
    if embedder_of_version(make_embedder(settings), store.embedder.fingerprint) is None:
        return "the store's embedder isn't the one that the settings name"
    return None
