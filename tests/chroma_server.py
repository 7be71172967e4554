"""A Chroma server on loopback, started and killed by tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.ports import free_port

# What the command that the package installs calls, without all else that it imports.
_RUN = "import sys; from chromadb_rust_bindings import cli; cli(sys.argv)"
_START_SECONDS = 60


class ChromaProcess:
    """`chroma run` over a folder, at one port for as long as this object lives, however often it is started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ["run", "--path", str(self.folder), "--host", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUN, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                urlopen(f"{self.url}/api/v2/heartbeat", timeout=1).close()
                return
            except (URLError, OSError):
                if time.monotonic() > end or self._process.poll() is not None:
                    self.kill()
                    raise
                time.sleep(0.05)

    def is_running(self) -> bool:
        """Tell whether it was started and has not ended since."""
        return self._process is not None and self._process.poll() is None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Hold it up: it takes connections and answers none."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # else its threads may answer for a moment
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
