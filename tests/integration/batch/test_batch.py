"""Scripted batches over the real graph: one line per request, whatever happens (OPS-2)."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recall_loop.graph.batch.batch_output import BatchSummary, ResultsFile
from recall_loop.graph.batch.batch_rounds import OutputOrder
from recall_loop.graph.batch.batch_run import run_batch, stream_batch
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings.settings import Settings
from tests.processes.forked_process import forked_file
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

BOATS = ("Amber", "Birk", "Cormorant", "Dulse", "Eider", "Fathom", "Gannet", "Halyard")
RECORDS = [
    {
        "id": f"b{n}",
        "kind": "fact",
        "text": f"The boat {name} is moored at berth {n + 3} until October.",
        "created_at": None,
    }
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
    assert (summary.total, summary.succeeded, summary.failed, summary.skipped) == (9, 3, 6, 0)
    assert summary.errors == {"invalid_json": 1, "invalid_input": 4, "duplicate_id": 1}
    assert sum(summary.stop_reasons.values()) == 3
    assert not summary.complete
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


def test_a_line_with_a_duplicate_key_is_rejected(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: OPS-2 (which of two tenants was meant isn't guessed)."""
    requests = tmp_path / "in.jsonl"
    requests.write_text('{"id": "q", "tenant": "a", "tenant": "b", "messages": [{"content": "Where?"}]}\n')
    run_batch(requests, tmp_path / "out.jsonl", store=harbour)
    (line,) = read(tmp_path / "out.jsonl")
    assert line["error"] == {"type": "invalid_json", "message": "not JSON: the key 'tenant' occurs twice in an object"}


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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: OPS-2."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInputError, match="a regular file"):
        run_batch(tmp_path / "pipe", tmp_path / "out.jsonl", store=harbour)
    assert not (tmp_path / "out.jsonl").exists()


def test_other_requests_are_noticed(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: OPS-2 (a resumed run answers the file that it was begun with; lines may be appended to it)."""
    asked = questions(3)
    requests, output = write(tmp_path / "in.jsonl", asked), tmp_path / "out.jsonl"
    run_batch(requests, output, store=harbour)
    before = output.read_bytes()
    for other in ([asked[0], asked[2], asked[1]], asked[:2], [{**asked[0], "goal": "another"}, *asked[1:]]):
        with pytest.raises(InvalidInputError, match="requests that the output was started with"):
            run_batch(write(tmp_path / "in.jsonl", other), output, store=harbour, resume=True)
        assert output.read_bytes() == before
    write(requests, questions(4))
    assert run_batch(requests, output, store=harbour, resume=True).skipped == 3
    assert [line["id"] for line in read(output)[3:]] == ["q3"]


def test_lines_in_the_order_of_the_requests(tmp_path: Path, harbour: MemoryStore) -> None:
    """Proves: OPS-2."""
    lines: list[Any] = []
    for question in questions(9):
        lines += [question, b"bad"]
    requests, output = write(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl"
    run_batch(requests, output, store=harbour, concurrency=5, order="input")
    assert [line["line"] for line in read(output)] == list(range(1, 19))


@pytest.mark.parametrize("order", ["input", "completed"])
def test_requests_are_read_as_they_are_needed(harbour: MemoryStore, order: Any) -> None:
    """Proves: OPS-2 (an endless iterable is fine: memory doesn't grow with it)."""
    read_so_far = 0

    def endless() -> Iterator[dict[str, Any]]:
        nonlocal read_so_far
        while True:
            read_so_far += 1
            yield {"id": f"e{read_so_far}", "messages": [] if read_so_far % 3 else questions(1)[0]["messages"]}

    lines = stream_batch(endless(), store=harbour, concurrency=2, order=order)
    assert read_so_far == 0
    found = [next(lines)["line"] for _ in range(12)]
    assert read_so_far <= 12 + 2 * 2 * 4
    assert sorted(found) == found or order == "completed"
    lines.close()
    assert next(iter(stream_batch([7], store=harbour)))["error"]["type"] == "invalid_input"  # type: ignore[list-item]


@pytest.mark.parametrize("order", ["completed", "input"])
def test_an_error_in_the_requests_loses_no_earlier_line(harbour: MemoryStore, order: OutputOrder) -> None:
    """Proves: OPS-2."""

    def broken() -> Iterator[dict[str, Any]]:
        yield from questions(6)
        raise ConnectionError("the source of the requests is gone")

    found = []
    with pytest.raises(ConnectionError, match="the source"):
        for line in stream_batch(broken(), store=harbour, order=order):
            found.append(line["id"])
    assert sorted(found) == [each["id"] for each in questions(6)]


class Slow(MiniLmEmbedder):
    """Takes over texts that ask for it until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.gone_on = threading.Event(), threading.Event()

    def _embedded(self, texts: Any, tokens: Any, *, query: bool) -> Any:
        if any("slowly" in text for text in texts):
            self.go.wait(100)
            self.gone_on.set()
        return super()._embedded(texts, tokens, query=query)


def test_a_request_that_takes_too_long(tmp_path: Path) -> None:
    """Proves: OPS-2 (its line is an error, at its time; the others have their results; the loop is told the limit)."""
    asked = questions(4)
    asked[1] = request("slow", "Which boat drifts slowly?")
    slow, lines = Slow(), {}
    with MemoryStore.in_memory(embedder=slow) as store:
        store.upsert(RECORDS)
        list(stream_batch(questions(1), store=store))
        for line in stream_batch(asked, store=store, concurrency=4, timeout=3.0):
            lines[line["id"]] = line
            if line["id"] == "slow":
                assert not slow.gone_on.is_set()
                threading.Timer(0.3, slow.go.set).start()
        assert slow.gone_on.is_set()  # what runs is waited for
    assert lines["slow"]["error"]["type"] == "timeout"
    assert all("result" in lines[name] for name in ("q0", "q2", "q3"))
    for wrong in (0, -1, 86_401, "x", True):
        with pytest.raises(InvalidInputError, match="timeout"):
            stream_batch(asked, store=store, timeout=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "wrong"), [("concurrency", "x"), ("concurrency", 2.5), ("workers", "x"), ("requests", 3), ("store", "x")]
)
def test_an_argument_of_the_wrong_type_is_named(harbour: MemoryStore, name: str, wrong: Any) -> None:
    """Proves: SEARCH-2."""
    arguments: dict[str, Any] = {"requests": questions(1), "store": harbour, name: wrong}
    with pytest.raises(InvalidInputError) as caught:
        stream_batch(**arguments)
    assert caught.value.field == name


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLmEmbedder) -> Path:
    """A harbour that other processes can read."""
    place = tmp_path_factory.mktemp("harbour") / "store"
    with MemoryStore.open(place, embedder=embedder) as written:
        written.upsert(RECORDS)
    return place


def children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes under /proc")
def test_processes_give_the_same_and_a_killed_one_loses_nothing(
    tmp_path: Path, harbour: MemoryStore, on_disk: Path, embedder: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: OPS-2, LOOP-9."""
    (tmp_path / "queue.py").write_text("raise SystemExit('not the queue of Python')")
    monkeypatch.chdir(tmp_path)
    asked = [*questions(14), request("odd", "Hello?", goal=print)]
    before = children_of(os.getpid())
    with MemoryStore.open(on_disk, embedder=embedder, read_only=True) as reader:
        lines = stream_batch(asked, store=reader, concurrency=4, workers=2, order="input")
        found = [next(lines)]
        begun = [child for child in children_of(os.getpid()) if child not in before]
        assert len(begun) == 2
        os.kill(begun[0], signal.SIGKILL)
        found += lines
        assert [child for child in children_of(os.getpid()) if child not in before] == []
    assert [line["id"] for line in found] == [*(f"q{n}" for n in range(14)), "odd"]
    assert found.pop()["error"]["type"] == "invalid_input"
    local = list(stream_batch(asked[:14], store=harbour, order="input"))
    assert [without_times(line) for line in found] == [without_times(line) for line in local]


def without_times(line: dict[str, Any]) -> Any:
    result = RetrieveResult.model_validate(line["result"])
    counters = {name: value for name, value in result.metadata.items() if name != "duration_ms"}
    return line["id"], line["line"], result.model_copy(update={"metadata": counters, "reference_time": None})


def test_where_processes_cannot_help(harbour: MemoryStore, on_disk: Path, embedder: MiniLmEmbedder) -> None:
    """Proves: OPS-2 (said, not silently done by one process)."""
    with pytest.raises(InvalidInputError, match=r"workers.*in memory"):
        stream_batch([], store=harbour, workers=2)
    with pytest.raises(InvalidInputError, match="from 1 to 2, the concurrency"):
        stream_batch([], store=harbour, workers=3, concurrency=2)
    with MemoryStore.open(on_disk, embedder=embedder, read_only=True) as reader:
        with pytest.raises(InvalidInputError, match=r"workers.*one writer"):
            stream_batch([], store=reader, workers=2, settings=Settings(capture_runs=True))
        with pytest.raises(InvalidInputError, match=r"workers.*embedder"):
            stream_batch([], store=reader, workers=2, settings=Settings(embedder="openai", openai_api_key="k"))
    with pytest.raises(InvalidInputError, match="order"):
        stream_batch([], store=harbour, order="random")  # type: ignore[arg-type]


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
    """Proves: OPS-2 (one run at a time writes it; what another tool has rewritten is still read)."""
    path = tmp_path / "out.jsonl"
    lines = [{"id": name, "line": at, "digest": "0" * 15 + "a", "result": {}} for at, name in ((1, 'a"\\'), (7, "b"))]
    with ResultsFile(path, resume=True) as output:
        output.append(lines)
        with pytest.raises(InvalidInputError, match="no other run"), ResultsFile(path, resume=True):
            pass
    path.write_text(
        "".join(f"{json.dumps(line, sort_keys=True)}\n" for line in lines) + '{"id": "torn', encoding="utf-8"
    )
    with ResultsFile(path, resume=True) as output:
        assert [line for line in range(9) if line in output.completed] == [1, 7]
        assert output.completed.count == 2
    assert lines_of(path) == 2
    assert "torn" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("sort_keys", [False, True])
def test_a_resumed_output_reports_unanswered_requests(tmp_path: Path, sort_keys: bool) -> None:
    """Proves: OPS-2, OPS-3 (what is stored among the results is no reason of theirs)."""
    path = tmp_path / "out.jsonl"
    stored = {"stop": {"reason": "covered"}, "facts": [{"attributes": {"stop": {"reason": "tool_failure"}}}]}
    outcomes: list[dict[str, Any]] = [
        {"result": stored},
        {"result": {"stop": {"reason": "tool_failure"}}},
        {"error": {"type": "timeout", "message": "no answer"}},
        {"error": {"message": "rewritten"}},
        {"error": None},
        {"result": None},
    ]
    lines = [{"id": "a", "line": at, "digest": "a" * 16, **one} for at, one in enumerate(outcomes, start=1)]
    path.write_text("".join(f"{json.dumps(line, sort_keys=sort_keys)}\n" for line in [*lines, lines[2]]), "utf-8")
    with ResultsFile(path, resume=True) as output:
        assert output.completed.count == 6
        assert output.failures == {"timeout": 1, "tool_failure": 1, "unknown": 2}
    assert not BatchSummary(skipped_errors=output.failures).complete


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes under /proc")
def test_kill_and_resume_end_like_an_uninterrupted_run(
    tmp_path: Path, harbour: MemoryStore, on_disk: Path, embedder: MiniLmEmbedder, root: Path
) -> None:
    """Proves: OPS-2 (the processes that share the work end with the one that is killed)."""
    requests, output = write(tmp_path / "in.jsonl", questions(18)), tmp_path / "out.jsonl"
    words = ["batch", str(requests), "-o", str(output), "--workers", "2", "--store", str(on_disk)]
    with forked_file(root / "tests" / "slow_cli.py", *words) as child:
        wait_until(lambda: lines_of(output) >= 5 or child.poll() is not None, 100)
        helpers = children_of(child.pid)
    assert child.returncode == -signal.SIGKILL
    assert len(helpers) == 2
    done = lines_of(output)
    assert 5 <= done < 18
    with MemoryStore.open(on_disk, embedder=embedder, read_only=True) as reader:
        summary = run_batch(requests, output, store=reader, resume=True)
    assert (summary.total, summary.skipped, summary.failed) == (18, done, 0)
    run_batch(requests, tmp_path / "whole.jsonl", store=harbour)
    assert essence(output) == essence(tmp_path / "whole.jsonl")
    wait_until(lambda: not any(Path(f"/proc/{helper}").exists() for helper in helpers))


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
