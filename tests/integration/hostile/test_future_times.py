"""A record of the year 9999 would be the newest for good: on every way in, times to come count as not stated."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta

import httpx
import httpx2
import pytest
from langgraph.store.sqlite import SqliteStore
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from recall_loop.cli.main import main
from recall_loop.graph.loop_tools import add_tool
from recall_loop.graph.memories.memory import Memory
from recall_loop.graph.run import retrieve
from recall_loop.memory.intake.conversations.conversation import ConversationOwner, record_messages
from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.intake.files.batch_writes import WriteOptions
from recall_loop.memory.intake.files.ingest import ingest_file
from recall_loop.memory.intake.imports.external_memory import DefaultOwner
from recall_loop.memory.intake.imports.import_run import import_source
from recall_loop.memory.intake.imports.langgraph_store import LangGraphStoreSource
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state import types
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Fact
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

FAR = "9999-12-31T00:00:00Z"
LEFT_OUT = "old: created_at: got 9999-12-31T00:00:00+00:00, which is in the future: left out"
HOME = {"kind": "fact", "subject": "Ada", "fact_type": "lives_in"}
OLD = {**HOME, "id": "old", "text": "Ada lives in Oslo.", "object": "Oslo", "created_at": FAR}
NEW = {**HOME, "id": "new", "text": "Ada lives in Bergen.", "object": "Bergen"}


@pytest.fixture
def store():
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        yield opened


def by_message(store, tmp_path):
    record_messages(store, ConversationOwner(conversation_id="c"), [{"role": "user", "content": "x", "timestamp": FAR}])


def by_line(store, tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps({**OLD, "updated_at": FAR}) + "\n", encoding="utf-8")
    assert ingest_file(tmp_path / "in.jsonl", store).created == 1


def by_import(store, tmp_path):
    file = tmp_path / "store.db"
    with SqliteStore.from_conn_string(str(file)) as written:
        written.setup()
        written.put(("memories", "ada"), "home", {"text": "Ada lives in Oslo."})
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE store SET created_at = '9999-12-31 00:00:00', updated_at = '9999-12-31 00:00:00'")
    connection.close()
    source = LangGraphStoreSource(file, DefaultOwner(), namespaces="memories.{user}")
    assert import_source(source, store, WriteOptions("default", 10), rejects_path=tmp_path / "rejects").created == 1


WAYS_IN = {
    "mapping": lambda store, _: store.upsert([{**OLD, "updated_at": FAR}]),
    "record": lambda store, _: store.upsert([Fact.model_validate({**OLD, "updated_at": FAR})]),
    "many": lambda store, _: store.upsert([{**OLD, "id": f"f{at}"} for at in range(1001)]),
    "fact": lambda store, _: write_facts(store, [OLD], single_valued=["lives_in"]),
    "thread": by_message,
    "added text": lambda store, _: Memory(store=store).add({"text": "Ada lives in Oslo.", "created_at": FAR}),
    "added message": lambda store, _: Memory(store=store).add([{"role": "user", "content": "x", "timestamp": FAR}]),
    "line": by_line,
    "import": by_import,
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_a_time_to_come_counts_as_not_stated(store, tmp_path, way):
    """Proves: GUARD-5, API-2."""
    began = datetime.now(UTC)
    WAYS_IN[way](store, tmp_path)
    records = list(store.scan())
    assert records
    for record in records:
        assert began <= record.created_at <= datetime.now(UTC)
        assert record.updated_at is None


def test_a_clock_may_be_a_day_ahead(store):
    """Proves: GUARD-5."""
    ahead = datetime.now(UTC) + timedelta(hours=23)
    (outcome,) = store.upsert([{**OLD, "created_at": ahead}])
    assert (outcome.warning, next(store.scan()).created_at) == (None, ahead)


def test_a_record_that_has_expired_already_is_taken_with_a_warning(store):
    """It isn't there afterwards. Proves: LIVE-7."""
    past = datetime.now(UTC) - timedelta(minutes=1)
    told = f"expires_at: got {past.isoformat()}, which is past: no search or read returns the record"
    kept = {"id": "kept", "text": "Ada has a dog.", "expires_at": past + timedelta(days=1)}
    gone, stays = store.upsert([{"id": "gone", "text": "Ada lives in Rome.", "expires_at": past}, kept])
    assert (gone.warning, stays.warning) == (told, None)
    assert [record.id for record in store.scan()] == ["kept"]
    (both,) = store.upsert([{**OLD, "expires_at": past}])
    assert both.warning == f"{LEFT_OUT.removeprefix('old: ')}; {told}"


def test_writing_it_again_changes_nothing_and_says_so_each_time(store):
    """Proves: GUARD-5, STORE-2."""
    first, again = store.upsert([OLD])[0], store.upsert([OLD])[0]
    assert (first.status, again.status) == ("created", "unchanged")
    assert first.warning == again.warning == LEFT_OUT.removeprefix("old: ")


def test_a_later_statement_supersedes_it(store):
    """Proves: GUARD-5."""
    write_facts(store, [OLD], single_valued=["lives_in"])
    assert write_facts(store, [NEW], single_valued=["lives_in"]).superseded == ("old",)
    result = retrieve("Where does Ada live?", store=store)
    assert [fact.id for fact in result.facts] == ["new"]


def test_a_record_cannot_be_moved_to_a_time_to_come(store):
    """Proves: GUARD-5, API-3."""
    store.upsert([NEW])
    for name in ("created_at", "updated_at"):
        with pytest.raises(InvalidInputError, match=f"{name}: got .*9999.*; allowed: a time at most a day ahead"):
            store.update("new", {name: FAR})
    assert next(store.scan()).updated_at is None


def test_by_a_tool(store):
    """Proves: GUARD-5, OPS-6."""
    message = {"role": "user", "content": "Ada lives in Oslo.", "timestamp": FAR}
    add_tool(store).invoke({"messages": [message]})
    assert next(store.scan()).created_at <= datetime.now(UTC)


def test_future_records_of_an_earlier_version_correct_nothing(store, monkeypatch):
    """Proves: GUARD-5, LIVE-4."""
    said = {"kind": "message", "role": "user", "user_id": "u"}
    monkeypatch.setattr(types, "MAX_CLOCK_SKEW", timedelta(days=365 * 7000))
    forged = {**said, "id": "far", "text": "We cut the budget to 1.", "created_at": "8000-01-01T00:00:00Z"}
    store.upsert([{**said, "id": "now", "text": "The budget for the boat is 18,000 euros."}, forged])
    assert "far" in [fact.superseded_by_hint for fact in retrieve("What is the budget?", store=store).facts]
    monkeypatch.undo()
    assert [record.created_at.year for record in store.scan() if record.id == "far"] == [8000]
    assert not any(fact.superseded_by_hint for fact in retrieve("What is the budget?", store=store).facts)


def test_over_http(tmp_path):
    """One record, a batch, an upload, an addition, and a change. Proves: GUARD-5, OPS-1."""
    with running_service(settings=Settings(), embedder=WordHashEmbedder()) as service:
        records = f"{service.url}/api/memory/records"
        put = httpx.put(f"{records}/one", json={**OLD, "id": "one"}).json()
        assert "created_at" in put["warning"]
        (outcome,) = httpx.post(records, json={"records": [OLD]}).json()["outcomes"]
        assert "created_at" in outcome["warning"]
        lines = {"content": json.dumps({**OLD, "id": "two"}), "headers": {"Content-Type": "application/x-ndjson"}}
        assert httpx.post(f"{records}/bulk", **lines).status_code == 200
        assert httpx.patch(f"{records}/two", json={"created_at": FAR}).status_code == 422
        added = httpx.post(f"{service.url}/api/memory/add", json={"content": {**OLD, "id": "three"}}).json()
        assert added["outcomes"][0]["warning"] == LEFT_OUT.removeprefix("old: ")
        found = httpx.get(records).json()["records"]
        assert len(found) == 4
        assert all(record["created_at"] < "9000" for record in found)


async def test_over_mcp():
    """What is added later is what holds, and nothing ends by it before. Proves: GUARD-5, OPS-6."""
    with running_service(settings=Settings(), embedder=WordHashEmbedder()) as service:
        async with (
            httpx2.AsyncClient(timeout=60) as http,
            Client(streamable_http_client(f"{service.url}/mcp", http_client=http)) as client,
        ):
            added = await client.call_tool("add", {"records": [OLD]})
            assert "old: created_at: got 9999" in added.content[0].text
            assert added.structured_content["warnings"] == [LEFT_OUT]
            assert not (await client.call_tool("add", {"records": [NEW]})).is_error
            assert (await client.call_tool("update", {"id": "new", "changes": {"created_at": FAR}})).is_error
        store = service.service.store
        assert all(record.created_at <= datetime.now(UTC) for record in store.scan())
        assert write_facts(store, [{**NEW, "id": "n2"}], single_valued=["lives_in"]).superseded == ("old",)


def test_on_the_command_line(tmp_path, capsys):
    """A document that is added, and a change. Proves: GUARD-5, API-2."""
    place, document = ["--store", str(tmp_path / "s")], tmp_path / "old.json"
    document.write_text(json.dumps(OLD), encoding="utf-8")
    assert main(["add", "--file", str(document), *place]) == 0
    assert "which is in the future: left out" in "".join(capsys.readouterr())
    assert main(["store", "update", "old", "created_at=" + FAR, *place]) == 2
    assert "allowed: a time at most a day ahead" in capsys.readouterr().err
    with MemoryStore.open(tmp_path / "s") as store:
        assert next(store.scan()).created_at <= datetime.now(UTC)
