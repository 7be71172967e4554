"""Files into a real store: rejects, idempotence, resuming, order."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.intake.files.checkpoints import Checkpoint, CheckpointPosition
from recall_loop.memory.intake.files.ingest import (
    IngestOptions,
    IngestProblem,
    IngestSummary,
    ingest_file,
)
from recall_loop.memory.intake.files.record_lines import export_lines
from recall_loop.memory.store.tables.database import set_meta
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Scope
from tests.processes.forked_process import forked_file
from tests.waiting import wait_until

if TYPE_CHECKING:
    from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
    from recall_loop.memory.store.store import MemoryStore

WORDS = (
    "anchor",
    "birch",
    "cellar",
    "dune",
    "ember",
    "ferry",
    "garnet",
    "harbour",
    "island",
    "juniper",
    "kettle",
    "lantern",
)


def message(number: int, **more: Any) -> dict[str, Any]:
    text = f"Note {number} about the {WORDS[number % len(WORDS)]} and the {WORDS[number * 7 % len(WORDS)]}."
    return {
        "kind": "message",
        "text": text,
        "author": "Ada",
        "conversation_id": "c",
        "session": "1",
        "created_at": None,
    } | more


def write(path: Path, lines: list[Any]) -> Path:
    parts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(part + b"\n" for part in parts))
    return path


def contents(store: MemoryStore, tenant: str = "default") -> list[str]:
    return list(export_lines(store, Scope(tenant=tenant)))


def windows(store: MemoryStore) -> dict[str, str]:
    view = store.view(Scope())
    rows = view.rows(view.rowids())
    return {row.record.id: row.window for row in rows.values()}


def rejects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def folder_store(tmp_path: Path, embedder: MiniLmEmbedder) -> Iterator[MemoryStore]:
    from recall_loop.memory.store.store import MemoryStore

    with MemoryStore.open(tmp_path / "store", embedder=embedder) as opened:
        yield opened


def test_good_lines_go_in_and_bad_ones_are_kept_aside(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: STORE-2."""
    bad = b'{"kind": "fact", "text": "caf\xe9"}'
    lines: list[Any] = [message(0), bad, message(1, colour="red"), b"", message(2)]
    path = write(tmp_path / "in.jsonl", lines)
    seen: list[IngestProblem] = []
    summary = ingest_file(path, store, IngestOptions(batch_size=2), on_problem=seen.append)
    assert (summary.created, summary.rejected, store.count()) == (2, 2, 2)
    assert [(problem.line, problem.rejected) for problem in seen] == [(2, True), (3, True)]
    entries = rejects(summary.rejects_path)
    assert [(entry["file"], entry["line"]) for entry in entries] == [("in.jsonl", 2), ("in.jsonl", 3)]
    assert "UTF-8" in entries[0]["reason"]
    assert "colour" in entries[1]["reason"]
    assert json.loads(entries[1]["raw"]) == lines[2]


def test_a_record_stored_with_differences_is_reported(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: STORE-2, MOVE-1."""
    path = write(tmp_path / "in.jsonl", [message(0), message(1, created_at="2999-01-01T00:00:00Z")])
    seen: list[IngestProblem] = []
    summary = ingest_file(path, store, on_problem=seen.append)
    assert (summary.created, summary.warnings, summary.rejected) == (2, 1, 0)
    ((line, rejected, reason),) = [(one.line, one.rejected, one.reason) for one in seen]
    assert (line, rejected) == (2, False)
    assert reason == "created_at: got 2999-01-01T00:00:00+00:00, which is in the future: left out"


def test_a_file_put_right_leaves_no_rejects_behind(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: STORE-2."""
    path = write(tmp_path / "in.jsonl", [message(0), b"oops"])
    target = ingest_file(path, store).rejects_path
    assert target.exists()
    write(path, [message(0), message(1)])
    summary = ingest_file(path, store)
    assert not target.exists()
    assert (summary.created, summary.unchanged) == (1, 1)


def test_two_files_may_share_a_rejects_file(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: STORE-2."""
    shared = tmp_path / "bad.jsonl"
    first, second = write(tmp_path / "a.jsonl", [b"x"]), write(tmp_path / "b.jsonl", [b"y"])
    for path in (first, second, first):
        ingest_file(path, store, rejects_path=shared)
    assert sorted(entry["file"] for entry in rejects(shared)) == ["a.jsonl", "b.jsonl"]


def test_no_other_file_is_mistaken_for_a_rejects_file(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: STORE-2."""
    path = write(tmp_path / "in.jsonl", [message(0)])
    precious = write(tmp_path / "precious.jsonl", [{"dear": "diary"}])
    for target in (path, precious):
        with pytest.raises(InvalidInputError, match="rejects"):
            ingest_file(path, store, rejects_path=target)
    assert precious.read_text(encoding="utf-8") == '{"dear": "diary"}\n'


def test_the_last_of_several_lines_with_one_id_wins(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: STORE-2."""
    lines = [message(number, id="same") for number in range(3)]
    path = write(tmp_path / "in.jsonl", lines)
    seen: list[IngestProblem] = []
    summary = ingest_file(path, store, IngestOptions(batch_size=2), on_problem=seen.append)
    (record,) = store.get(["same"], scope=Scope())
    assert record.text == lines[2]["text"]
    assert (summary.duplicates, summary.rejected) == (2, 0)
    assert [(problem.line, problem.rejected) for problem in seen] == [(2, False), (3, False)]
    assert "line 1" in seen[0].reason


def test_again_changes_nothing(tmp_path: Path, folder_store: MemoryStore) -> None:
    """Proves: STORE-2."""
    path = write(tmp_path / "in.jsonl", [message(number % 5) for number in range(12)])
    first = ingest_file(path, folder_store, IngestOptions(batch_size=5))
    before = contents(folder_store)
    second = ingest_file(path, folder_store, IngestOptions(batch_size=3))
    assert (first.created, second.created, second.unchanged) == (12, 0, 12)
    assert contents(folder_store) == before


def test_turns_stand_in_the_order_of_time_then_of_the_file(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: STORE-7."""
    noon, one = "2024-05-01T12:00:00Z", "2024-05-01T13:00:00Z"
    lines = [
        message(3, id="third", created_at=one),
        message(1, id="first", created_at=noon),
        message(2, id="second", created_at=noon),
    ]
    ingest_file(write(tmp_path / "in.jsonl", lines), store, IngestOptions(batch_size=1))
    window = windows(store)["second"]
    texts = [lines[position]["text"] for position in (1, 2, 0)]
    assert [window.index(text) for text in texts] == sorted(window.index(text) for text in texts)


def stop_after(path: Path, store: MemoryStore, batches: int, size: int) -> None:
    """Break an ingest off between two acknowledged batches."""

    def count(line: int, _offset: int | None) -> None:
        if line >= batches * size:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_file(path, store, IngestOptions(batch_size=size), on_progress=count)


def test_a_run_cut_short_goes_on_where_it_was(tmp_path: Path, folder_store: MemoryStore) -> None:
    """Proves: STORE-2, STORE-4."""
    lines: list[Any] = [message(number % 4) for number in range(20)]
    lines[1] = lines[15] = b"bad"
    path = write(tmp_path / "in.jsonl", lines)
    stop_after(path, folder_store, batches=2, size=4)
    assert folder_store.count() == 7
    summary = ingest_file(path, folder_store, IngestOptions(batch_size=4))
    assert (summary.skipped_lines, summary.created, summary.rejected) == (8, 11, 1)
    assert folder_store.count() == 18
    assert [entry["line"] for entry in rejects(summary.rejects_path)] == [2, 16]
    again = ingest_file(path, folder_store)
    assert (again.skipped_lines, again.unchanged) == (0, 18)


def test_a_file_that_grew_goes_on_and_one_that_changed_starts_over(tmp_path: Path, folder_store: MemoryStore) -> None:
    """Proves: STORE-2."""
    lines: list[Any] = [message(number) for number in range(8)]
    path = write(tmp_path / "in.jsonl", lines)
    stop_after(path, folder_store, batches=1, size=4)
    write(path, [*lines, message(8)])
    stop_after(path, folder_store, batches=2, size=4)
    changed = [message(50), *lines[1:]]
    summary = ingest_file(write(path, changed), folder_store, IngestOptions(batch_size=4))
    assert summary.skipped_lines == 0
    assert summary.created == 1


def test_resume_can_be_turned_off_and_a_torn_checkpoint_is_none(tmp_path: Path, folder_store: MemoryStore) -> None:
    """Proves: STORE-2."""
    path = write(tmp_path / "in.jsonl", [message(number) for number in range(8)])
    stop_after(path, folder_store, batches=1, size=4)
    assert ingest_file(path, folder_store, IngestOptions(resume=False)).unchanged == 4
    stop_after(path, folder_store, batches=1, size=4)
    saved = noted(folder_store)
    (text,) = saved.values()
    assert "Note" not in text
    with folder_store.maintenance._session.database.transaction() as connection:
        set_meta(connection, dict.fromkeys(saved, '{"version": 1, "off'))
    assert ingest_file(path, folder_store).skipped_lines == 0
    assert not noted(folder_store)


def noted(store: MemoryStore) -> dict[str, str]:
    """Return the checkpoints that a store has."""
    meta = store.maintenance._session.database.meta()
    return {name: text for name, text in meta.items() if name.startswith("note-ingest-")}


def test_tenants_and_formats_have_checkpoints_of_their_own(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: STORE-3."""
    path = write(tmp_path / "in.jsonl", [message(0)])
    Checkpoint(store, path, "a", "records").save(CheckpointPosition(path.stat().st_size, 1))
    assert Checkpoint(store, path, "a", "records").load().line == 1
    assert Checkpoint(store, path, "b", "records").load() == CheckpointPosition()
    assert Checkpoint(store, path, "a", "locomo").load() == CheckpointPosition()


@pytest.mark.parametrize("format_name", ["records", "locomo"])
def test_a_pipe_is_read_once_without_a_checkpoint(tmp_path: Path, folder_store: MemoryStore, format_name: str) -> None:
    """Proves: STORE-2."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = json.dumps({"id": "1", "kind": "message", "text": "through a pipe"}) + "\n"
    writer = threading.Thread(target=pipe.write_text, args=(line,))
    writer.start()
    try:
        summary = ingest_file(pipe, folder_store, IngestOptions(format_name=format_name))
    finally:
        writer.join()
    assert summary.created == 1
    assert not (tmp_path / "store" / "intake").exists()


def test_export_reads_back_to_an_equal_store(tmp_path: Path, store: MemoryStore, embedder: MiniLmEmbedder) -> None:
    """Proves: STORE-2."""
    from recall_loop.memory.store.store import MemoryStore

    lines: list[Any] = [message(number, created_at=f"2024-05-{9 - number:02}T10:00:00Z") for number in range(5)]
    lines += [
        {"id": "f", "kind": "fact", "text": "Ada sails \u2603", "tags": ["x"], "confidence": 0.5},
        {
            "id": "a",
            "kind": "archival",
            "text": "Long",
            "label": "L",
            "attributes": {"n": [1, None, {"k": 2.5}]},
        },
        {"id": "t", "kind": "trajectory", "text": "Ran", "blocks": [{"type": "reasoning", "text": "hm"}]},
    ]
    ingest_file(write(tmp_path / "in.jsonl", lines), store)
    exported = write(tmp_path / "out.jsonl", [line.encode() for line in contents(store)])
    with MemoryStore.in_memory(embedder=embedder) as other:
        summary: IngestSummary = ingest_file(exported, other)
        assert (summary.created, summary.rejected) == (8, 0)
        assert contents(other) == contents(store)
        assert windows(other) == windows(store)


def test_superseded_facts_lose_nothing_from_export_to_ingest(
    tmp_path: Path, store: MemoryStore, embedder: MiniLmEmbedder
) -> None:
    """Proves: STORE-1, STORE-2."""
    from recall_loop.memory.store.store import MemoryStore

    home = {"kind": "fact", "subject": "Ada", "fact_type": "lives_in"}
    facts = [
        home | {"id": f"f{month}", "text": f"Ada lives in {town}.", "object": town, "created_at": f"2024-0{month}-01"}
        for month, town in enumerate(("Oslo", "Bergen", "Narvik"), 1)
    ]
    write_facts(store, facts, single_valued=["lives_in"])
    assert "superseded_by" in contents(store)[0] and "valid_until" in contents(store)[0]
    with MemoryStore.in_memory(embedder=embedder) as other:
        summary = ingest_file(write(tmp_path / "out.jsonl", [line.encode() for line in contents(store)]), other)
        assert (summary.created, summary.rejected) == (3, 0)
        assert list(other.scan(Scope())) == list(store.scan(Scope()))


def test_kill_and_resume_end_like_an_uninterrupted_run(
    tmp_path: Path, store: MemoryStore, embedder: MiniLmEmbedder, root: Path
) -> None:
    """Proves: STORE-2, STORE-4."""
    from recall_loop.memory.store.store import MemoryStore

    lines: list[Any] = [message(number % 40) for number in range(400)]
    lines[5] = b"bad"
    lines[300] = b"worse"
    path, place = write(tmp_path / "in.jsonl", lines), tmp_path / "store"
    words = ["ingest", str(path), "--store", str(place), "--batch-size", "8"]
    with forked_file(root / "tests" / "slow_cli.py", *words) as child:
        wait_until(lambda: done_lines(place) or child.poll() is not None, 100)
    assert child.returncode == -signal.SIGKILL
    assert 0 < done_lines(place) < 400
    with MemoryStore.open(place, embedder=embedder) as resumed:
        summary = ingest_file(path, resumed)
        ingest_file(path, store, rejects_path=tmp_path / "other.jsonl")
        assert summary.skipped_lines > 0
        assert contents(resumed) == contents(store)
        assert windows(resumed) == windows(store)
    assert [entry["line"] for entry in rejects(summary.rejects_path)] == [6, 301]


def done_lines(place: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{place / 'sidecar.sqlite3'}?mode=ro", uri=True)) as connection:
            found = connection.execute("SELECT value FROM meta WHERE key LIKE 'note-ingest-%'").fetchall()
    except sqlite3.Error:  # not there yet
        return 0
    return int(json.loads(found[0][0])["line"]) if found else 0
