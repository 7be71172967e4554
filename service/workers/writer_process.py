"""`python -m recall_loop.service.workers.writer_process SOCKET`: the writer process for several workers.

It holds the store's writer lock and answers at a Unix socket, in a folder that only their own user may enter: what
comes there is pickled by a worker. It ends when its standard input does: with its
parent, and after the workers. It first finishes writes that have begun.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Listener
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.state.errors import EmbedderError, InvalidInputError, RecallError
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from recall_loop.memory.store.store import MemoryStore

WRITER_READY = "ready"
_THREADS = 32
_MAX_MESSAGE_BYTES = 1024 * 1024 * 1024
_log = logging.getLogger(__name__)


class WriterProcess:
    """Answers the workers' writes at a socket, until it is closed.

    A folder that others may enter raises `InvalidInputError`: what they send would be run when it is unpickled.
    """

    def __init__(self, store: MemoryStore, socket: Path) -> None:
        folder = socket.parent.stat()
        if folder.st_uid != os.geteuid() or folder.st_mode & 0o077:
            raise InvalidInputError("socket", str(socket), "a path in a folder that only its own user may enter")
        self._store = store
        socket.unlink(missing_ok=True)  # left by a killed process: the writer lock shows that it is gone
        self._listener = Listener(str(socket), family="AF_UNIX", backlog=128)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="recall-loop-owner")
        self._closing = False
        threading.Thread(target=self._accept, name="recall-loop-accept", daemon=True).start()

    def close(self) -> None:
        """Accept nothing more, and finish received writes."""
        self._closing = True
        self._listener.close()
        self._pool.shutdown(wait=True)

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection = self._listener.accept()
                self._pool.submit(self._serve, connection).add_done_callback(_log_failure)
            except (OSError, EOFError, RuntimeError) as error:  # the peer closed at once, or we are closing
                if not self._closing:
                    _log.warning("a worker's connection failed: %s", error)

    def _serve(self, connection: Connection) -> None:
        with connection:
            try:
                operation, args, options = pickle.loads(connection.recv_bytes(_MAX_MESSAGE_BYTES))
                connection.send(self._answer(operation, args, options))
            except (OSError, EOFError) as error:
                _log.warning("a worker left before its write was answered: %s", error)

    def _answer(self, operation: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return what a method of the store returns, or the error that it raises."""
        try:
            return attrgetter(operation)(self._store)(*args, **options)
        except RecallError as error:
            return error


def _log_failure(done: Future[None]) -> None:
    """Log what went wrong unforeseen; the worker hears that nothing is acknowledged, as the connection is closed."""
    if (error := done.exception()) is not None:
        _log.error("a write failed", exc_info=error)


def _keep_sweeping(store: MemoryStore, seconds: float, ended: threading.Event) -> None:
    """Periodically erase expired records and those that no rule retains."""
    while seconds and not ended.wait(seconds):
        try:
            store.maintenance.sweep()
        except RecallError as error:  # reads leave expired records out anyway, and the next sweep may succeed
            _log.warning("a sweep failed: %s", error)
        except Exception:  # noqa: BLE001  # the thread continues whatever happened
            _log.exception("a sweep failed")


def _load_models(store: MemoryStore) -> None:
    """Embed a word with each model: one that is loaded then stays so; a remote one that fails may recover."""
    from recall_loop.memory.store.embed.embedders import group_by_model, run_embedder

    for model, _ in group_by_model(store.embedder, list(ContentType)):
        try:
            run_embedder(model, ["ready"], store.dimension, as_queries=True)  # somebody waits for the service
        except EmbedderError as error:
            _log.error("texts can't be embedded: %s", error)


def main() -> int:
    """Own the store that the environment names, until standard input ends."""
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings.settings import Settings
    from recall_loop.telemetry.logs import start_logging

    for name in (signal.SIGINT, signal.SIGTERM):  # meant for the whole service: workers stop first
        signal.signal(name, signal.SIG_IGN)
    try:
        settings = Settings.from_env()
        start_logging(settings.log_format, settings.log_level, content=settings.trace_content)
        if settings.store_path is None:
            raise InvalidInputError("store_path", None, "a folder")
        with MemoryStore.from_settings(settings) as store:
            _load_models(store)
            owner = WriterProcess(store, Path(sys.argv[1]))
            ended = threading.Event()
            sweeper = threading.Thread(target=_keep_sweeping, args=(store, settings.sweep_seconds, ended))
            sweeper.start()
            sys.stdout.write(f"{WRITER_READY}\n")
            sys.stdout.flush()
            sys.stdin.read()
            ended.set()
            sweeper.join()
            owner.close()
    except RecallError as error:
        sys.stderr.write(f"recall-loop: error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
