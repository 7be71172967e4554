"""The service for tests: in a thread of this process, or as the command that users run; over sockets either way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from recall_loop.service.app import create_app
from recall_loop.service.core.config import ServiceConfig
from recall_loop.service.serving import bind_socket, uvicorn_config
from tests.waiting import wait_until


class ServiceThread:
    """A service in a thread: its address, and the service itself."""

    def __init__(self, url: str, app: Any) -> None:
        self.url = url
        self.app = app
        self.service = app.state.service

    def client(self, key: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=False)


@contextmanager
def running_service(**options: Any) -> Iterator[ServiceThread]:
    """Serve until the block ends. `config` is a mapping of `ServiceConfig` fields; the rest goes to `create_app`."""
    from uvicorn import Server

    config = ServiceConfig(**({"port": 0} | options.pop("config", {})))
    app = create_app(config, **options)
    with bind_socket(config) as sock:
        server = Server(uvicorn_config(config, app, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive())
            assert server.started
            yield ServiceThread(f"http://127.0.0.1:{sock.getsockname()[1]}", app)
        finally:
            server.should_exit = True
            thread.join(60)


class ServiceProcess:
    """`recall-loop serve` in a process of its own."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.log = folder / "serve.log"
        command = [sys.executable, "-m", "recall_loop.cli", "serve", "--port", "0", *words]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ},
            )
        try:
            self.url = wait_until(self._address)
        except BaseException:
            self.end(signal.SIGKILL)
            raise

    def _address(self) -> str | None:
        said = self.log.read_text(encoding="utf-8")
        assert self.process.poll() is None, said
        lines = [line for line in said.splitlines() if " at http://" in line]
        return lines[0].rpartition(" at ")[2] if lines else None

    def ready(self) -> dict[str, Any]:
        """Wait until it answers."""
        return wait_until(self._ready)

    def _ready(self) -> dict[str, Any] | None:
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
        try:
            return httpx.get(f"{self.url}/ready", timeout=20, verify=False).json()
        except httpx.HTTPError:
            return None

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
