"""Every way into the store derives the same from the same fields (API-2)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from recall_loop import Memory, MemoryStore, add_tool, ingest_file, write_facts
from recall_loop.cli.main import main
from recall_loop.state.records.records import RECORD_CLASSES
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.processes.remote_writer import writing_through
from tests.service_server import running_service

TALK = {"conversation_id": "c", "user_id": "u"}
GIVEN = [
    {"text": "The ferry leaves at nine."},
    {"text": "And back at noon.", "role": "assistant", **TALK},
    {"text": "Ada lives in Bergen.", "subject": "Ada", "fact_type": "lives_in", "object": "Bergen"},
    {"text": "Drawn from somewhere.", "source_ids": ["m1"]},
    {"text": "Summer: nine, noon and six.", "label": "Timetable"},
    {"text": "Stated in full.", "id": "x", "kind": "archival", "created_at": "2024-05-01T09:00:00Z"},
    {"text": "At an unknown time.", "created_at": None, **TALK},
]


def by_upsert(store, fields, tmp_path):
    store.upsert([fields])


def by_class(store, fields, tmp_path):
    from recall_loop.memory.store.encoding.derivation import derive_id, derive_kind

    kind = fields.get("kind") or derive_kind(fields)
    store.upsert([RECORD_CLASSES[kind](**{"id": derive_id(), **fields})])


def by_memory(store, fields, tmp_path):
    Memory(store=store).add(fields)


def by_file(store, fields, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(fields) + "\n", encoding="utf-8")
    assert ingest_file(path, store).created == 1


def by_writer_process(store, fields, tmp_path):
    with writing_through(store) as remote:
        remote.upsert([fields])


WAYS = [by_upsert, by_class, by_memory, by_file, by_writer_process]


def derived(store):
    """Return what can be compared between ways: everything but new ids and times of writing."""
    (record,) = store.scan(Scope())
    found = record.model_dump(mode="json", exclude_defaults=True) | {"kind": record.kind.value}
    now = record.created_at is not None and (datetime.now(UTC) - record.created_at).total_seconds() < 120
    found["id"] = "x" if record.id == "x" else "new"
    return found | ({"created_at": "now"} if now else {})


@pytest.mark.parametrize("fields", GIVEN, ids=lambda fields: fields["text"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_ways_of_the_library_derive_the_same(way, fields, tmp_path):
    """Proves: API-2."""
    with (
        MemoryStore.in_memory(embedder=WordHashEmbedder()) as one,
        MemoryStore.in_memory(embedder=WordHashEmbedder()) as other,
    ):
        by_upsert(one, fields, tmp_path)
        way(other, fields, tmp_path)
        assert derived(other) == derived(one)


def test_ways_over_http_derive_the_same(tmp_path):
    """Proves: API-2."""
    with running_service(settings=Settings(), embedder=WordHashEmbedder()) as served, served.client() as client:
        store = served.service.store
        ways = [
            lambda fields: client.put(f"/api/memory/records/{fields.get('id', 'new')}", json=fields),
            lambda fields: client.post("/api/memory/records", json={"records": [fields]}),
            lambda fields: client.post("/api/memory/add", json={"content": fields}),
            lambda fields: client.post(
                "/api/memory/records/bulk",
                content=json.dumps(fields).encode(),
                headers={"Content-Type": "application/x-ndjson"},
            ),
        ]
        for fields in GIVEN:
            found = []
            with MemoryStore.in_memory(embedder=WordHashEmbedder()) as plain:
                by_upsert(plain, fields, tmp_path)
                found.append(derived(plain))
            for way in ways:
                assert way(fields).is_success
                found.append(derived(store))
                store.erase(Scope())
            assert found == found[:1] * len(found)


def test_the_command_line_derives_the_same(tmp_path, capsys):
    """Proves: API-2."""
    for number, fields in enumerate(GIVEN):
        file, place = tmp_path / f"{number}.json", str(tmp_path / str(number))
        file.write_text(json.dumps(fields), encoding="utf-8")
        assert main(["add", "--file", str(file), "--store", place]) == 0
        with MemoryStore.in_memory(embedder=WordHashEmbedder()) as plain, MemoryStore.open(place) as written:
            by_upsert(plain, fields, tmp_path)
            assert derived(written) == derived(plain)


def test_facts_and_tools_derive_the_same(store, tmp_path):
    """Proves: API-2."""
    fact = GIVEN[2]
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as plain:
        by_upsert(plain, fact, tmp_path)
        for way in (
            lambda: write_facts(store, [fact]),
            lambda: add_tool(store).invoke({"facts": [fact]}),
        ):
            way()
            assert derived(store) == derived(plain)
            store.erase(Scope())
