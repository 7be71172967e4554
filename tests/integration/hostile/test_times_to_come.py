"""A record of the year 9999 would be the newest for good: on every way in, times to come count as not stated."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from recall_loop.graph.memories.memory import Memory
from recall_loop.graph.run import retrieve
from recall_loop.memory.intake.conversations.conversation import ConversationOwner, record_messages
from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.intake.files.ingest import ingest_file
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Fact
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

FAR = "9999-12-31T00:00:00Z"
HOME = {"kind": "fact", "subject": "Ada", "fact_type": "lives_in"}
OLD = {**HOME, "id": "old", "text": "Ada lives in Oslo.", "object": "Oslo", "created_at": FAR}
NEW = {**HOME, "id": "new", "text": "Ada lives in Bergen.", "object": "Bergen"}


@pytest.fixture
def store():
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        yield opened


def by_message(store, tmp_path):
    record_messages(store, ConversationOwner("c"), [{"role": "user", "content": "x", "timestamp": FAR}])


def by_line(store, tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps({**OLD, "updated_at": FAR}) + "\n", encoding="utf-8")
    assert ingest_file(tmp_path / "in.jsonl", store).created == 1


WAYS_IN = {
    "mapping": lambda store, _: store.upsert([{**OLD, "updated_at": FAR}]),
    "record": lambda store, _: store.upsert([Fact.model_validate({**OLD, "updated_at": FAR})]),
    "many": lambda store, _: store.upsert([{**OLD, "id": f"f{at}"} for at in range(1001)]),
    "fact": lambda store, _: write_facts(store, [OLD], single_valued=["lives_in"]),
    "thread": by_message,
    "added text": lambda store, _: Memory(store=store).add({"text": "Ada lives in Oslo.", "created_at": FAR}),
    "added message": lambda store, _: Memory(store=store).add([{"role": "user", "content": "x", "timestamp": FAR}]),
    "line": by_line,
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


def test_writing_it_again_changes_nothing_and_says_so_each_time(store):
    """Proves: GUARD-5, STORE-2."""
    first, again = store.upsert([OLD])[0], store.upsert([OLD])[0]
    assert (first.status, again.status) == ("created", "unchanged")
    assert first.warning == again.warning == "created_at: got 9999-12-31T00:00:00+00:00, which is to come: left out"


def test_what_is_said_later_supersedes_it(store):
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


def test_over_http(tmp_path):
    """One record, a batch, an upload, and a change. Proves: GUARD-5, OPS-1."""
    with running_service(settings=Settings(), embedder=WordHashEmbedder()) as service:
        records = f"{service.url}/api/memory/records"
        put = httpx.put(f"{records}/one", json={**OLD, "id": "one"}).json()
        assert "created_at" in put["warning"]
        (outcome,) = httpx.post(records, json={"records": [OLD]}).json()["outcomes"]
        assert "created_at" in outcome["warning"]
        lines = {"content": json.dumps({**OLD, "id": "two"}), "headers": {"Content-Type": "application/x-ndjson"}}
        assert httpx.post(f"{records}/bulk", **lines).status_code == 200
        assert httpx.patch(f"{records}/two", json={"created_at": FAR}).status_code == 422
        found = httpx.get(records).json()["records"]
        assert len(found) == 3
        assert all(record["created_at"] < "9000" for record in found)
