"""Paths of files as text, as a Path, and as neither (MOVE-1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recall_loop import Memory, MemoryStore, ingest_file, load_dataset, read_records, run_batch
from recall_loop.memory.intake.files.batch_writes import WriteOptions
from recall_loop.memory.intake.imports.external_memory import DefaultOwner
from recall_loop.memory.intake.imports.import_run import import_source
from recall_loop.memory.intake.imports.langgraph_store import LangGraphStoreSource
from recall_loop.memory.intake.imports.letta import LettaSource
from recall_loop.memory.intake.imports.mem0 import Mem0Source
from recall_loop.state.errors import InvalidInputError

RECORD = {"id": "k1", "kind": "archival", "text": "The key is under the stone."}
OWNER = DefaultOwner()


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory() as opened:
        yield opened


def written(path: Path, *values: Any) -> str:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return str(path)


def test_files_named_by_text_are_read_and_written(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: MOVE-1, OPS-2."""
    notes, rejects = written(tmp_path / "notes.jsonl", RECORD, {"kind": "fact"}), str(tmp_path / "rejects.jsonl")
    assert next(read_records(notes, "auto"))[1].id == "k1"  # type: ignore[union-attr]
    summary = ingest_file(notes, store, rejects_path=rejects)
    assert (summary.created, summary.path, summary.rejects_path) == (1, Path(notes), Path(rejects))
    requests = written(tmp_path / "requests.jsonl", {"id": "r1", "messages": [{"content": "Where is the key?"}]})
    answers = tmp_path / "answers.jsonl"
    assert run_batch(requests, str(answers), store=store).succeeded == 1
    assert '"k1"' in answers.read_text(encoding="utf-8")


def test_sources_and_data_sets_named_by_text_are_read(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: OPS-9."""
    passages = written(tmp_path / "passages.json", [{"id": "p1", "text": "The boiler leaks."}])
    assert import_source(LettaSource(passages, OWNER), store, WriteOptions(), rejects_path=passages + "l").created == 1
    export = written(tmp_path / "mem0.json", {"results": [{"id": "m1", "memory": "Ada likes tea."}]})
    assert [item.location for item in Mem0Source(export, OWNER).items()]
    folder = tmp_path / "set"
    folder.mkdir()
    written(folder / "records.jsonl", {**RECORD, "collection": "set"})
    written(
        folder / "questions.jsonl", {"id": "q1", "question": "Where is the key?", "collection": "set", "gold": ["k1"]}
    )
    assert load_dataset(str(folder)).name == load_dataset(folder).name == "set"


@pytest.mark.parametrize("wrong", [3, None, " "])
@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda wrong, store: list(read_records(wrong)), "path"),
        (ingest_file, "path"),
        (lambda wrong, _: load_dataset(wrong), "path"),
        (lambda wrong, store: run_batch(wrong, "answers.jsonl", store=store), "requests_path"),
        (lambda wrong, store: run_batch("requests.jsonl", wrong, store=store), "output_path"),
        (lambda wrong, store: LettaSource(wrong, OWNER), "path"),
        (lambda wrong, store: Mem0Source(wrong, OWNER), "path"),
        (lambda wrong, store: LangGraphStoreSource(wrong, OWNER), "path"),
    ],
)
def test_what_is_no_path_is_named(call: Callable[..., Any], field: str, wrong: Any, store: MemoryStore) -> None:
    """Proves: SEARCH-2."""
    with pytest.raises(InvalidInputError) as caught:
        call(wrong, store)
    assert caught.value.field == field


def test_an_export_needs_a_folder(tmp_path: Path, store: MemoryStore) -> None:
    """Proves: API-1 (an error of the project, and nothing is made)."""
    target = tmp_path / "none" / "notes.jsonl"
    with Memory(store=store) as memory, pytest.raises(InvalidInputError, match=r"path.*folder"):
        memory.export(str(target))
    assert not target.parent.exists()
