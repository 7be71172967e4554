"""The service as the command that users run: signals, several workers, and what dies meanwhile (OPS-1, STORE-4)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.service.workers.writer_process import WRITER_READY
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.chroma_server import ChromaProcess
from tests.llm_endpoint import ChatEndpoint
from tests.service_server import ServiceProcess
from tests.waiting import wait_until

# Each test starts processes that load all of Chroma and LangGraph, or waits until such ones are back.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PATH = "/api/memory/retrieve"
QUESTION = {"messages": [{"content": "Who owns the granary?"}]}


class Writer(threading.Thread):
    """Writes records one after another, and notes which were acknowledged, and what else was answered."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        self.refused: list[int] = []
        self.broken = 0
        self.stopping = False
        self._url, self._name = url, name

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30, verify=False) as client:
            at = 0
            while not self.stopping and self.broken < 3:
                at += 1
                record = {"id": f"{self._name}-{at}", "kind": "fact", "text": f"{self._name} wrote line {at}."}
                try:
                    answer = client.post("/api/memory/records", json={"records": [record]})
                except httpx.HTTPError:
                    self.broken += 1
                    continue
                if answer.status_code == 200:
                    self.acknowledged.append(record["id"])
                else:
                    self.refused.append(answer.status_code)


def missing(folder: Path, ids: list[str]) -> set[str]:
    """Return which of `ids` a store lacks."""
    with MemoryStore.open(folder, create=False, read_only=True) as store:
        return set(ids) - {record.id for record in store.get(ids, scope=Scope())}


def test_sigterm_under_load_loses_no_acknowledged_write(tmp_path: Path) -> None:
    """What is in flight is finished or failed; the lock is given back; the access log has no query, which is a user's.

    Proves: OPS-1, OPS-3, STORE-4.
    """
    folder = tmp_path / "store"
    served = ServiceProcess(["--store", str(folder), "--access-log"], tmp_path)
    try:
        served.ready()
        asked = {"params": {"user_id": "granary"}, "timeout": 60, "verify": False}
        assert httpx.get(f"{served.url}/api/memory/records", **asked).status_code == 200
        writers = [Writer(served.url, f"writer{number}") for number in range(4)]
        for writer in writers:
            writer.start()
        wait_until(lambda: all(len(writer.acknowledged) > 3 for writer in writers))
        code = served.end()
    finally:
        served.end(signal.SIGKILL)
    for writer in writers:
        writer.join(60)
    assert code == 0
    said = served.log.read_text(encoding="utf-8")
    assert "Traceback" not in said and "granary" not in said
    assert '"GET /api/memory/records HTTP/1.1" 200' in said
    acknowledged = [record for writer in writers for record in writer.acknowledged]
    assert not missing(folder, acknowledged)
    assert {status for writer in writers for status in writer.refused} <= {503}
    with MemoryStore.open(folder, create=False) as store:  # it was closed in order
        assert store.repairs == []


def test_sigterm_ends_a_service_that_is_still_starting(tmp_path: Path) -> None:
    """As a container's first process it would otherwise not even notice. Proves: OPS-1, SHIP-1."""
    command = [sys.executable, "-m", "recall_loop.cli", "serve", "--port", "0", "--store", str(tmp_path / "store")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        opening = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        said = process.stderr.read()
    assert opening.startswith("recall-loop: opening") and said.endswith("recall-loop: ended by SIGTERM\n")
    assert "Traceback" not in said and "serving" not in said


def test_sigterm_ends_workers_whose_owner_is_still_opening_the_store(tmp_path: Path) -> None:
    """Proves: OPS-1, SHIP-1."""
    chroma = ChromaProcess(tmp_path / "chroma")
    chroma.start()
    try:
        words = ["--store", str(tmp_path / "store"), "--chroma-url", chroma.url, "--workers", "2"]
        assert ServiceProcess(words, tmp_path).end() == 0
    finally:
        chroma.kill()
    said = (tmp_path / "serve.log").read_text(encoding="utf-8")
    assert "Started parent process" not in said and "Traceback" not in said


def test_the_owner_starts_while_its_embedder_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended with the embedder's error, and all workers with it. Proves: OPS-1, SEARCH-9."""
    with ChatEndpoint(lambda _: {}) as server:
        given = {"EMBEDDER": "openai", "OPENAI_BASE_URL": server.url, "STORE_PATH": str(tmp_path / "store")}
        for name, value in given.items():
            monkeypatch.setenv(f"RECALL_LOOP_{name}", value)
        with MemoryStore.from_settings(Settings.from_env()) as store:
            store.upsert([{"id": "owner", "kind": "fact", "text": "The granary belongs to Pelle Lund."}])
    command = [sys.executable, "-m", "recall_loop.service.workers.writer_process", str(tmp_path / "owner")]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == WRITER_READY and "texts can't be embedded" in done.stderr


class Workers:
    """Two workers over a Chroma server that runs."""

    def __init__(self, folder: Path, chroma: ChromaProcess) -> None:
        self.folder = folder
        self.chroma = chroma
        self.key = add_key(folder / "keys.json", "default", KeyRole.ADMIN)[1]
        words = ["--store", str(folder / "store"), "--chroma-url", self.chroma.url, "--workers", "2"]
        self.served = ServiceProcess([*words, "--keys", str(folder / "keys.json")], folder)
        try:
            self.served.ready()
        except BaseException:
            self.served.end(signal.SIGKILL)
            raise

    def post(self, path: str, body: Any, timeout: float = 60) -> httpx.Response:
        """Post over a connection of its own, which either worker may get."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.post(f"{self.served.url}{path}", json=body, headers=headers, timeout=timeout, verify=False)

    def write(self, name: str) -> httpx.Response:
        record = {"id": name, "kind": "fact", "text": f"The granary {name} belongs to Pelle Lund."}
        return self.post("/api/memory/records", {"records": [record]})

    def ask(self) -> dict[str, Any]:
        answer = self.post(PATH, QUESTION | {"max_facts": 100})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def degraded(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask until an answer is degraded: each worker notices Chroma's death by itself, within seconds."""
        return wait_until(lambda: found if (found := self.post(path, body).json())["degraded"] else None)

    def found(self) -> set[str]:
        # What says the same is one fact, with a source for each time.
        return {source["source_id"] for fact in self.ask()["facts"] for source in fact["evidence"]}

    def children(self, word: str) -> list[int]:
        """Return the processes that the service has started whose command has a word."""
        words = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.served.process.pid)]
        lines = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
        return [int(line.split()[0]) for line in lines if word in line]


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    folder = tmp_path_factory.mktemp("workers")
    chroma = ChromaProcess(folder / "chroma")
    try:
        chroma.start()
        started = Workers(folder, chroma)
        try:
            yield started
            assert started.served.end() == 0
            assert not alive(started)
        finally:
            started.served.end(signal.SIGKILL)
    finally:
        chroma.kill()


def alive(workers: Workers) -> bool:
    try:
        httpx.get(f"{workers.served.url}/health", timeout=2, verify=False)
    except httpx.HTTPError:
        return False
    return True


def test_every_worker_sees_a_write_at_once(workers: Workers) -> None:
    """Proves: OPS-1, STORE-4 (the caches of readers follow what the owner commits)."""
    for number in range(3):
        answer = workers.write(f"first{number}")
        assert answer.status_code == 200, answer.text
        for _ in range(4):
            assert f"first{number}" in workers.found()


def test_figures_are_those_of_all_workers(workers: Workers) -> None:
    """Proves: OPS-1, OPS-3."""
    _, key = add_key(workers.folder / "keys.json", "operator", KeyRole.METRICS)

    def asked() -> float:
        headers = {"Authorization": f"Bearer {key}"}
        text = httpx.get(f"{workers.served.url}/metrics", headers=headers, timeout=60, verify=False).text
        lines = [line for line in text.splitlines() if line.startswith("recall_loop_retrievals_total")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    before = asked()
    for _ in range(6):
        workers.ask()
    assert {asked() for _ in range(4)} == {before + 6}


def test_recalls_are_counted_by_the_owner_for_all_workers(workers: Workers) -> None:
    """Proves: PAGE-1."""
    workers.post("/api/memory/records", {"records": [{"id": "shed", "text": "The kelp shed is dry."}]})
    for _ in range(6):
        answer = workers.post(PATH, {"messages": [{"role": "user", "content": "Is the kelp shed dry?"}]})
        assert "shed" in [fact["id"] for fact in answer.json()["facts"]]

    def counted() -> bool:
        headers = {"Authorization": f"Bearer {workers.key}"}
        address = f"{workers.served.url}/api/memory/records/shed/relations"
        time.sleep(1)  # or the key has asked too often
        said = [httpx.get(address, headers=headers, timeout=60, verify=False).json()["recalled"] for _ in range(4)]
        return all((one["times"], one["counting"]) == (6, True) for one in said)

    wait_until(counted)


def test_a_killed_owner_and_a_killed_worker_are_replaced(workers: Workers) -> None:
    """Proves: OPS-1, STORE-4 (writes answer 503 with Retry-After meanwhile; reads go on; nothing is lost)."""
    (owner,) = workers.children("writer_process")
    before = workers.children("spawn_main")
    assert len(before) == 2
    assert workers.write("before-kill").status_code == 200
    os.kill(before[0], signal.SIGKILL)
    os.kill(owner, signal.SIGKILL)
    refused = workers.write("during-kill")
    if refused.status_code != 200:  # else it was replaced already
        assert refused.status_code == 503
        assert refused.headers["retry-after"].isdigit()
        assert refused.json()["type"].endswith("store_unavailable")
    assert "before-kill" in workers.found()
    wait_until(lambda: workers.write("after-kill").status_code == 200)
    assert workers.children("writer_process") != [owner]
    wait_until(lambda: len(set(workers.children("spawn_main")) - set(before)) == 1)
    assert {"before-kill", "after-kill"} <= workers.found()


def test_a_dead_chroma_server_degrades_answers_and_comes_back(workers: Workers) -> None:
    """Proves: OPS-1, SEARCH-9 (answers say so; writes are refused; nothing acknowledged is missing)."""
    assert workers.write("before-outage").status_code == 200
    workers.chroma.kill()
    try:
        _answers_without_chroma(workers)
    finally:
        workers.chroma.start()
    wait_until(lambda: workers.write("after-outage").status_code == 200)
    wait_until(lambda: not workers.ask()["degraded"])
    assert {"before-outage", "after-outage"} <= workers.found()


def _answers_without_chroma(workers: Workers) -> None:
    refused = workers.write("during-outage")
    assert (refused.status_code, refused.headers["retry-after"].isdigit()) == (503, True)
    answer = workers.degraded(PATH, QUESTION | {"max_facts": 100})
    assert "before-outage" in {fact["id"] for fact in answer["facts"]}
    assert "Chroma" in " ".join(answer["warnings"])
    found = workers.degraded("/api/memory/search", {"query": "granary"})
    assert "Chroma" in found["degraded_reason"]
    for said in (answer, found):  # nobody is told where the server is; the log has it in full
        assert "127.0.0.1" not in json.dumps(said) and str(workers.chroma.port) not in json.dumps(said)
    log = workers.served.log.read_text(encoding="utf-8")
    assert "the store works without Chroma: Chroma can't be" in log and "rror:" in log
    ready = httpx.get(f"{workers.served.url}/ready", timeout=60, verify=False)
    assert ready.status_code == 200


def test_erasure_and_bad_records_are_the_owners_answers(workers: Workers) -> None:
    """Proves: STORE-2, STORE-6 (typed results and errors come through the socket as they are)."""
    bad = {"id": "bad", "kind": "fact", "text": ""}
    answer = workers.post("/api/memory/records", {"records": [bad]})
    assert "rejected" in json.dumps(answer.json()) or answer.status_code == 422
    assert workers.write("to-go").status_code == 200
    gone = httpx.delete(
        f"{workers.served.url}/api/memory/records/to-go",
        headers={"Authorization": f"Bearer {workers.key}"},
        timeout=60,
        verify=False,
    )
    assert gone.status_code in (200, 204), gone.text
    assert "to-go" not in workers.found()
