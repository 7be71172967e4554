"""The supervisor of workers and writer, and how they notice that it is gone."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from uvicorn.supervisors import Multiprocess

from recall_loop.memory.store.embed.embedder_factory import processors_per_process, thread_environment
from recall_loop.memory.store.files.store_place import is_address
from recall_loop.service.core.config import SERVICE_ENV_PREFIX, ServiceConfig
from recall_loop.service.core.service_metrics import MULTIPROC_DIR_VARIABLE
from recall_loop.service.workers.writer_process import WRITER_READY
from recall_loop.state.settings.settings import ENV_PREFIX as SETTINGS_PREFIX

if TYPE_CHECKING:
    from socket import socket

    from uvicorn import Config

    from recall_loop.state.settings.settings import Settings


# An owner that exits immediately is not restarted more often than this.
_MIN_RESTART_SECONDS = 2.0
_FORWARDED_SETTINGS = {
    "store_path",
    "chroma_url",
    "llm_model",
    "llm_base_url",
    "write_answer",
    "log_format",
    "log_level",
}
# Signals that end the service, and its exit codes; interval of checking for one while the store is being opened.
_ENDING: dict[int, int] = {signal.SIGTERM: 0, signal.SIGINT: 128 + signal.SIGINT}
_LOOK_SECONDS = 0.2
_PREFIX = "recall-loop-"
# Locked in its folder while the supervisor lives.
_HELD = "supervisor.lock"
_log = logging.getLogger(__name__)


class WriterStartError(Exception):
    """The writer process failed to start; it has reported the reason on standard error."""


class Supervisor(Multiprocess):
    """uvicorn's supervisor of workers, which also supervises the owner of the store if a folder needs one.

    Workers end first and the owner last, so that forwarded writes are still answered.
    """

    def __init__(self, config: Config, sockets: list[socket], folder: Path, *, has_owner: bool) -> None:
        super().__init__(config, sockets)
        self._folder, self._has_owner = folder, has_owner
        self._owner: subprocess.Popen[str] | None = None
        self._begun = 0.0

    def run(self) -> None:
        """Start the owner, then the workers, and keep them alive until stopped.

        Raises `WriterStartError` where the store can't be opened, `SystemExit` where a signal asked for the end before
        it was.
        """
        if not self._has_owner:
            super().run()
            return
        self._owner = self._start_owner()
        try:
            self._await_owner(self._owner)
            super().run()
        finally:
            self._end_owner()

    def _await_owner(self, owner: subprocess.Popen[str]) -> None:
        while owner.stdout is not None and not select.select([owner.stdout], [], [], _LOOK_SECONDS)[0]:
            ends = [number for number in self.signal_queue if number in _ENDING]
            if ends:  # opening may take minutes; it has acknowledged nothing, and the next open repairs any leftovers
                owner.kill()
                raise SystemExit(_ENDING[ends[0]])
        if owner.stdout is None or owner.stdout.readline().strip() != WRITER_READY:
            raise WriterStartError

    def keep_subprocess_alive(self) -> None:
        """Restart dead processes; called twice a second."""
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            _forget_gauges(pid, self._folder)
        owner = self._owner
        if owner is not None and owner.poll() is not None and time.monotonic() - self._begun > _MIN_RESTART_SECONDS:
            _log.warning("the writer process ended (%s) and is being restarted", owner.returncode)
            _close(owner)
            self._owner = self._start_owner()

    def _start_owner(self) -> subprocess.Popen[str]:
        self._begun = time.monotonic()
        module = "recall_loop.service.workers.writer_process"
        command = [sys.executable, "-P", "-m", module, str(writer_socket(self._folder))]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _end_owner(self) -> None:
        if self._owner is not None:
            _close(self._owner)  # closing its standard input makes it finish and exit
            self._owner.wait()


def _close(owner: subprocess.Popen[str]) -> None:
    for pipe in (owner.stdin, owner.stdout):
        if pipe is not None:
            pipe.close()


def _forget_gauges(pid: int | None, folder: Path) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    if pid is not None:
        mark_process_dead(pid, str(folder / "metrics"))  # type: ignore[no-untyped-call]


def writer_socket(folder: Path) -> Path:
    """Return the owner's socket path; short, since such a path is limited to about 100 characters."""
    return folder / "owner"


def run_workers(config: ServiceConfig, settings: Settings, uvicorn_config: Config, sock: socket) -> None:
    """Serve with several workers until stopped; raises `WriterStartError` where the store can't be opened."""
    with shared_folder() as folder:
        (folder / "metrics").mkdir()
        os.environ[MULTIPROC_DIR_VARIABLE] = str(folder / "metrics")
        os.environ.update(_environment(config, settings, folder))
        for variable, value in thread_environment(processors_per_process(config.workers)).items():
            os.environ.setdefault(variable, value)
        Supervisor(uvicorn_config, [sock], folder, has_owner=not is_address(settings.store_path)).run()


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Give a folder that goes in the end, and remove those that killed supervisors of this user have left."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_HELD}"):
        with suppress(OSError), left.open("r+b") as lock:  # it is held, another user's, or gone by now
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if left.stat().st_uid == os.getuid() and not left.parent.is_symlink():
                shutil.rmtree(left.parent)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
        fresh = Path(name) / f"{_HELD}.new"
        with fresh.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fresh.rename(Path(name) / _HELD)  # others see it only once it is held
            yield Path(name)


def _environment(config: ServiceConfig, settings: Settings, folder: Path) -> dict[str, str]:
    """Return the environment variables that pass this process's settings to the workers and the writer."""
    shared: dict[str, Path | int] = {"shared_rates": folder / "rates", "parent": os.getpid()}
    if not is_address(settings.store_path):
        shared["owner_socket"] = writer_socket(folder)
    worker_config = config.model_copy(update=shared)
    fields = worker_config.model_dump(mode="json", exclude_none=True)
    forwarded = settings.model_dump(mode="json", include=_FORWARDED_SETTINGS, exclude_none=True)
    return {
        prefix + name.upper(): value if isinstance(value, str) else json.dumps(value)
        for prefix, values in ((SERVICE_ENV_PREFIX, fields), (SETTINGS_PREFIX, forwarded))
        for name, value in values.items()
    }


_POLL_SECONDS = 1.0


def watch_parent(parent: int) -> None:
    """Ask this process to end, as SIGTERM does, soon after process `parent` has."""
    threading.Thread(target=_watch, args=(parent,), name="recall-loop-parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
