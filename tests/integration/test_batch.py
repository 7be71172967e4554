"""Scripted batches over the real graph: one line per request, whatever happens (OPS-2)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recall_loop.graph.batch import BatchSummary, run_batch
from recall_loop.graph.batch_output import ResultsFile
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings import Settings

if TYPE_CHECKING:
    from recall_loop.memory.store.embeddings import MiniLmEmbedder
    from recall_loop.memory.store.store import MemoryStore

BOATS = ("Amber", "Birk", "Cormorant", "Dulse", "Eider", "Fathom", "Gannet", "Halyard")
RECORDS = [
    {"id": f"b{n}", "kind": "fact", "text": f"The boat {name} is moored at berth {n + 3} until October."}
    for n, name in enumerate(BOATS)
]


@pytest.fixture
def harbour(store: MemoryStore) -> MemoryStore:
    assert {outcome.status for outcome in store.upsert(RECORDS)} == {"created"}
    return store


def request(name: str, question: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "messages": [{"role": "user", "content": question}], **more}


def questions(number: int) -> list[Any]:
    return [
        request(f"q{n}", f"At which berth is the boat {BOATS[n % len(BOATS)]}?", max_facts=2, max_iterations=2)
        for n in range(number)
    ]


def write(path: Path, lines: list[Any]) -> Path:
    parts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(part + b"\n" for part in parts))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def essence(path: Path) -> dict[str, Any]:
    """Return what must be equal between two runs: everything but the durations."""
    found = {}
    for line in read(path):
        assert line["id"] not in found
        result = RetrieveResult.model_validate(line["result"])
        found[line["id"]] = (result.facts, result.stop.reason, result.confidence, result.context)
    return found


def test_every_request_gets_exactly_one_line(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: OPS-2."""
    good = questions(3)
    lines = [
        good[0],
        b"{broken",
        request("odd", "Hello?", colour="red"),
        good[1],
        {"messages": []},
        good[0] | {"goal": "a repeated id"},
        request("far", "Hello?", max_facts=0),
        b"",
        {"id": 7, "messages": []},
        good[2],
    ]
    requests, output = write(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl"
    seen: list[int] = []
    summary = run_batch(requests, output, store=harbour, progress=lambda so_far: seen.append(so_far.total))
    assert summary == BatchSummary(total=9, succeeded=3, failed=6)
    assert seen == list(range(1, 10))
    by_line = {line["line"]: line for line in read(output)}
    assert sorted(by_line) == [1, 2, 3, 4, 5, 6, 7, 9, 10]
    for line, name in ((1, "q0"), (4, "q1"), (10, "q2")):
        assert by_line[line]["id"] == name
        result = RetrieveResult.model_validate(by_line[line]["result"])
        assert result.request_id == name
        assert result.facts[0].id == f"b{name[1:]}"
    errors = {line: found["error"] for line, found in by_line.items() if "error" in found}
    assert {line: (error["type"], error.get("field")) for line, error in errors.items()} == {
        2: ("invalid_json", None),
        3: ("invalid_input", "colour"),
        5: ("invalid_input", "id"),
        6: ("duplicate_id", "id"),
        7: ("invalid_input", "max_facts"),
        9: ("invalid_input", "id"),
    }
    assert [by_line[line]["id"] for line in (2, 3, 5, 6, 7)] == [None, "odd", None, "q0", "far"]
    assert all(error["message"] for error in errors.values())


def test_concurrency_changes_no_result(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: OPS-2, LOOP-9."""
    requests = write(tmp_path / "in.jsonl", questions(12))
    for concurrency in (1, 6):
        run_batch(requests, tmp_path / f"{concurrency}.jsonl", store=harbour, concurrency=concurrency)
    assert essence(tmp_path / "1.jsonl") == essence(tmp_path / "6.jsonl")
    for wrong in (0, 65):
        with pytest.raises(InvalidInputError, match="1 to 64"):
            run_batch(requests, tmp_path / "no.jsonl", store=harbour, concurrency=wrong)


def test_the_tenant_of_the_settings_fills_in(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: STORE-3, OPS-2."""
    lines = [*questions(1), questions(2)[1] | {"tenant": "default"}]
    requests, output = write(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl"
    run_batch(requests, output, store=harbour, settings=Settings(tenant="elsewhere"))
    found = {line["id"]: line["result"] for line in read(output)}
    assert found["q0"]["facts"] == []
    assert found["q0"]["stop"]["reason"] == "nothing_in_scope"
    assert found["q1"]["facts"]


def test_nothing_is_overwritten(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: OPS-2."""
    requests = write(tmp_path / "in.jsonl", questions(1))
    precious = write(tmp_path / "precious.jsonl", [{"dear": "diary"}])
    before = precious.read_bytes()
    for resume in (False, True):
        with pytest.raises(InvalidInputError, match="output"):
            run_batch(requests, precious, store=harbour, resume=resume)
        with pytest.raises(InvalidInputError, match="output"):
            run_batch(requests, requests, store=harbour, resume=resume)
    assert precious.read_bytes() == before
    assert read(requests) == questions(1)
    with pytest.raises(FileNotFoundError):
        run_batch(tmp_path / "none.jsonl", tmp_path / "new.jsonl", store=harbour)
    assert not (tmp_path / "new.jsonl").exists()


def test_a_torn_output_is_resumed_without_loss_or_repeat(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: OPS-2."""
    lines = [*questions(6), b"bad", questions(1)[0]]
    requests, whole = write(tmp_path / "in.jsonl", lines), tmp_path / "whole.jsonl"
    run_batch(requests, whole, store=harbour)
    data = whole.read_bytes()
    ends = [position + 1 for position, byte in enumerate(data) if byte == ord("\n")]
    torn = tmp_path / "torn.jsonl"
    for cut in (0, 1, ends[0] - 1, ends[0], ends[2] + 20, ends[6], ends[7] - 2, ends[7]):
        torn.write_bytes(data[:cut])
        kept = sum(end <= cut for end in ends)
        summary = run_batch(requests, torn, store=harbour, resume=True)
        assert (summary.total, summary.skipped) == (8, kept)
        assert torn.read_bytes().startswith(data[: ends[kept - 1] if kept else 0])
        keys = [(line["id"], line["line"]) for line in read(torn)]
        assert Counter(keys) == Counter((line["id"], line["line"]) for line in read(whole))


def test_an_id_that_utf8_cannot_carry_gets_its_line(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: OPS-2."""
    requests = write(tmp_path / "in.jsonl", [request("\ud800", "Hello?")])
    output = tmp_path / "out.jsonl"
    assert run_batch(requests, output, store=harbour).failed == 1
    assert read(output)[0]["id"] == "\ud800"
    assert run_batch(requests, output, store=harbour, resume=True).skipped == 1


def test_the_results_file_closes_and_counts(tmp_path: Path) -> None:
    """Proves: OPS-2."""
    path = tmp_path / "out.jsonl"
    with ResultsFile(path, resume=True) as output:
        output.append({"id": "a", "line": 1, "result": {}})
    with ResultsFile(path, resume=True) as output:
        assert output.done == {("id", "a")}


def test_kill_and_resume_end_like_an_uninterrupted_run(
    tmp_path: Path, harbour: MemoryStore, embedder: MiniLmEmbedder
) -> None:
    """Proves: OPS-2."""
    from recall_loop.memory.store.store import MemoryStore

    place = tmp_path / "store"
    with MemoryStore.open(place, embedder=embedder) as written:
        written.upsert(RECORDS)
    requests, output = write(tmp_path / "in.jsonl", questions(80)), tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "recall_loop.cli", "batch", str(requests), "-o", str(output)]
    with subprocess.Popen(
        [*command, "--store", str(place)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        deadline = time.monotonic() + 60
        while lines_of(output) < 5 and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        child.kill()
    assert child.returncode == -signal.SIGKILL
    done = lines_of(output)
    assert 5 <= done < 80
    with MemoryStore.open(place, embedder=embedder, read_only=True) as reader:
        summary = run_batch(requests, output, store=reader, resume=True)
    assert (summary.total, summary.skipped, summary.failed) == (80, done, 0)
    run_batch(requests, tmp_path / "whole.jsonl", store=harbour)
    assert essence(output) == essence(tmp_path / "whole.jsonl")


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
