"""Versions: their contents after each kind of change, and their erasure."""

from __future__ import annotations

import json
import threading
from itertools import pairwise

import pytest

from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables import versions as versioning
from recall_loop.state.errors import InvalidInputError, RecordNotFoundError
from recall_loop.state.scope import DEFAULT_TENANT, Filters, Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType
from tests.embedders import WordHashEmbedder

SINGLE = ["lives_in"]


def note(record_id, text, **more):
    return {"id": record_id, "kind": "archival", "text": text} | more


def home(name, town, month):
    place = {"subject": "Ann", "fact_type": "lives_in", "object": town}
    created = f"2024-0{month}-01T00:00:00Z"
    return {"id": name, "kind": "fact", "text": f"Ann lives in {town}.", "created_at": created, **place}


def kept(store, record_id, tenant=DEFAULT_TENANT):
    query = "SELECT number, actor, action, before, after FROM versions WHERE tenant = ? AND id = ? ORDER BY number"
    rows = store._session.database.fetch(query, (tenant, record_id))
    return [(*row[:3], json.loads(row[3]), json.loads(row[4])) for row in rows]


def test_each_change_of_a_record_that_was_there_is_a_version(store):
    """Proves: API-3."""
    store.upsert([note("n", "one")])
    store.upsert([note("n", "one")], actor="nobody changes anything")
    assert kept(store, "n") == []
    store.upsert([note("n", "two")], actor="ann")
    store.upsert([note("n", "three"), note("n", "four")])
    texts = [(number, actor, action, old["text"], new["text"]) for number, actor, action, old, new in kept(store, "n")]
    assert texts == [
        (1, "ann", "replaced", "one", "two"),
        (2, None, "replaced", "two", "three"),
        (3, None, "replaced", "three", "four"),
    ]
    assert kept(store, "n", "other") == []
    for wrong in ("", "x" * 513, 7):
        with pytest.raises(InvalidInputError, match="actor"):
            store.upsert([note("n", "five")], actor=wrong)
    assert store.get(["n"], scope=Scope())[0].text == "four"


def test_a_record_keeps_its_newest_versions_only(store, monkeypatch):
    """Proves: API-3."""
    monkeypatch.setattr(versioning, "KEPT_VERSIONS", 3)
    for number in range(8):
        store.upsert([note("n", f"text {number}")])
    assert [version[0] for version in kept(store, "n")] == [5, 6, 7]


@pytest.mark.parametrize("days", [0, None])
def test_no_versions_where_they_are_switched_off(days):
    """Proves: API-3."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder(), history_days=days) as store:
        store.upsert([note("n", "one")])
        store.upsert([note("n", "two")])
        assert kept(store, "n") == []


def test_days_out_of_range_are_refused_before_anything_is_opened(tmp_path):
    """Proves: API-3."""
    for wrong in (-1, 36_501, 1.5, True, "30"):
        with pytest.raises(InvalidInputError, match="history_days"):
            MemoryStore.open(tmp_path / "store", embedder=WordHashEmbedder(), history_days=wrong)
        with pytest.raises(InvalidInputError, match="history_days"):
            MemoryStore.in_memory(embedder=WordHashEmbedder(), history_days=wrong)
    assert not (tmp_path / "store").exists()
    settings = Settings(store_path=str(tmp_path / "store"), history_days=0)
    with MemoryStore.from_settings(settings, embedder=WordHashEmbedder()) as store:
        store.upsert([note("n", "one")])
        store.upsert([note("n", "two")])
        assert kept(store, "n") == []


def test_a_successor_is_a_version_and_leaves_with_its_fact(store):
    """Proves: API-3, OPS-5, STORE-6."""
    for fact in (home("f1", "Oslo", 1), home("f2", "Bergen", 3), home("f3", "Narvik", 5)):
        write_facts(store, [fact], single_valued=SINGLE)
    assert [(row[2], row[4].get("superseded_by")) for row in kept(store, "f1")] == [("superseded", "f2")]
    assert [(row[2], row[4].get("superseded_by")) for row in kept(store, "f2")] == [("superseded", "f3")]
    store.delete(["f2"])
    ((_, _, action, before, after),) = kept(store, "f1")
    assert (action, before.get("superseded_by"), after["superseded_by"]) == ("superseded", None, "f3")
    assert kept(store, "f2") == []
    store.delete(["f3"])
    assert kept(store, "f1") == []


@pytest.mark.folder
@pytest.mark.parametrize("way", ["delete", "scope", "tenant"])
def test_erased_versions_leave_no_byte(tmp_path, way):
    """Proves: API-3, STORE-6."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert([note("n", "secretword", user_id="u1"), home("f1", "Oslo", 1)], tenant="a")
        store.upsert([note("n", "harmless", user_id="u1")], tenant="a", actor="personzanzibar")
        successor = home("f-zanzibar", "Zanzibar", 3) | {"user_id": "u1"}
        write_facts(store, [{**home("f1", "Oslo", 1), "user_id": "u1"}, successor], tenant="a", single_valued=SINGLE)
        store.upsert([note("n", "kept secretly")], tenant="b")
        store.upsert([note("n", "kept openly")], tenant="b")
        if way == "delete":
            store.delete(["n", "f-zanzibar"], tenant="a")
        else:
            store.erase(Scope(tenant="a", user_id="u1" if way == "scope" else None))
        assert [row[3]["text"] for row in kept(store, "n", "b")] == ["kept secretly"]
        assert store.maintenance.verify().sound
        store.maintenance.compact()
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        found = path.read_bytes().lower()
        assert [word for word in (b"secretword", b"zanzibar", b"harmless") if word in found] == [], path


@pytest.mark.parametrize("owner", ["user_id", "agent_id", "conversation_id"])
@pytest.mark.parametrize("way", ["erase", "forget"])
def test_what_an_erased_owner_had_is_in_no_version_of_a_record_that_is_now_another_s(store, owner, way):
    """Proves: STORE-6, API-3."""
    for tenant in ("a", "b"):
        store.upsert([note("n", "ann's", **{owner: "ann"}), note("kept", "one", **{owner: "bo"})], tenant=tenant)
        store.upsert([note("n", "bo's", **{owner: "bo"}), note("kept", "two", **{owner: "bo"})], tenant=tenant)
        store.upsert([note("n", "bo's own", **{owner: "bo"})], tenant=tenant)
    ann = Scope(tenant="a", **{owner: "ann"})
    assert store.forget(ann, content_types=list(ContentType), dry_run=True).records == 0
    assert store.forget(ann, content_types=["message"]).records == 0
    assert [row[0] for row in kept(store, "n", "a")] == [1, 2]
    if way == "erase":
        assert store.erase(ann) == 0
    else:
        assert store.forget(ann, content_types=list(ContentType)).records == 0
    assert [(row[0], row[3]["text"]) for row in kept(store, "n", "a")] == [(2, "bo's")]
    assert (len(kept(store, "kept", "a")), len(kept(store, "n", "b"))) == (1, 2)


def test_an_update_changes_named_fields_and_keeps_the_rest(store):
    """Proves: API-3."""
    given = note("n", "one", label="A", tags=["x"], attributes={"a": 1, "b": 2}, user_id="u1")
    store.upsert([given, note("other", "untouched")])
    created = store.get(["n"], scope=Scope())[0].created_at
    changed = store.update("n", {"text": "two", "label": None, "attributes": {"a": 3}}, actor="ann")
    assert changed == store.get(["n"], scope=Scope())[0]
    assert (changed.text, changed.label, changed.tags, changed.user_id) == ("two", None, ("x",), "u1")
    assert changed.attributes == {"a": 3} and changed.updated_at is not None and changed.created_at == created
    (version,) = store.history("n")
    assert (version.number, version.actor, version.action) == (1, "ann", "updated")
    assert version.before.text == "one" and version.after == changed
    assert abs((version.changed_at - changed.updated_at).total_seconds()) < 60
    assert store.update("n", {"text": "two"}) == changed and len(store.history("n")) == 1
    stamp = "2024-05-01T00:00:00Z"
    assert store.update("n", {"created_at": None}).created_at is None
    assert store.get(["n"], scope=Scope())[0].created_at is None
    assert store.update("n", {"content": "three", "updated_at": stamp}).updated_at.year == 2024
    assert [version.number for version in store.history("n")] == [1, 2, 3]
    assert store.view(Scope()).count() == 2 and store.history("other") == []
    assert [record.id for record in store.scan(filters=Filters(label="A"))] == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, "changes"),
        ("text", "changes"),
        ({"text": None}, "text"),
        ({"text": "  "}, "text"),
        ({"id": "m"}, "id"),
        ({"kind": "fact"}, "kind"),
        ({"colour": "red"}, "colour"),
        ({"confidence": 2}, "confidence"),
        ({"expires_at": "soon"}, "expires_at"),
    ],
)
def test_an_unfit_update_changes_nothing(store, changes, field):
    """Proves: API-3, STORE-1."""
    store.upsert([note("n", "one")])
    with pytest.raises(InvalidInputError, match=field):
        store.update("n", changes)
    assert store.get(["n"], scope=Scope())[0].text == "one" and store.history("n") == []


def test_updates_and_history_keep_to_their_tenant(store):
    """Proves: API-3, STORE-3."""
    for tenant in ("a", "b"):
        store.upsert([note("n", f"of {tenant}")], tenant=tenant)
    store.upsert([note("gone", "one", expires_at="2001-01-01T00:00:00Z")], tenant="a")
    store.update("n", {"text": "changed"}, tenant="a")
    assert [version.before.text for version in store.history("n", tenant="a")] == ["of a"]
    assert store.history("n", tenant="b") == store.history("n") == store.history("nobody", tenant="a") == []
    for record_id, tenant in (("n", "c"), ("nobody", "a"), ("gone", "a")):
        with pytest.raises(RecordNotFoundError, match="no record"):
            store.update(record_id, {"text": "changed"}, tenant=tenant)
    assert store.get(["n"], scope=Scope(tenant="b"))[0].text == "of b"


def test_updates_of_several_threads_lose_nothing(store):
    """Proves: API-3, STORE-4."""
    store.upsert([note("n", "one")])
    names = [f"field{number}" for number in range(8)]

    def add(name):
        for _ in range(3):
            with store.exclusive():
                known = store.get(["n"], scope=Scope())[0].attributes
                store.update("n", {"attributes": {**known, name: known.get(name, 0) + 1}}, actor=name)

    threads = [threading.Thread(target=add, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get(["n"], scope=Scope())[0].attributes == dict.fromkeys(names, 3)
    history = store.history("n")
    assert len(history) == 24 and {version.actor for version in history} == set(names)
    for earlier, later in pairwise(history):
        assert earlier.after == later.before
