"""`recall-loop serve` on a store in PostgreSQL: several workers that each write, and no process between them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from recall_loop.cli.main import main
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from tests.integration.hosting.conftest import PASSWORD
from tests.service_server import ServiceProcess
from tests.waiting import wait_until

# Each starts processes that load all of Chroma's client and LangGraph.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def children(pid: int) -> dict[int, str]:
    """Return the processes that a process started, with their command lines."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(status.read_text(encoding="utf-8").rpartition(")")[2].split()[1]) == pid:
                command = status.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(status.parent.name)] = command
        except (OSError, ValueError):
            continue
    return found


def workers_of(served: ServiceProcess) -> list[int]:
    return [pid for pid, command in children(served.process.pid).items() if "spawn_main" in command]


class Client(threading.Thread):
    """Writes a record, and reads it over connections of their own, which any worker may take."""

    def __init__(self, url: str, name: str, number: int) -> None:
        super().__init__(daemon=True)
        self.url, self.name_, self.number = url, name, number
        self.acknowledged: list[str] = []
        self.unseen: list[str] = []
        self.codes: Counter[int] = Counter()

    def post(self, path: str, body: Any) -> httpx.Response | None:
        try:
            answer = httpx.post(f"{self.url}/api/memory{path}", json=body, timeout=60, verify=False)
        except httpx.HTTPError:  # its worker was killed
            return None
        self.codes[answer.status_code] += 1
        return answer

    def run(self) -> None:
        for at in range(self.number):
            record_id = f"{self.name_}-{at}"
            record = {"id": record_id, "kind": "fact", "text": f"{self.name_} has moored boat number {at}."}
            answer = self.post("/records", {"records": [record]})
            if answer is None or answer.status_code != 200:
                continue
            self.acknowledged.append(record_id)
            time.sleep(0.1)  # within which every process sees what another has written (HOST-2)
            body = {"query": f"{self.name_} boat number {at}", "limit": 10}
            found = self.post("/search", body)
            if found is not None and found.status_code == 200 and record_id not in found.text:
                self.unseen.append(record_id)


def run_clients(url: str, number: int) -> list[Client]:
    clients = [Client(url, name, number) for name in ("Ada", "Berta", "Cleo")]
    for client in clients:
        client.start()
    for client in clients:
        client.join(200)
    return clients


def test_two_workers_write_without_an_owner(address: str, tmp_path: Path) -> None:
    """Proves: HOST-1, HOST-2, OPS-1 (each worker opens the store for writing; a killed one is replaced)."""
    served = ServiceProcess(["--store", address, "--workers", "2"], tmp_path)
    try:
        assert served.ready()["read_only"] is False
        wait_until(lambda: len(workers_of(served)) == 2)
        assert not [command for command in children(served.process.pid).values() if "writer_process" in command]
        clients = run_clients(served.url, 6)
        assert [client.unseen for client in clients] == [[], [], []]
        assert {code for client in clients for code in client.codes} == {200}
        before = workers_of(served)
        killed = threading.Timer(1.0, lambda: subprocess.run(["kill", "-9", str(before[0])], check=False))
        killed.start()
        more = run_clients(served.url, 6)
        killed.join()
        wait_until(lambda: len(workers_of(served)) == 2 and set(workers_of(served)) != set(before))
        served.ready()
    finally:
        code = served.end()
    log = served.log.read_text(encoding="utf-8")
    assert code in (0, -signal.SIGTERM, 128 + signal.SIGTERM), log
    assert PASSWORD not in log
    assert "postgres:***@" in log
    acknowledged = {one for client in [*clients, *more] for one in client.acknowledged}
    with MemoryStore.open(address, read_only=True) as store:
        assert acknowledged <= {record.id for record in store.scan(Scope())}
        assert store.maintenance.verify().sound


def refused(said: str) -> bool:
    """Tell whether a command said why it ended, and no password."""
    return PASSWORD not in said and any(line.startswith("recall-loop: error:") for line in said.splitlines())


def test_workers_that_can_not_begin_say_so_once(unused_tcp_port: int, tmp_path: Path) -> None:
    """Proves: HOST-1, HOST-3 (exit code 2, and no worker that is started again and again)."""
    words = ["--store", f"postgresql://u:{PASSWORD}@127.0.0.1:{unused_tcp_port}/db", "--workers", "2", "--port", "0"]
    command = [sys.executable, "-m", "recall_loop.cli", "serve", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and refused(done.stderr)


def test_an_address_that_names_no_schema_starts_no_worker(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: HOST-1, HOST-3."""
    place = f"postgresql://u:{PASSWORD}@h/db?schema=No"
    assert main(["serve", "--store", place, "--workers", "2", "--port", "0"]) == 2
    assert refused(capsys.readouterr().err)
