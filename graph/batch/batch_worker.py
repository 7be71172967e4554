"""A process that runs requests of a batch: opens the store to read, and answers on its standard output.

Started by `batch_engines` as `python -m recall_loop.graph.batch.batch_worker`, so that a script that runs a batch needs
no `if __name__ == "__main__"`. It ends when its standard input does, and so when its parent does, however that ends.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import IO, Any

from recall_loop.graph.batch.batch_requests import RunOptions, run_request
from recall_loop.graph.frozen_heap import freeze_heap
from recall_loop.memory.store.embed.onnx_model import limit_threads
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import RecallError, WorkerError


def main() -> None:
    """Answer requests until there are no more."""
    requests, replies = sys.stdin.buffer, _claim_stdout()
    setup = pickle.load(requests)  # from the process that started this one
    options: RunOptions = setup["options"]
    settings = options.settings
    limit_threads(setup["processors"])
    try:
        store = MemoryStore.from_settings(
            settings, setup["location"], create=False, read_only=not settings.capture_runs
        )
    except (RecallError, OSError) as error:
        pickle.dump((None, WorkerError(f"a worker process can't open the store: {error}")), replies)
        replies.flush()
        return
    freeze_heap()
    with store, ThreadPoolExecutor(max_workers=setup["threads"]) as pool:
        reply = partial(_write_reply, replies, threading.Lock())
        with suppress(EOFError):  # no more input
            while True:
                number, request = pickle.load(requests)  # from the process that started this one
                pool.submit(run_request, request, store, options).add_done_callback(partial(reply, number))
        pool.shutdown(cancel_futures=True)


def _claim_stdout() -> IO[bytes]:
    """Return the standard output, and redirect other writers from it to standard error."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own


def _write_reply(replies: IO[bytes], lock: threading.Lock, number: int, future: Future[Any]) -> None:
    """Write the reply to request `number`, whole before another's."""
    if future.cancelled():
        return
    with lock:
        try:
            pickle.dump((number, future.result()), replies)
            replies.flush()
        except BrokenPipeError:  # the reader is gone
            os._exit(1)


if __name__ == "__main__":
    main()
