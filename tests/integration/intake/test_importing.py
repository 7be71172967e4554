"""Memories of other systems: their own files in, every item whole, none twice, the source untouched (OPS-6)."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.store.sqlite import SqliteStore

from recall_loop.cli.main import main
from recall_loop.memory.intake.files.batch_writes import WriteOptions
from recall_loop.memory.intake.files.record_lines import export_lines
from recall_loop.memory.intake.imports.external_memory import DefaultOwner, SourceError
from recall_loop.memory.intake.imports.external_sqlite import read_point
from recall_loop.memory.intake.imports.import_run import ImportSummary, RejectedItem, import_source, preview_import
from recall_loop.memory.intake.imports.langgraph_store import LangGraphStoreSource
from recall_loop.memory.intake.imports.letta import LettaSource
from recall_loop.memory.intake.imports.mem0 import Mem0Source
from recall_loop.memory.store.chroma.chroma_clients import open_client
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.scope import Filters, Scope
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import forked_file
from tests.waiting import wait_until

if TYPE_CHECKING:
    from recall_loop.memory.store.embed.minilm import MiniLmEmbedder

MADE = Path(__file__).resolve().parents[2] / "foreign" / "mem0"
LAMP = {name: f"a {name} one" for name in ("shape", "maker", "shade", "switch", "cable", "plug")}
ACME = Scope(tenant="acme")


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        yield opened


@pytest.fixture
def mem0(tmp_path: Path) -> Path:
    """What mem0 made (tests/foreign/make_mem0.py)."""
    shutil.copytree(MADE, tmp_path / "mem0")
    return tmp_path / "mem0"


def state(folder: Path) -> dict[str, Any]:
    """Return every file below a folder: its bytes and when it was written."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


def moved(source: Any, store: MemoryStore, tmp_path: Path, **more: Any) -> ImportSummary:
    options = WriteOptions("acme", more.pop("batch_size", 1000))
    return import_source(source, store, options, rejects_path=tmp_path / "rejects.jsonl", **more)


def records(store: MemoryStore) -> dict[str, Record]:
    return {record.id: record for record in store.scan(ACME)}


# mem0


def test_all_that_mem0_itself_gives_arrives_whole(mem0: Path, store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-6, STORE-2."""
    before = state(mem0)
    source = Mem0Source(mem0 / "qdrant", DefaultOwner(group_id="lamps"), history=mem0 / "history.db")
    summary = moved(source, store, tmp_path)
    assert (summary.found, summary.created, summary.rejected) == (10, 9, 0)
    assert summary.left_out == {"expired": 1}
    assert (sum(summary.before.values()), summary.after["fact"], summary.after["message"]) == (0, 8, 1)
    found = records(store)
    expected = [json.loads(line) for line in (mem0 / "expected.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(expected) == 7
    for memory in expected:
        record = found.pop(memory["id"])
        assert record.text == memory["memory"]
        assert (record.user_id, record.agent_id) == (memory["user_id"], memory.get("agent_id"))
        assert (record.conversation_id, record.author) == (memory.get("run_id"), memory.get("actor_id"))
        assert record.role == memory.get("role")
        assert record.group_id == "lamps"
        assert record.created_at == (memory["created_at"] and datetime.fromisoformat(memory["created_at"]))
        assert record.updated_at == (memory["updated_at"] and datetime.fromisoformat(memory["updated_at"]))
        former = record.attributes.pop("mem0_history", None)
        assert record.attributes == (memory.get("metadata") or {})
        if "cat" in record.text:
            assert former == [{"text": "The cat sleeps.", "until": memory["updated_at"]}]
    assert found.pop("mem0-7").text == "A point with a number."
    (said,) = found.values()
    assert (said.text, said.role, said.user_id, said.conversation_id) == (
        "Where does the cat sleep?",
        "user",
        "user-9",
        "run-9",
    )
    again = moved(source, store, tmp_path)
    assert (again.created, again.replaced, again.unchanged) == (0, 0, 9)
    assert state(mem0) == before
    assert moved(Mem0Source(mem0 / "qdrant", DefaultOwner(), expired=True), store, tmp_path).created == 1
    assert store.count(Scope(tenant="default")) == 0


def test_mem0_on_chroma(store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-6."""
    client = open_client(tmp_path / "chroma")
    memories = client.create_collection("memories", embedding_function=None)
    payloads = [
        {"data": f"Lamp {n}.", "user_id": "u1", "watts": n, **LAMP, "created_at": "2026-01-02T03:04:05+00:00"}
        for n in range(7)
    ]
    ids = [f"m{n}" for n in range(7)]
    memories.add(ids=ids, embeddings=[[float(n), 1.0] for n in range(7)], metadatas=payloads)
    memories.delete(ids=["m6"])
    client.create_collection("mem0migrations", embedding_function=None)
    client.create_collection("memories_entities", embedding_function=None)
    client.close()
    before = state(tmp_path / "chroma")
    assert moved(Mem0Source(tmp_path / "chroma", DefaultOwner()), store, tmp_path).created == 6
    assert state(tmp_path / "chroma") == before
    record = records(store)["m3"]
    assert (record.text, record.user_id, record.attributes) == ("Lamp 3.", "u1", {"watts": 3, **LAMP})
    assert moved(Mem0Source(tmp_path / "chroma", DefaultOwner()), store, tmp_path).unchanged == 6
    assert moved(Mem0Source(tmp_path / "chroma", DefaultOwner()), store, tmp_path).unchanged == 6
    with pytest.raises(InvalidInputError, match=r"collection: got 'other'; allowed: one of .*memories"):
        Mem0Source(tmp_path / "chroma", DefaultOwner(), collection="other")


def test_what_get_all_gave(store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-6."""
    memories = [
        {
            "id": "a",
            "memory": "Ada likes tea.",
            "user_id": "u1",
            "metadata": {"n": 1},
            "created_at": None,
            "score": 0.5,
        },
        {
            "id": "b",
            "memory": "Bo likes milk.",
            "run_id": "r1",
            "categories": ["food"],
            "metadata": None,
            "created_at": 1714550000000,
        },
        {"memory": "Nobody knows me."},
        {"id": "a", "memory": "Ada likes coffee.", "user_id": "u1", "metadata": {"n": 2}},
        "not a memory",
    ]
    whole, lines = tmp_path / "all.json", tmp_path / "all.jsonl"
    whole.write_text(json.dumps({"results": memories}), encoding="utf-8")
    lines.write_text("".join(json.dumps(memory) + "\n" for memory in memories), encoding="utf-8")
    refused: list[RejectedItem] = []
    summary = moved(Mem0Source(whole, DefaultOwner(user_id="u9")), store, tmp_path, on_rejected=refused.append)
    assert (summary.found, summary.created, summary.rejected, summary.repeated) == (5, 2, 2, 1)
    assert [(bad.number, bad.location) for bad in refused] == [(3, "item 3"), (5, "item 5")]
    kept = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [entry["line"] for entry in kept] == [3, 5]
    assert "id: missing" in kept[0]["reason"]
    assert "Nobody knows me." in kept[0]["raw"]
    found = records(store)
    assert (found["a"].text, found["a"].user_id, found["a"].attributes) == ("Ada likes coffee.", "u1", {"n": 2})
    assert (found["b"].user_id, found["b"].conversation_id, found["b"].attributes) == (
        "u9",
        "r1",
        {"categories": ["food"]},
    )
    assert found["b"].created_at == datetime(2024, 5, 1, 7, 53, 20, tzinfo=UTC)
    assert moved(Mem0Source(lines, DefaultOwner(user_id="u9")), store, tmp_path).unchanged == 2


# What a point may name


class _Call:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self._parts = (function, arguments)

    def __reduce__(self) -> Any:
        return self._parts


def point(payload: Any, point_id: Any = 1) -> bytes:
    """Pickle a point as qdrant-client does, without having it."""
    state = {"__dict__": {"id": point_id, "vector": [0.5], "payload": payload}, "__pydantic_extra__": None}
    body = pickle.dumps(state, protocol=3)[2:-1]
    return b"\x80\x03cqdrant_client.http.models.models\nPointStruct\n)\x81" + body + b"b."


def put(file: Path, *points: bytes) -> None:
    with sqlite3.connect(file) as connection:
        connection.executemany(
            "INSERT INTO points VALUES (?, ?)", [(f"new-{n}", data) for n, data in enumerate(points)]
        )
    connection.close()


def test_a_poisoned_point_runs_nothing(mem0: Path, store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-6, OPS-9."""
    hit = tmp_path / "hit"
    bombs = [
        pickle.dumps(_Call(os.system, f"touch {hit}")),
        point({"data": _Call(os.system, f"touch {hit}")}),
        point({"data": "x", "deep": {"er": [_Call(exec, f"open({str(hit)!r}, 'w')")]}}),
        pickle.dumps(_Call(getattr, _Call(__import__, "os"), "system")),
        f"cos\nsystem\n(S'touch {hit}'\ntR.".encode(),
        f"(S'touch {hit}'\nios\nsystem\n.".encode(),
        # Names of Qdrant's and numpy's packages stand for nothing that could be called with effect.
        f"cnumpy\nos.system\n(S'touch {hit}'\ntR.".encode(),
        f"cqdrant_client.os\nsystem\n(S'touch {hit}'\ntR.".encode(),
        b"",
        b"\x80\x04",
        point({"data": "cut off"})[:-20],
    ]
    put(mem0 / "qdrant" / "collection" / "mem0" / "storage.sqlite", *bombs, point({"data": "I am sound."}, 70))
    refused: list[RejectedItem] = []
    summary = moved(Mem0Source(mem0 / "qdrant", DefaultOwner()), store, tmp_path, on_rejected=refused.append)
    assert not hit.exists()
    assert (summary.created, summary.rejected) == (9, len(bombs))
    assert records(store)["mem0-70"].text == "I am sound."
    reasons = " ".join(bad.reason for bad in refused)
    assert "names posix.system, which is not part of a point" in reasons
    for data in bombs:
        with pytest.raises(ValueError, match=r"Qdrant|names"):
            read_point(data)
    # The proof that these are live: Python's own reader does run them.
    pickle.loads(bombs[0])
    assert hit.exists()


def test_a_small_point_that_unfolds_into_a_huge_one_is_refused(mem0: Path, store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-9."""
    laughs: Any = ["ha"]
    for _ in range(60):
        laughs = [laughs, laughs]
    endless: list[Any] = []
    endless.append(endless)
    made = [point({"data": "x", "n": laughs}), point({"data": "x", "n": endless}), point({"data": "x", "n": 1.5j})]
    put(mem0 / "qdrant" / "collection" / "mem0" / "storage.sqlite", *made[:2])
    refused: list[RejectedItem] = []
    summary = moved(Mem0Source(mem0 / "qdrant", DefaultOwner()), store, tmp_path, on_rejected=refused.append)
    assert (summary.created, summary.rejected) == (8, 2)
    assert "100,000 values" in refused[0].reason
    assert "levels of nesting" in refused[1].reason
    with pytest.raises(ValueError, match="complex, which is not part"):
        read_point(made[2])
    when = datetime(2026, 1, 2, tzinfo=UTC)
    assert read_point(point({"at": when}, 3)) == (3, {"at": when})


# LangGraph


def langgraph(
    file: Path, items: list[tuple[tuple[str, ...], str, dict[str, Any]]], ttl: dict[str, float] | None = None
) -> Path:
    with SqliteStore.from_conn_string(str(file)) as written:
        written.setup()
        for namespace, key, value in items:
            written.put(namespace, key, value, ttl=(ttl or {}).get(key))
    return file


ITEMS = [
    (("memories", "ada"), "k1", {"text": "The ferry leaves at nine.", "tags": ["boat"]}),
    (("memories", "ada"), "k2", {"kind": "Memory", "content": {"content": "Quokkas swim."}}),
    (("memories", "bo"), "k1", {"rule": "Never on Sundays", "since": 1999}),
    (("memories", "bo", "old"), "k1", {"text": "Too deep."}),
    (("settings",), "theme", {"text": "dark"}),
    (("memories", "bo"), "gone", {"text": "Out of date."}),
]


def test_items_of_a_langgraph_store(store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-6."""
    file = langgraph(
        tmp_path / "lg" / "store.db" if (tmp_path / "lg").mkdir() is None else tmp_path, ITEMS, {"gone": 0.0001}
    )
    time.sleep(0.02)
    before = state(tmp_path)
    summary = moved(
        LangGraphStoreSource(file, DefaultOwner(agent_id="a1"), namespaces="memories.{user}"), store, tmp_path
    )
    assert (summary.found, summary.created, summary.left_out) == (6, 3, {"in another namespace": 2, "expired": 1})
    found = records(store)
    first, second, third = (
        found[f"langgraph-store/{name}"] for name in ("memories.ada/k1", "memories.ada/k2", "memories.bo/k1")
    )
    assert (first.text, first.user_id, first.agent_id) == ("The ferry leaves at nine.", "ada", "a1")
    assert first.attributes == {
        "namespace": ["memories", "ada"],
        "key": "k1",
        "text_field": "text",
        "value": {"tags": ["boat"]},
    }
    assert (second.text, second.attributes["value"]) == ("Quokkas swim.", ITEMS[1][2])
    assert (third.text, third.user_id) == ("rule: Never on Sundays\nsince: 1999", "bo")
    with SqliteStore.from_conn_string(str(file)) as written:
        item = written.get(("memories", "ada"), "k1")
    assert item is not None
    assert (first.created_at, first.updated_at) == tuple(
        moment.replace(tzinfo=UTC) for moment in (item.created_at, item.updated_at)
    )
    assert state(tmp_path) == before
    everything = moved(
        LangGraphStoreSource(file, DefaultOwner(), expired=True, text_fields=("since", "rule")), store, tmp_path
    )
    assert (everything.created, everything.replaced, everything.unchanged) == (3, 3, 0)
    assert records(store)["langgraph-store/memories.bo/k1"].text == "Never on Sundays"
    for wrong in ("memories.{nobody}", "memories..x", "{user}.{user}", "a{user}"):
        with pytest.raises(InvalidInputError, match="namespace"):
            LangGraphStoreSource(file, DefaultOwner(), namespaces=wrong)


@pytest.mark.parametrize("live", [True, False])
def test_a_source_with_a_write_ahead_file_is_read_whole_and_left_alone(
    store: MemoryStore, tmp_path: Path, live: bool
) -> None:
    """Proves: OPS-6."""
    (tmp_path / "lg").mkdir()
    file = langgraph(tmp_path / "lg" / "store.db", ITEMS[:1])
    owner = sqlite3.connect(file)
    assert owner.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    owner.execute("INSERT INTO store (prefix, key, value) VALUES ('memories.bo', 'new', '{\"text\": \"Fresh.\"}')")
    owner.commit()
    if not live:
        owner.close()
    assert (tmp_path / "lg" / "store.db-wal").exists() == live
    # The index of the write-ahead file holds the marks of its readers, and is no data.
    before = {name: found for name, found in state(file.parent).items() if not name.endswith("-shm")}
    names = sorted(path.name for path in file.parent.iterdir())
    assert moved(LangGraphStoreSource(file, DefaultOwner()), store, tmp_path).created == 2
    assert {name: found for name, found in state(file.parent).items() if not name.endswith("-shm")} == before
    assert sorted(path.name for path in file.parent.iterdir()) == names
    owner.close()


def test_a_store_that_is_opened_meanwhile_is_noticed(store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-6."""
    file = langgraph(tmp_path / "store.db", ITEMS)
    with sqlite3.connect(file) as owner:
        owner.execute("PRAGMA journal_mode = WAL")
    owner.close()
    items = LangGraphStoreSource(file, DefaultOwner()).items()
    next(items)
    with sqlite3.connect(file) as owner:
        owner.execute("DELETE FROM store")
    with pytest.raises(SourceError, match="opened by another program"):
        list(items)
    owner.close()


def test_a_damaged_source_leaves_nothing_half_done(store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-6."""
    file = langgraph(tmp_path / "store.db", [(("m",), f"k{n}", {"text": f"Note {n}. " * 40}) for n in range(300)])
    data = bytearray(file.read_bytes())
    page = len(data) // 4096 * 3 // 4 * 4096
    data[page : page + 2 * 4096] = b"\xff" * 8192
    file.write_bytes(bytes(data))
    with pytest.raises(SourceError, match=r"store\.db: can't be read"):
        moved(LangGraphStoreSource(file, DefaultOwner()), store, tmp_path, batch_size=10)
    assert store.count(ACME) == 0
    assert not (tmp_path / "rejects.jsonl").exists()


def test_an_invalid_source_is_reported(tmp_path: Path, mem0: Path) -> None:
    """Proves: OPS-6."""
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    for build, path, words in (
        (Mem0Source, tmp_path / "none", "no such file"),
        (Mem0Source, tmp_path, "not a local mem0 vector store"),
        (Mem0Source, mem0 / "history.db", "an SQLite file"),
        (Mem0Source, tmp_path / "notes.txt", "not JSON"),
        (LangGraphStoreSource, mem0 / "history.db", "no LangGraph table `store`"),
        (LangGraphStoreSource, tmp_path / "notes.txt", "not an SQLite file"),
        (LettaSource, tmp_path / "none", "can't be read"),
        (LettaSource, tmp_path / "notes.txt", "not JSON"),
    ):
        with pytest.raises(SourceError, match=words):
            list(build(path, DefaultOwner()).items())
    meta = mem0 / "qdrant" / "meta.json"
    meta.write_text(json.dumps({"collections": {"../../other": {}, "mem0": {}}}), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="one of"):
        Mem0Source(mem0 / "qdrant", DefaultOwner(), collection="../../other")


# Letta


def test_archival_memory_of_letta(store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-6. The layout is that of the export script in Letta's documentation."""
    passages = [
        {
            "id": f"passage-{n}",
            "text": f"Fact number {n}.",
            "archive_id": "archive-1",
            "created_at": "2025-10-31 22:56:56.459100+00:00",
            "metadata": {"n": n},
            "tags": ["kept", f"t{n}"],
            "file_id": None,
            "is_deleted": n == 3,
            "embedding": [0.0, 1.0],
        }
        for n in range(5)
    ]
    file = tmp_path / "memories.json"
    file.write_text(json.dumps(passages, indent=2), encoding="utf-8")
    summary = moved(LettaSource(file, DefaultOwner(agent_id="support")), store, tmp_path)
    assert (summary.found, summary.created, summary.left_out) == (5, 4, {"deleted": 1})
    record = records(store)["passage-2"]
    assert (record.text, record.kind, record.tags, record.agent_id) == (
        "Fact number 2.",
        "archival",
        ("kept", "t2"),
        "support",
    )
    assert record.attributes == {"n": 2, "archive_id": "archive-1"}
    assert record.created_at == datetime(2025, 10, 31, 22, 56, 56, 459100, tzinfo=UTC)
    assert store.count(ACME, Filters(tags=["t4"])) == 1
    assert moved(LettaSource(file, DefaultOwner(agent_id="support")), store, tmp_path).unchanged == 4


def test_an_agent_file(store: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-6. The layout is that of Letta's published agent files."""

    def message(number: int, role: str, text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}, {"type": "reasoning", "reasoning": "hm"}]
        moment = f"2025-10-31T22:0{number}:00+00:00"
        return {"id": f"message-{number}", "role": role, "content": content, "created_at": moment}

    messages = [
        message(0, "system", "Be kind."),
        message(1, "user", "Hello Sam"),
        message(2, "assistant", "Hello Chad"),
    ]
    agent = {"id": "agent-0", "name": "sam", "block_ids": ["block-0"], "messages": messages}
    blocks = [
        {"id": "block-0", "label": "human", "value": "First name: Chad", "description": "About the user"},
        {"id": "block-1", "label": "persona", "value": " "},
    ]
    file = tmp_path / "sam.af"
    file.write_text(json.dumps({"agents": [agent], "blocks": blocks, "tools": []}), encoding="utf-8")
    summary = moved(LettaSource(file, DefaultOwner(agent_id="a1")), store, tmp_path)
    assert (summary.found, summary.created, summary.left_out) == (5, 3, {"system prompts": 1, "empty blocks": 1})
    found = records(store)
    assert found["letta/sam/block/human"].text == "First name: Chad"
    said = [record for record in found.values() if record.kind == "message"]
    assert [(record.role, record.text, record.conversation_id) for record in said] == [
        ("user", "Hello Sam", "letta/sam"),
        ("assistant", "Hello Chad", "letta/sam"),
    ]
    # A later export of the same agent numbers its messages from the start.
    later = {**agent, "messages": [messages[0], messages[2] | {"id": "message-1"}]}
    file.write_text(json.dumps({"agents": [later], "blocks": blocks}), encoding="utf-8")
    assert moved(LettaSource(file, DefaultOwner(agent_id="a1")), store, tmp_path).unchanged == 2


# The command


def test_a_dry_run_prints_counts_and_writes_nothing(
    mem0: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: OPS-6."""
    monkeypatch.chdir(tmp_path)
    put(mem0 / "qdrant" / "collection" / "mem0" / "storage.sqlite", b"broken")
    command = ["import", "mem0", str(mem0 / "qdrant"), "--store", str(tmp_path / "s"), "--tenant", "acme"]
    before = sorted(tmp_path.rglob("*"))
    assert main([*command, "--dry-run"]) == 1
    told = capsys.readouterr()
    assert "would be: 8 created, 0 replaced, 0 unchanged, 1 refused, 1 left out (expired)" in told.out
    assert "refused: not a point of Qdrant" in told.err
    assert sorted(tmp_path.rglob("*")) == before
    assert main(command) == 1
    told = capsys.readouterr()
    assert "10 items\n8 created" in told.out
    assert "tenant acme: 0 records before, 8 records after" in told.out
    assert (tmp_path / "qdrant.rejects.jsonl").is_file()
    assert main([*command, "--dry-run"]) == 1
    assert "would be: 0 created, 0 replaced, 8 unchanged" in capsys.readouterr().out
    assert main(["import", "mem0", str(tmp_path / "none"), "--store", str(tmp_path / "s2")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "s2").exists()
    assert main([*command, "--rejects", str(tmp_path / "no" / "x")]) == 2
    assert "rejects" in capsys.readouterr().err


def test_a_run_that_is_killed_is_finished_by_the_next(tmp_path: Path, embedder: MiniLmEmbedder, root: Path) -> None:
    """Proves: OPS-6, STORE-4."""
    number = 120
    file = langgraph(
        tmp_path / "store.db", [(("m", f"u{n % 7}"), f"k{n}", {"text": f"Note {n}."}) for n in range(number)]
    )
    place = tmp_path / "s"
    words = ["import", "langgraph-store", str(file), "--store", str(place), "--batch-size", "5"]
    with forked_file(root / "tests" / "slow_cli.py", *words, cwd=tmp_path) as child:
        wait_until(lambda: written(place) >= 5 or child.poll() is not None, 100)
    assert child.returncode == -signal.SIGKILL
    done = written(place)
    assert 5 <= done < number
    with MemoryStore.open(place, embedder=embedder) as store:
        source = LangGraphStoreSource(file, DefaultOwner())
        seen = preview_import(source, store, WriteOptions())
        summary = import_source(source, store, WriteOptions(), rejects_path=tmp_path / "r.jsonl")
        assert (seen.created, seen.unchanged) == (summary.created, summary.unchanged)
        assert summary.unchanged >= done
        assert summary.created + summary.unchanged == store.count(Scope()) == number
        assert len(set(export_lines(store, Scope()))) == number


def written(place: Path) -> int:
    try:
        with sqlite3.connect(f"file:{place / 'sidecar.sqlite3'}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM records").fetchone()[0])
    except sqlite3.Error:
        return 0
    finally:
        if "connection" in locals():
            connection.close()
