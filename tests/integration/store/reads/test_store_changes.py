"""What changed since a version: an index in memory that follows it equals a fresh read; schema 1 is upgraded."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.chroma.chroma_index import ChromaIndex
from recall_loop.memory.store.encoding.indexing import acts_mask
from recall_loop.memory.store.files.store_files import SIDECAR_FILE
from recall_loop.memory.store.recovery.verify import verify_folder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables import changes as changing
from recall_loop.memory.store.tables.changes import read_changes
from recall_loop.memory.store.tables.database import SCHEMA_VERSION
from recall_loop.state.errors import EmbedderMismatchError, StoreUnavailableError
from recall_loop.state.scope import DEFAULT_TENANT, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashEmbedder
from tests.lexical_rows import window_stems

TENANTS = ("a", "b")


def turn(record_id, text, **more):
    return {"id": record_id, "kind": "message", "text": text, "conversation_id": "c", "session": "s"} | more


def read(store, tenant, rowids=None):
    """Everything that a view shows of a tenant's rows, by rowid."""
    view = store.view(Scope(tenant=tenant))
    living = view.rowids()
    wanted = living if rowids is None else np.intersect1d(living, rowids)
    own, context = view.vectors(wanted)
    rows, stems = view.rows(wanted), window_stems(store)
    return {
        int(rowid): (row.record, row.window, stems[rowid], own[n].tobytes(), context[n].tobytes())
        for n, (rowid, row) in enumerate((rowid, rows[rowid]) for rowid in wanted)
    }


class Follower:
    """A copy of a tenant's rows that reads nothing but what changed."""

    def __init__(self, tenant):
        self.tenant, self.version, self.rows = tenant, 0, {}

    def follow(self, store):
        found = read_changes(store._session.database, self.tenant, self.version)
        assert found is not None and np.all(np.diff(found.rowids) > 0)
        for rowid in found.rowids.tolist():
            self.rows.pop(rowid, None)
        self.rows |= read(store, self.tenant, found.rowids)
        self.version = found.version
        return found


writes = st.tuples(
    st.just("upsert"),
    st.sampled_from(TENANTS),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3), st.sampled_from("st"), st.integers(0, 9)), max_size=4),
)
deletes = st.tuples(
    st.just("delete"), st.sampled_from(TENANTS), st.lists(st.tuples(st.integers(0, 7)), min_size=1, max_size=3)
)


def perform(store, verb, tenant, items):
    if verb == "delete":
        store.delete([f"m{number}" for (number,) in items], tenant=tenant)
    else:
        made = [turn(f"m{n}", f"word{text} common", session=session, position=at) for n, text, session, at in items]
        store.upsert(made, tenant=tenant)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.one_of(writes, deletes), st.booleans()), max_size=12))
def test_following_changes_always_equals_a_fresh_read(steps):
    """Proves: STORE-2, STORE-3, STORE-7."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        followers = [Follower(tenant) for tenant in TENANTS]
        for (verb, tenant, items), look in steps:
            perform(store, verb, tenant, items)
            if look:
                for follower in followers:
                    follower.follow(store)
                    assert follower.rows == read(store, follower.tenant)
        for follower in followers:
            follower.follow(store)
            assert follower.rows == read(store, follower.tenant)
            assert follower.follow(store).rowids.size == 0


def test_changes_name_the_row_its_neighbours_and_what_was_deleted(store):
    """Proves: STORE-3, STORE-7."""
    store.upsert([turn(f"m{n}", f"text {n}", position=n) for n in range(6)])
    assert read_changes(store._session.database, DEFAULT_TENANT, 0).rowids.tolist() == [1, 2, 3, 4, 5, 6]
    store.upsert([turn("m1", "text 1", position=1)])
    assert read_changes(store._session.database, DEFAULT_TENANT, 1).rowids.tolist() == []
    store.upsert([turn("m1", "other", position=1)])
    assert read_changes(store._session.database, DEFAULT_TENANT, 1).rowids.tolist() == [1, 2, 3]
    store.delete(["m4"])
    found = read_changes(store._session.database, DEFAULT_TENANT, 2)
    assert (found.version, found.rowids.tolist()) == (3, [4, 5, 6])
    store.upsert([turn("x", "elsewhere")], tenant="other")
    assert read_changes(store._session.database, DEFAULT_TENANT, 3).rowids.size == 0
    assert read_changes(store._session.database, "nobody", 0).version == 0
    assert read_changes(store._session.database, DEFAULT_TENANT, 4) is None


def test_forgotten_deletions_are_no_answer(store, monkeypatch):
    """Proves: STORE-6."""
    monkeypatch.setattr(changing, "KEPT_DELETIONS", 3)
    store.upsert([turn(f"m{n}", f"text {n}", session=f"s{n}") for n in range(6)])
    store.upsert([turn("m", "one")], tenant="other")
    for n in range(5):
        store.delete([f"m{n}"])
    sqlite = store._session.database
    assert [read_changes(sqlite, DEFAULT_TENANT, since) is None for since in range(7)] == [True] * 3 + [False] * 4
    assert read_changes(sqlite, DEFAULT_TENANT, 3).rowids.tolist() == [3, 4, 5]
    assert read_changes(store._session.database, "other", 0).rowids.tolist() == [7]


def test_embedding_anew_changes_every_row(tmp_path):
    """Proves: STORE-5."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert([turn(f"m{n}", f"text {n}") for n in range(3)])
        store.upsert([turn("m", "one")], tenant="other")
        store.maintenance.rebuild(embedder=WordHashEmbedder())
        assert read_changes(store._session.database, DEFAULT_TENANT, 1).rowids.tolist() == [1, 2, 3]
        assert read_changes(store._session.database, "other", 1).rowids.tolist() == [4]


# The trigger goes first: SQLite checks it against the tables at every step.
_OF_6 = ("DROP TRIGGER leaves", "DROP TABLE recalls", "DELETE FROM meta WHERE key = 'recalls_since'")
_OF_5 = (
    *_OF_6,
    "ALTER TABLE records DROP COLUMN commit_number",
    "ALTER TABLE records DROP COLUMN checksum",
    "DROP TABLE tombstones",
    "CREATE TABLE tombstones (key TEXT PRIMARY KEY) WITHOUT ROWID",
    "DELETE FROM meta WHERE key IN ('commit_number', 'store')",
)
_OF_4 = (
    *_OF_5,
    "DROP TABLE versions",
    "DROP INDEX records_expiry",
    *(f"ALTER TABLE records DROP COLUMN {name}" for name in ("expires_at", "acts")),
)
_OF_3 = (
    *_OF_4,
    "DROP INDEX records_slot",
    "DROP INDEX records_superseded",
    *(f"ALTER TABLE records DROP COLUMN {name}" for name in ("valid_until", "superseded_by", "slot")),
)


_OLD_TRIGGER = """CREATE TRIGGER leaves AFTER DELETE ON records BEGIN
  UPDATE memberships SET records = records - 1
    WHERE tenant = old.tenant AND agent_id = old.agent_id AND group_id = old.group_id;
  DELETE FROM bodies WHERE rowid = old.rowid;
  DELETE FROM vectors WHERE rowid = old.rowid;
  DELETE FROM tokens WHERE rowid = old.rowid;
  DELETE FROM record_tags WHERE record = old.rowid;
  DELETE FROM fts WHERE rowid = old.rowid;
END"""


def to_schema(folder, number):
    """Make the sidecar one of schema 2 or 3."""
    with sqlite3.connect(folder / "sidecar.sqlite3") as connection:
        undone = _OF_3 if number == 2 else _OF_4
        for statement in (*undone, _OLD_TRIGGER, f"UPDATE meta SET value = '{number}' WHERE key = 'schema'"):
            connection.execute(statement)
    connection.close()
    mark_chroma(folder, number)


def mark_chroma(folder, number):
    """Make Chroma's side one of an earlier schema, which knew no store's id and no numbers of commits."""
    side = ChromaIndex(folder / "chroma", {})
    marker = {name: value for name, value in side.stored_marker().items() if name != "store"}
    side.mark_complete({**marker, "schema": str(number)})
    side.close()
    with sqlite3.connect(folder / "chroma" / "chroma.sqlite3") as connection:
        connection.execute("DELETE FROM embedding_metadata WHERE key = 'commit'")
    connection.close()


def downgrade(folder):
    """Make the sidecar one of schema 1."""
    with sqlite3.connect(folder / "sidecar.sqlite3") as connection:
        for statement in (
            *_OF_3,
            "DROP INDEX records_changed",
            "ALTER TABLE records DROP COLUMN changed",
            "ALTER TABLE tenants DROP COLUMN horizon",
            "DROP TABLE deleted",
            _OLD_TRIGGER,
            "UPDATE meta SET value = '1' WHERE key = 'schema'",
        ):
            connection.execute(statement)
    connection.close()
    mark_chroma(folder, 1)


@pytest.mark.folder
@pytest.mark.parametrize("lost", [False, True])
def test_a_store_of_schema_1_is_upgraded_when_it_is_opened_for_writing(tmp_path, lost):
    """Proves: STORE-4, STORE-5."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert([turn(f"m{n}", f"text {n}") for n in range(3)])
        before = read(store, DEFAULT_TENANT)
        with store._session.connection.searching() as side:
            collection = side.collection.id
    downgrade(tmp_path)
    with pytest.raises(StoreUnavailableError, match="schema 1; open it once for writing"):
        MemoryStore.open(tmp_path, embedder=WordHashEmbedder(), read_only=True)
    if lost:
        (tmp_path / "sidecar.sqlite3").unlink()
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        assert store.maintenance.info()["schema"] == SCHEMA_VERSION and store.degraded_reason is None
        assert read(store, DEFAULT_TENANT) == before
        with store._session.connection.searching() as side:
            assert side.marker()["schema"] == str(SCHEMA_VERSION) and side.collection.id == collection
        assert (read_changes(store._session.database, DEFAULT_TENANT, 0) is None) != lost
        store.delete(["m0"])
        found = read_changes(store._session.database, DEFAULT_TENANT, 1)
        assert (found.version, found.rowids.tolist()) == (2, [1, 2])
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder(), read_only=True) as reader:
        assert reader.view(Scope()).nearest(np.ones((1, 32)), 5) and reader.degraded_reason is None


@pytest.mark.folder
def test_a_store_of_schema_6_counts_recalls_from_then_on(tmp_path):
    """Proves: STORE-4, PAGE-1."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert([turn("m1", "one")])
    with sqlite3.connect(tmp_path / "sidecar.sqlite3") as connection:
        for statement in (*_OF_6, _OLD_TRIGGER):
            connection.execute(statement)
        connection.execute("UPDATE meta SET value = '6' WHERE key = 'schema'")
    connection.close()
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.count_recalls(["m1"])
        assert store.recalls("m1", scope=Scope()).times == 1
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        assert store.recalls("m1", scope=Scope()).times == 1
        store.delete(["m1"])
        assert store.maintenance.verify().findings == ()


class _OtherEmbedder(WordHashEmbedder):
    fingerprint = "word-hashes:2"


@pytest.mark.folder
@pytest.mark.parametrize("read_only", [False, True])
def test_who_has_another_embedder_upgrades_nothing_and_leaves_the_way_back(tmp_path, read_only):
    """Tables that were upgraded first would be refused by the old version, and by this one too. Proves: STORE-4."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert([turn("m1", "one")])
    to_schema(tmp_path, 3)
    with pytest.raises(EmbedderMismatchError, match=r"store rebuild .* --re-embed"):
        MemoryStore.open(tmp_path, embedder=_OtherEmbedder(), read_only=read_only)
    (finding,) = verify_folder(tmp_path).findings
    assert finding.endswith(
        "made with schema 3; open it once for writing to upgrade it, as `recall-loop store sweep` does"
    )
    with MemoryStore.open(tmp_path, embedder=_OtherEmbedder(), re_embed=True) as store:
        assert store.maintenance.info()["schema"] == SCHEMA_VERSION and store.maintenance.verify().sound


@pytest.mark.folder
@pytest.mark.parametrize("lost", [False, True])
def test_a_store_of_schema_2_is_upgraded_and_its_facts_can_be_superseded(tmp_path, lost):
    """Proves: STORE-4, OPS-5."""
    facts = [
        {"id": "f1", "kind": "fact", "text": "Ann lives in Oslo.", "subject": "Ann", "fact_type": "lives_in"},
        {"id": "f2", "kind": "fact", "text": "Nothing is known of Bo."},
    ]
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert([*facts, turn("m1", "Ann lives in Oslo.")])
        before = read(store, DEFAULT_TENANT)
    to_schema(tmp_path, 2)
    with pytest.raises(StoreUnavailableError, match="schema 2; open it once for writing"):
        MemoryStore.open(tmp_path, embedder=WordHashEmbedder(), read_only=True)
    if lost:
        (tmp_path / "sidecar.sqlite3").unlink()
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        assert store.maintenance.info()["schema"] == SCHEMA_VERSION and store.degraded_reason is None
        assert read(store, DEFAULT_TENANT) == before
        new = {"id": "f3", "text": "Ann lives in Bergen.", "subject": "ann", "fact_type": "Lives in"}
        assert write_facts(store, [new], single_valued=["lives_in"]).superseded == ("f1",)
        assert store.maintenance.verify().sound


@pytest.mark.folder
@pytest.mark.parametrize("lost", [False, True])
def test_a_store_of_schema_3_is_upgraded_and_keeps_versions_from_then_on(tmp_path, lost):
    """Proves: STORE-4, API-3, LIVE-7."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert([turn("m1", "one"), turn("m2", "two")])
        before = read(store, DEFAULT_TENANT)
    to_schema(tmp_path, 3)
    with pytest.raises(StoreUnavailableError, match="schema 3; open it once for writing"):
        MemoryStore.open(tmp_path, embedder=WordHashEmbedder(), read_only=True)
    if lost:
        (tmp_path / "sidecar.sqlite3").unlink()
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        assert store.maintenance.info()["schema"] == SCHEMA_VERSION and store.degraded_reason is None
        assert read(store, DEFAULT_TENANT) == before
        store.upsert([turn("m1", "changed", expires_at="2999-01-01T00:00:00Z")])
        query = "SELECT id, expires_at > 0, acts = ? FROM records ORDER BY id"
        masks = acts_mask({"kind": "message", "text": "changed"})
        assert store._session.database.fetch(query, (masks,)) == [("m1", 1, 1), ("m2", None, 1)]
        assert store._session.database.fetch("SELECT id, number FROM versions") == [("m1", 1)]
        store.delete(["m1"])
        assert store._session.database.fetch("SELECT id, number FROM versions") == []
        assert store.maintenance.verify().sound


def _earlier_words(folder):
    """Bring a store to how an earlier version indexed it, one Chinese character after another."""
    with sqlite3.connect(folder / SIDECAR_FILE) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'words'")
        connection.execute("UPDATE bodies SET terms = '\u6211 \u642c'")
        connection.execute("UPDATE records SET terms = 2")
        connection.execute("DELETE FROM fts")
    connection.close()


@pytest.mark.folder
def test_a_store_with_the_words_of_an_earlier_version_is_indexed_again(tmp_path):
    """Opened for writing it is; opened for reading alone it says that it has to be. Proves: OPEN-4, STORE-4."""
    fts = SearchParams(mode=SearchMode.FTS)
    texts = ["\u6211\u53bb\u5e74\u642c\u5230\u4e86\u5351\u5c14\u6839\u3002", "Wir haben drei Hunde"]
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert([turn(f"m{n}", text, position=n) for n, text in enumerate(texts)])
        made = {n: row[:3] for n, row in read(store, DEFAULT_TENANT).items()}
    _earlier_words(tmp_path)
    with pytest.raises(StoreUnavailableError, match="indexed by an earlier version; open it once for writing"):
        MemoryStore.open(tmp_path, embedder=WordHashEmbedder(), read_only=True)
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        assert {n: row[:3] for n, row in read(store, DEFAULT_TENANT).items()} == made
        assert [hit.record.id for hit in search(store, "\u5351\u5c14\u6839", params=fts).hits][:1] == ["m0"]
        assert [hit.record.id for hit in search(store, "unser Hund", params=fts).hits][:1] == ["m1"]
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder(), read_only=True) as store:
        assert search(store, "\u53bb\u5e74", params=fts).hits
