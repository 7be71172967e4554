"""Batches on a Ray cluster of two actors, over a Chroma server: the same lines as here, whatever is killed (OPS-2)."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recall_loop.cli.main import main
from recall_loop.graph.batch.batch_run import run_batch, stream_batch
from recall_loop.graph.batch.ray_engine import RayCluster
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, WorkerError
from recall_loop.state.settings.settings import Settings
from tests.chroma_server import ChromaProcess
from tests.ports import free_port

if TYPE_CHECKING:
    from recall_loop.memory.store.embed.minilm import MiniLmEmbedder

NOW = "2026-01-02T03:04:05Z"
BOATS = ("Amber", "Birk", "Cormorant", "Dulse", "Eider", "Fathom", "Gannet", "Halyard")
RECORDS = [
    {"id": f"b{n}", "kind": "fact", "text": f"The boat {name} is moored at berth {n + 3} until October."}
    for n, name in enumerate(BOATS)
]
with_ray = pytest.mark.ray


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLmEmbedder) -> Iterator[MemoryStore]:
    """A store whose vectors are on a Chroma server, open to read."""
    folder = tmp_path_factory.mktemp("ray")
    server = ChromaProcess(folder / "server")
    server.start()
    try:
        with MemoryStore.open(folder / "store", embedder=embedder, url=server.url) as written:
            written.upsert(RECORDS)
        with MemoryStore.open(folder / "store", embedder=embedder, read_only=True) as reader:
            yield reader
    finally:
        server.kill()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster that the tests share: beginning one takes seconds."""
    pytest.importorskip("ray")
    from recall_loop.graph.batch import ray_engine

    ray = ray_engine._import_ray()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=10**8)
    yield ray
    ray.shutdown()


def questions(number: int) -> list[dict[str, Any]]:
    text = "At which berth is the boat {}?"
    return [
        {
            "id": f"q{n}",
            "messages": [{"role": "user", "content": text.format(BOATS[n % 8])}],
            "max_iterations": 2,
            "reference_time": NOW,
        }
        for n in range(number)
    ]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines without what differs from run to run: durations."""
    return [timeless(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if not key.endswith(("_ms", "seconds"))}
    return [timeless(part) for part in value] if isinstance(value, list) else value


@with_ray
def test_the_output_is_that_of_a_local_run_line_by_line(tmp_path: Path, served: MemoryStore, cluster: Any) -> None:
    """Proves: OPS-2, LOOP-9."""
    asked = [*questions(20), "{broken", {"id": "far", "messages": [{"content": "?"}], "max_facts": 0}, questions(1)[0]]
    requests = write(tmp_path / "in.jsonl", asked)
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    local = run_batch(requests, here, store=served, order="input")
    far = run_batch(requests, there, store=served, ray=RayCluster(actors=2), concurrency=2, order="input")
    assert (far.total, far.succeeded, far.failed) == (local.total, local.succeeded, local.failed) == (23, 20, 3)
    assert lines_of(there) == lines_of(here)
    assert not any(line["result"]["degraded"] for line in lines_of(there) if "result" in line)
    # A torn output is gone on with, on the cluster too.
    data = there.read_bytes()
    there.write_bytes(data[: len(data) // 2])
    again = run_batch(requests, there, store=served, ray=RayCluster(actors=2), order="input", resume=True)
    assert 0 < again.skipped < again.total == 23
    assert sorted(map(json.dumps, lines_of(there))) == sorted(map(json.dumps, lines_of(here)))


@with_ray
def test_a_killed_actor_loses_nothing(tmp_path: Path, served: MemoryStore, cluster: Any) -> None:
    """Proves: OPS-2."""
    asked = questions(40)
    lines = stream_batch(asked, store=served, ray=RayCluster(actors=2), concurrency=2, order="input")
    found, killed = [], []
    for line in lines:
        found.append(timeless(line))
        if len(found) in (5, 20):
            killed.append(kill_an_actor(killed))
    assert len(killed) == 2
    assert found == [timeless(line) for line in stream_batch(asked, store=served, order="input")]


def kill_an_actor(spared: list[int]) -> int:
    """Kill -9 one of the actors' processes, and return its number."""
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            words = (folder / "cmdline").read_bytes()
            if words.startswith(b"ray::RayWorker") and ours(int(folder.name)) and int(folder.name) not in spared:
                os.kill(int(folder.name), signal.SIGKILL)
                return int(folder.name)
    raise AssertionError("no actor is running")


def ours(process: int) -> bool:
    """Return whether a process descends from this one: others may run tests on this machine too."""
    while process > 1:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        process = int(fields[1])
        if process == os.getpid():
            return True
    return False


@with_ray
def test_missing_software_on_a_machine_is_reported(
    tmp_path: Path, served: MemoryStore, cluster: Any, embedder: Any
) -> None:
    """Proves: OPS-2."""
    server = ChromaProcess(tmp_path / "server")
    server.start()
    with MemoryStore.open(tmp_path / "store", embedder=embedder, url=server.url) as written:
        written.upsert(RECORDS)
    server.kill()
    with (
        MemoryStore.open(tmp_path / "store", embedder=embedder, read_only=True) as reader,
        pytest.raises(WorkerError, match=r"the store can't be read there: no Chroma server at http://127.0.0.1"),
    ):
        list(stream_batch(questions(1), store=reader, ray=RayCluster(actors=1)))
    began = time.monotonic()
    with MemoryStore.open(Path(str(served.path)), embedder=embedder, read_only=True) as moved:
        moved.path = tmp_path / "elsewhere"  # as it would be on a machine that doesn't share the folder
        with pytest.raises(WorkerError, match="elsewhere: no store there"):
            list(stream_batch(questions(1), store=moved, ray=RayCluster(actors=1)))
    assert time.monotonic() - began < 60
    assert threading.active_count() < 100


def test_what_a_cluster_cannot_share_is_refused(
    tmp_path: Path, embedder: MiniLmEmbedder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: OPS-2."""
    place = tmp_path / "store"
    with MemoryStore.open(place, embedder=embedder) as store:
        store.upsert(RECORDS)
        with pytest.raises(
            InvalidInputError, match=r"engine: got 'ray'; allowed: local, as the store keeps its vectors"
        ):
            stream_batch([], store=store, ray=RayCluster())
        with pytest.raises(InvalidInputError, match="one writer"):
            stream_batch([], store=store, ray=RayCluster(), settings=Settings(capture_runs=True))
    with MemoryStore.in_memory(embedder=embedder) as store, pytest.raises(InvalidInputError, match="in memory"):
        stream_batch([], store=store, ray=RayCluster())
    for wrong in ({"actors": 0}, {"actors": 1025}, {"address": "ray://there:10001"}, {"address": " "}):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            RayCluster(**wrong)
    requests = write(tmp_path / "in.jsonl", questions(1))
    command = ["batch", str(requests), "-o", str(tmp_path / "out.jsonl"), "--store", str(place)]
    for more, words in (
        (["--actors", "2"], "--actors: got 2; allowed: only with --engine ray"),
        (["--engine", "ray", "--workers", "2"], "--workers: got 2; allowed: only without --engine ray"),
        (["--engine", "ray"], "keeps its vectors in its own folder"),
    ):
        assert main([*command, *more]) == 2
        told = capsys.readouterr().err
        assert words in told
        assert told.count("\n") == 1
    assert not (tmp_path / "out.jsonl").exists()


@with_ray
def test_no_cluster_at_an_address(served: MemoryStore) -> None:
    """Proves: OPS-2."""
    ray = pytest.importorskip("ray")
    if ray.is_initialized():
        ray.shutdown()
    with pytest.raises(WorkerError, match="no Ray cluster at 127"):
        list(stream_batch(questions(1), store=served, ray=RayCluster(f"127.0.0.1:{free_port()}")))
