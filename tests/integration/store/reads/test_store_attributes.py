"""Filters of attributes in a store: indexes that are made, used, kept and dropped, and names that are hostile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.files.store_files import SIDECAR_FILE
from recall_loop.memory.store.index.caches import tenant_cache
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables.attribute_index import indexed_paths
from recall_loop.memory.store.tables.predicate import Predicate, compile_predicate
from recall_loop.state.errors import InvalidInputError, StoreReadOnlyError
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder

RED = Filters(attributes={"team": "red"})
MINE = Scope(tenant="mine")


def fact(number: int, **attributes: Any) -> dict[str, Any]:
    return {"id": f"f{number}", "kind": "fact", "text": f"The ferry number {number}.", "attributes": attributes}


def teams(count: int = 60) -> list[dict[str, Any]]:
    """Facts of which every third is of the red team; `age` counts up."""
    return [fact(at, team=("red", "blue", None)[at % 3], age=at, order={"total": at / 2}) for at in range(count)]


def opened(folder: Path, **options: Any) -> MemoryStore:
    return MemoryStore.open(folder, embedder=WordHashEmbedder(), **options)


def ids(store: MemoryStore, filters: Filters = RED, scope: Scope = MINE) -> list[str]:
    found = [record.id for record in store.scan(scope, filters)]
    assert store.count(scope, filters) == len(found)
    params = SearchParams(filters=filters, limit=1000)
    assert {hit.record.id for hit in search(store, "ferry", scope=scope, params=params).hits} == set(found)
    return found


def compiled(store: MemoryStore, filters: Filters) -> Predicate:
    database = store._session.database
    return compile_predicate(MINE, filters, indexed=indexed_paths(database), dialect=database.dialect)


def plan(store: MemoryStore, filters: Filters) -> str:
    predicate = compiled(store, filters)
    query = f"EXPLAIN QUERY PLAN SELECT r.rowid FROM records r WHERE {predicate.where}"
    return "\n".join(str(row[3]) for row in store._session.database.fetch(query, predicate.params))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with opened(tmp_path) as store:
        for tenant in ("mine", "theirs"):
            store.upsert(teams(), tenant=tenant)
    yield tmp_path


@pytest.mark.folder
@pytest.mark.parametrize(
    "conditions",
    [
        {"team": "red"},
        {"team": {"in": ["red", "green"]}},
        {"age": {"gte": 10, "lt": 20}},
        {"age": {"gt": 3, "ne": 5}},
        {"order.total": {"lte": 2}},
        {"team": {"exists": True}, "age": 3},
    ],
)
def test_declared_paths_are_looked_up_in_their_index(folder: Path, conditions: dict[str, Any]) -> None:
    """Rows are found by their number, and no body is read. Proves: API-4."""
    filters = Filters(attributes=conditions)
    with opened(folder) as store:
        assert "attribute_values" not in plan(store, filters)
        before = ids(store, filters)
        assert before
    with opened(folder, indexed_attributes=["team", "age", "order.total"]) as store:
        steps = plan(store, filters)
        assert "SEARCH v USING PRIMARY KEY (path=? AND tenant=?" in steps
        assert "rowid=?" in steps.splitlines()[0]
        assert ids(store, filters) == before


@pytest.mark.parametrize("conditions", [{"team": {"ne": "red"}}, {"team": None}, {"team": {"in": ["red", None]}}])
def test_conditions_that_absence_meets_are_read_from_the_records(folder: Path, conditions: dict[str, Any]) -> None:
    """Proves: API-4."""
    filters = Filters(attributes=conditions)
    with opened(folder) as store:
        store.upsert([fact(100)], tenant="mine")
        before = ids(store, filters)
        assert "f100" in before
    with opened(folder, indexed_attributes=["team"]) as store:
        assert "attribute_values" not in compiled(store, filters).where
        assert ids(store, filters) == before


def test_indexes_are_made_kept_and_dropped_with_what_is_declared(folder: Path) -> None:
    """Proves: API-4."""
    reds = [f"f{at}" for at in range(0, 60, 3)]
    with opened(folder, indexed_attributes=["team", "age"]) as store:
        assert indexed_paths(store._session.database) == {"team": 1, "age": 2}
        assert ids(store) == reds
    with opened(folder) as store:  # nothing is said: they stay
        assert set(indexed_paths(store._session.database)) == {"team", "age"}
        store.upsert([fact(0, team="blue"), fact(1, team="red"), fact(200, team="red")], tenant="mine")
        store.delete(["f3"], tenant="mine")
        assert ids(store) == ["f1", *reds[2:], "f200"]
        assert ids(store, scope=Scope(tenant="theirs")) == reds
    with opened(folder, indexed_attributes=["order.total"]) as store:
        assert indexed_paths(store._session.database) == {"order.total": 3}
        assert store._session.database.fetch("SELECT DISTINCT path FROM attribute_values") == [(3,)]
        assert ids(store) == ["f1", *reds[2:], "f200"]
    with opened(folder, indexed_attributes=[]) as store:
        assert indexed_paths(store._session.database) == {}
        assert store._session.database.fetch("SELECT count(*) FROM attribute_values") == [(0,)]
        store.upsert([fact(300, team="red")], tenant="mine")
        assert "f300" in ids(store)


def test_the_setting_declares_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: API-4."""
    monkeypatch.setenv("RECALL_LOOP_INDEXED_ATTRIBUTES", "team, order.total")
    with MemoryStore.from_settings(Settings(), folder, embedder=WordHashEmbedder()) as store:
        assert set(indexed_paths(store._session.database)) == {"team", "order.total"}
    monkeypatch.setenv("RECALL_LOOP_INDEXED_ATTRIBUTES", '["a,b"]')
    assert Settings().indexed_attributes == ("a,b",)
    monkeypatch.setenv("RECALL_LOOP_INDEXED_ATTRIBUTES", "[]")
    with MemoryStore.from_settings(Settings(), folder, embedder=WordHashEmbedder()) as store:
        assert indexed_paths(store._session.database) == {}


@pytest.mark.parametrize("wrong", [["a..b"], [""], [3], 3, [f"a{at}" for at in range(33)], "a,,b"])
def test_what_is_no_path_is_refused_and_leaves_the_store_closed(folder: Path, wrong: Any) -> None:
    """Proves: API-4."""
    with pytest.raises(InvalidInputError, match="indexed_attributes"):
        opened(folder, indexed_attributes=wrong)
    with opened(folder) as store:  # the lock was given back
        assert indexed_paths(store._session.database) == {}


def test_readers_use_what_the_writer_made_and_outlive_its_end(folder: Path) -> None:
    """A reader that has just looked which indexes there are meets one that is gone. Proves: API-4, STORE-4."""
    with opened(folder, indexed_attributes=["team"]):
        pass
    with opened(folder, read_only=True, indexed_attributes=["age"]) as reader:
        assert set(indexed_paths(reader._session.database)) == {"team"}
        stale = compiled(reader, RED)
        assert "attribute_values" in stale.where
        reds = ids(reader)
        with opened(folder, indexed_attributes=["age"]):
            pass
        query = f"SELECT r.id FROM records r WHERE {stale.where} ORDER BY r.rowid"
        assert [row[0] for row in reader._session.database.fetch(query, stale.params)] == reds
        assert ids(reader) == reds
        with pytest.raises(StoreReadOnlyError):
            reader.upsert([fact(1)])


def test_a_selection_that_is_known_follows_writes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what changed is looked at, one row at a time. Proves: API-4, SEARCH-3."""
    monkeypatch.setattr(tenant_cache, "_MIN_DIRTY", 1000)
    with opened(folder, indexed_attributes=["team"]) as store:
        reds = set(ids(store))
        store.upsert([fact(1, team="red"), fact(3, team="blue")], tenant="mine")
        store.delete(["f6"], tenant="mine")
        assert set(ids(store)) == (reds | {"f1"}) - {"f3", "f6"}


HOSTILE = [
    "team') OR 1=1 --",
    "team' OR '1'='1",
    'team" || "',
    'x") OR 1=1; DROP TABLE records; --',
    "$.attributes.team",
    "team[0]",
    "*",
    "team';x",
    "?",
    ":tenant",
    "%s",
    "\u2028",
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("declared", [False, True])
def test_names_and_values_say_nothing_to_sqlite(name: str, declared: bool) -> None:
    """A hostile name is the name of an attribute, and of no other one. Proves: API-4, STORE-3."""
    path = name.replace("\\", "\\\\").replace(".", "\\.")
    paths = [path, f"a.{path}"] if declared else None
    with MemoryStore.in_memory(embedder=WordHashEmbedder(), indexed_attributes=paths) as store:
        records = [fact(1, team="red"), fact(2, **{name: name}), fact(3, a={name: 1})]
        store.upsert(records, tenant="mine")
        store.upsert(records, tenant="theirs")
        assert ids(store, Filters(attributes={path: {"exists": True}})) == ["f2"]
        assert ids(store, Filters(attributes={path: name})) == ["f2"]
        assert ids(store, Filters(attributes={f"a.{path}": {"gte": 1}})) == ["f3"]
        assert ids(store, Filters(attributes={"team": name})) == []
        assert ids(store, Filters(attributes={"team": {"in": [name, "red"]}})) == ["f1"]
        assert store.count(MINE) == store.count(Scope(tenant="theirs")) == 3


def test_distinct_values_are_those_of_the_path_and_of_nothing_in_a_list() -> None:
    """In one order, each once, with any name, and as they were written. Proves: API-4, HOST-1."""
    odd = "q\"u'o\\te\u2028"
    values: list[Any] = [["a", {"b": 1}], {"b": 2, "a": 1}, {"a": 1, "b": 2}, {"0": "zero"}, 1e23, 1, "1", True, None]
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert([fact(at, v=value, **{odd: value}) for at, value in enumerate(values)], tenant="mine")
        store.upsert([fact(90, v="theirs"), fact(91)], tenant="theirs")
        for path in ("v", odd.replace("\\", "\\\\")):
            found = [json.dumps(value, sort_keys=True) for value in store.distinct_attribute(path, MINE)]
            assert found == sorted({json.dumps(value, sort_keys=True) for value in values})
            assert store.distinct_attribute(f"{path}.0", MINE) == ["zero"]
            assert store.distinct_attribute(f"{path}.1", MINE) == []
            assert store.distinct_attribute(f"{path}.b", MINE) == [2]


@pytest.mark.folder
def test_damage_in_a_body_does_not_keep_a_store_from_opening(folder: Path) -> None:
    """Proves: API-4, STORE-4."""
    with sqlite3.connect(folder / SIDECAR_FILE) as connection:
        connection.execute("UPDATE bodies SET record = 'no record' WHERE rowid = 2")
    connection.close()
    with opened(folder, indexed_attributes=["team"]) as store:
        assert store.count(MINE, RED) == 20


def test_erased_records_leave_nothing_in_the_index(folder: Path) -> None:
    """Proves: API-4, STORE-6."""
    with opened(folder, indexed_attributes=["team"]) as store:
        store.erase(MINE)
        assert store._session.database.fetch("SELECT DISTINCT tenant FROM attribute_values") == [("theirs",)]
        store.erase(Scope(tenant="theirs"))
        assert store._session.database.fetch("SELECT count(*) FROM attribute_values") == [(0,)]


SAID = {
    "moved": "I moved to Bergen. Where do I register?",
    "asked": "Where does the ferry leave?",
    "thanks": "Thanks!",
    "unknown": "I don't know.",
}


def test_records_are_filtered_by_what_their_sentences_do() -> None:
    """Any of the acts, of any sentence; past runs have none. Proves: LIVE-1, SEARCH-3."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert({"id": name, "kind": "message", "text": text} for name, text in SAID.items())
        store.upsert([{"id": "run", "kind": "trajectory", "text": "It worked. Did it?"}])

        def kept(*acts: str) -> set[str]:
            filters = Filters(speech_acts=acts)
            params = SearchParams(filters=filters, content_types=("message", "trajectory"))
            found = {record.id for record in store.scan(Scope(), filters)}
            assert {hit.record.id for hit in search(store, "ferry", params=params).hits} == found
            return found

        assert kept("statement") == {"moved"}
        assert kept("question") == {"moved", "asked"}
        assert kept("acknowledgement", "non_answer") == {"thanks", "unknown"}
        assert kept("request") == set()
