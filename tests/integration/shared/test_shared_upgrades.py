"""Tables in PostgreSQL that an earlier or a later version of the program has made (HOST-2, STORE-4)."""

from __future__ import annotations

import json
import time

import psycopg
import pytest

from recall_loop.memory.store.moving.move_store import move_store
from recall_loop.memory.store.postgres.postgres_store import PostgresDatabase
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables.database import SCHEMA_VERSION
from recall_loop.memory.store.tables.upgrades import NewerSchemaError
from recall_loop.state.errors import StoreUnavailableError
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder

EARLIER = SCHEMA_VERSION - 1
# An earlier schema, in which records had no checksums and nobody looked for slots.
TAKE_BACK = f"""DROP INDEX records_slot; ALTER TABLE records DROP COLUMN checksum;
UPDATE meta SET value = '{EARLIER}' WHERE key = 'schema'"""
UPGRADE = """
import json
from recall_loop.memory.store.encoding.indexing import body_checksum
def add_checksums(connection):
    connection.execute("ALTER TABLE records ADD COLUMN checksum bigint")
    rows = connection.execute("SELECT rowid, record FROM bodies").fetchall()
    sums = [(body_checksum(body), rowid) for rowid, body in rows]
    connection.executemany("UPDATE records SET checksum = ? WHERE rowid = ?", sums)
    connection.execute("CREATE INDEX records_slot ON records (tenant, slot) WHERE slot IS NOT NULL")
"""
OPENER = f"""{UPGRADE}
import time
from recall_loop.memory.store.postgres.postgres_store import PostgresDatabase
from recall_loop.memory.store.store import MemoryStore
from tests.embedders import WordHashEmbedder
ran = []
def slowly(connection):
    ran.append(1)
    add_checksums(connection)
    time.sleep(1)
PostgresDatabase.upgrades = {{{EARLIER}: slowly}}
print("ready", flush=True)
sys.stdin.readline()
with MemoryStore.open(sys.argv[1], embedder=WordHashEmbedder()) as store:
    store.upsert([{{"id": sys.argv[2], "text": "another boat"}}])
    print(json.dumps([len(ran), store.maintenance.verify().findings]))
"""


def opened(place: str, **options: object) -> MemoryStore:
    return MemoryStore.open(place, embedder=WordHashEmbedder(), **options)  # type: ignore[arg-type]


def run(postgres, address: str, statements: str) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {address.rpartition('schema=')[2]}".encode())
        connection.execute("SET recall_loop.tenant = '*'")
        connection.execute(statements.encode())


@pytest.fixture
def earlier(postgres, address) -> str:
    """The address of a store of an earlier schema."""
    with opened(address) as store:
        store.upsert([{"id": f"r{at}", "text": f"the boat number {at}"} for at in range(9)])
    run(postgres, address, TAKE_BACK)
    return address


@pytest.fixture
def upgrade(monkeypatch):
    """Have the step that leads from there, as a later release would."""
    known: dict[str, object] = {}
    exec(UPGRADE, known)
    monkeypatch.setattr(PostgresDatabase, "upgrades", {EARLIER: known["add_checksums"]})
    return known


def test_a_store_is_upgraded_when_it_is_opened_for_writing(earlier, upgrade, tmp_path):
    """Proves: STORE-4, HOST-2."""
    with pytest.raises(StoreUnavailableError, match=f"schema {EARLIER}; open it once for writing to upgrade it"):
        opened(earlier, read_only=True)
    with pytest.raises(StoreUnavailableError, match="repaired or upgraded first"):
        move_store(earlier, tmp_path / "target", embedder=WordHashEmbedder())
    assert MemoryStore.exists(earlier)
    with opened(earlier) as store:
        assert store.maintenance.info()["schema"] == SCHEMA_VERSION
        assert store.maintenance.verify().findings == () and store.count(Scope()) == 9
    with opened(earlier, read_only=True) as reader:
        assert reader.count(Scope()) == 9


def test_a_store_of_schema_6_counts_recalls_from_then_on(postgres, address):
    """Proves: STORE-4, PAGE-1, HOST-5."""
    with opened(address) as store:
        store.upsert([{"id": "a", "text": "the boat"}])
    undone = "DROP TABLE recalls; DELETE FROM meta WHERE key = 'recalls_since';"
    run(postgres, address, f"{undone} UPDATE meta SET value = '6' WHERE key = 'schema'")
    with opened(address) as store, opened(address) as other:
        store.count_recalls(["a"])
        other.count_recalls(["a"])
    with opened(address) as store:
        assert store.recalls("a", scope=Scope()).times == 2
        assert store._session.database.fetch("SELECT tenant, times FROM recalls") == [("default", 2)]
        store.erase(Scope())
        assert store._session.database.fetch("SELECT count(*) FROM recalls") == [(0,)]
        assert store.maintenance.verify().findings == ()


def test_of_two_processes_that_open_at_once_one_upgrades(earlier, run_script):
    """Proves: HOST-2 (processes that open and upgrade a store at the same time are safe)."""
    running = [run_script(OPENER, earlier, name) for name in ("x", "y")]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    found = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    assert sorted(ran for ran, _ in found) == [0, 1] and [findings for _, findings in found] == [[], []]
    with opened(earlier) as store:
        assert store.count(Scope()) == 11


def test_an_upgrade_that_fails_changes_nothing(earlier, upgrade, monkeypatch):
    """Proves: STORE-4."""

    def half(connection):
        upgrade["add_checksums"](connection)
        connection.execute("SELECT nothing FROM nowhere")

    monkeypatch.setattr(PostgresDatabase, "upgrades", {EARLIER: half})
    with pytest.raises(StoreUnavailableError, match="nowhere"):
        opened(earlier)
    monkeypatch.setattr(PostgresDatabase, "upgrades", {EARLIER: upgrade["add_checksums"]})
    with opened(earlier) as store:
        assert store.maintenance.verify().findings == () and store.count(Scope()) == 9


def test_a_store_of_a_later_version_is_refused(postgres, address, tmp_path):
    """By writers, readers and moves alike, and nothing of it is changed. Proves: STORE-4, HOST-2."""
    with opened(address) as store:
        store.upsert([{"id": "a", "text": "the boat"}])
    later = SCHEMA_VERSION + 1
    run(postgres, address, f"UPDATE meta SET value = '{later}' WHERE key = 'schema'")
    for how in ({}, {"read_only": True}, {"re_embed": True}):
        with pytest.raises(NewerSchemaError, match=f"schema {later}; .*use the later version"):
            opened(address, **how)
    with pytest.raises(NewerSchemaError, match=f"schema {later}"):
        move_store(address, tmp_path / "target", embedder=WordHashEmbedder())
    run(postgres, address, f"UPDATE meta SET value = '{SCHEMA_VERSION}' WHERE key = 'schema'")
    with opened(address) as store:
        assert store.count(Scope()) == 1


def test_a_process_notices_that_a_later_version_upgrades_the_tables(postgres, address):
    """It neither reads nor writes them from then on. Proves: HOST-2."""
    with opened(address) as writer, opened(address, read_only=True) as reader:
        writer.upsert([{"id": "a", "text": "the boat"}])
        assert reader.count(Scope()) == 1
        later = SCHEMA_VERSION + 1
        run(postgres, address, f"UPDATE meta SET value = '{later}' WHERE key = 'schema'")
        with pytest.raises(NewerSchemaError, match=f"schema {later}"):
            writer.upsert([{"id": "b", "text": "another boat"}])
        time.sleep(0.1)
        for store in (writer, reader):
            with pytest.raises(NewerSchemaError, match=f"schema {later}"):
                store.count(Scope())
        run(postgres, address, f"UPDATE meta SET value = '{SCHEMA_VERSION}' WHERE key = 'schema'")
        time.sleep(0.1)
        assert reader.count(Scope()) == 1


def test_a_reader_of_a_folder_notices_that_a_later_version_upgrades_it(tmp_path):
    """Proves: STORE-4."""
    with opened(str(tmp_path)) as writer, opened(str(tmp_path), read_only=True) as reader:
        assert reader.count(Scope()) == 0
        writer._session.database.set_meta({"schema": str(SCHEMA_VERSION + 1)})
        with pytest.raises(NewerSchemaError, match="use the later version"):
            reader.count(Scope())


def test_a_folder_of_a_later_version_is_refused(tmp_path):
    """Proves: STORE-4."""
    with opened(str(tmp_path)) as store:
        store._session.database.set_meta({"schema": str(SCHEMA_VERSION + 1)})
    for read_only in (False, True):
        with pytest.raises(NewerSchemaError, match="use the later version"):
            opened(str(tmp_path), read_only=read_only)
