"""Stores that move between a folder and PostgreSQL: the same afterwards, whatever cut the move off (HOST-4)."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from recall_loop.cli.main import main
from recall_loop.memory.intake.files.record_lines import export_lines
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.moving import copied_tables
from recall_loop.memory.store.moving.move_store import move_store
from recall_loop.memory.store.postgres.postgres_address import PostgresAddress
from recall_loop.memory.store.recovery.verify import verify_place
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import (
    EmbedderMismatchError,
    InvalidInputError,
    StoreLockedError,
    StoreUnavailableError,
)
from recall_loop.state.scope import Scope
from tests.chroma_server import ChromaProcess
from tests.embedders import WordHashEmbedder
from tests.integration.hosting.conftest import PASSWORD
from tests.processes.forked_process import ForkedProcess

TENANTS = ("acme", "isle")
ASKED = ("Where does Ada live?", "Who moored the boat?", "lighthouse", "What is the tide like at the pier?")


def fill(store: MemoryStore) -> None:
    """Write records of each kind, long ones and odd ones, and change, supersede, erase and expire some."""
    for tenant in TENANTS:
        facts: list[dict[str, Any]] = [
            {"id": f"f{n}", "kind": "fact", "text": f"The boat {n} of {tenant} is moored at berth {n * 3}."}
            for n in range(12)
        ]
        facts += [
            {"id": "home1", "kind": "fact", "text": "Ada lives in Oslo.", "subject": "Ada", "fact_type": "home"}
            | {"object": "Oslo", "user_id": "ada"},
            {
                "id": "nul",
                "kind": "fact",
                "text": "A lighthouse, 灯台 and \U0001f4da.",
                "attributes": {"s": "a\\u0000b"},
            },
            {"id": "tagged", "kind": "fact", "text": "Bread on Sundays.", "tags": ["a", "b"], "attributes": {"n": 7}},
            {"id": "long", "kind": "archival", "text": "The tide at the pier is high in spring. " * 150},
            {"id": "soon", "kind": "fact", "text": "Gone in a while.", "expires_at": "2090-01-01T00:00:00Z"},
        ]
        talk = [
            {"id": f"m{n}", "kind": "message", "text": f"Line {n} about the pier.", "conversation_id": "c1"}
            | {"position": n, "agent_id": f"a{n % 2}", "group_id": "g"}
            for n in range(9)
        ]
        store.upsert([*facts, *talk], tenant=tenant)
        store.update("f3", {"text": "The boat 3 sank in a storm."}, tenant=tenant, actor="ada")
        store.update("f3", {"tags": ["sunk"]}, tenant=tenant)
        store.update("home1", {"text": "Ada lives in Bergen.", "object": "Bergen"}, tenant=tenant)
        store.delete(["f11", "m8"], tenant=tenant)


def shown(place: str | Path, embedder: Any) -> dict[str, Any]:
    """Return what a caller sees of a store: exports, histories and answers."""
    with MemoryStore.open(place, embedder=embedder, read_only=True, create=False) as store:
        found: dict[str, Any] = {}
        for tenant in TENANTS:
            scope = Scope(tenant=tenant)
            lines = list(export_lines(store, scope))
            ids = [json.loads(line)["id"] for line in lines]
            answers = [
                [(hit.record.id, round(hit.score, 6)) for hit in search(store, query, scope=scope).hits]
                for query in ASKED
            ]
            histories = {name: [v.model_dump(mode="json") for v in store.history(name, tenant=tenant)] for name in ids}
            found[tenant] = (lines, answers, histories, store.count(scope))
        return found


@pytest.fixture
def folder(tmp_path: Path, embedder: MiniLmEmbedder) -> Path:
    path = tmp_path / "store"
    with MemoryStore.open(path, embedder=embedder, indexed_attributes=["n"]) as store:
        fill(store)
        store.maintenance.set_note("ingest-x", "7")
    return path


def snapshot_of(folder: Path) -> list[tuple[str, int, bytes]]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != "writer.lock")
    return [(file.name, file.stat().st_size, file.read_bytes()) for file in files if not file.name.endswith("-shm")]


def test_there_and_back_is_the_same_store(folder: Path, address: str, tmp_path: Path, embedder: MiniLmEmbedder) -> None:
    """Proves: HOST-4, HOST-1 (exports, histories, answers and checks; the source is left as it is)."""
    before, files, back = shown(folder, embedder), snapshot_of(folder), tmp_path / "back"
    there = move_store(folder, address, embedder=embedder)
    assert there.records == before["acme"][3] + before["isle"][3]
    assert snapshot_of(folder) == files
    assert shown(address, embedder) == before
    assert verify_place(address).findings == ()
    once_more = move_store(folder, address, embedder=embedder)  # changes nothing
    assert (once_more.tables, once_more.resumed, once_more.done_before) == (there.tables, False, True)
    assert not there.done_before
    again = move_store(address, back, embedder=embedder)
    assert again.tables == there.tables
    assert shown(back, embedder) == before
    assert verify_place(back).findings == ()
    for place in (address, back):  # numbers go on behind the highest, and what was erased stays erased
        with MemoryStore.open(place, embedder=embedder) as store:
            assert store.maintenance.note("ingest-x") == "7"
            store.upsert([{"id": "new", "kind": "fact", "text": "A new boat."}], tenant="acme")
            assert {one.action for one in store.history("f3", tenant="acme")} == {"updated"}
            assert len(store.get(["new", "f11"], scope=Scope(tenant="acme"))) == 1
        assert verify_place(place).findings == ()
        with pytest.raises(InvalidInputError, match="target"):  # it is a store of its own now
            move_store(folder if place is address else address, place, embedder=embedder)
    with MemoryStore.open(folder, embedder=embedder) as one, MemoryStore.open(back, embedder=embedder) as two:
        assert one.generation != two.generation
        assert one.maintenance.info()["store"] != two.maintenance.info()["store"]


def columns_of_postgres(address: str, table: str) -> set[str]:
    found = PostgresAddress.parse(address)
    query = """SELECT column_name FROM information_schema.columns
        WHERE table_schema = %s AND table_name = %s AND is_generated = 'NEVER'"""
    with psycopg.connect(found.url) as connection:
        return {name for (name,) in connection.execute(query, (found.schema, table))}


def test_every_column_is_moved(folder: Path, address: str, embedder: MiniLmEmbedder) -> None:
    """Proves: HOST-4 (a new column or table of either backend has to be named in `copied_tables`, or here)."""
    MemoryStore.open(address, embedder=embedder).close()
    waiting = {"state", "revision", "claimed_until", "claimed_by"}
    own = {"records": waiting, "tombstones": waiting, "fts": {"rowid", "tenant"}}
    own |= {name: {"tenant"} for name in ("bodies", "vectors", "tokens", "pieces", "record_tags", "recalls")}
    with closing(sqlite3.connect(folder / "sidecar.sqlite3")) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        named = {table.name: set(table.columns) for table in copied_tables.TABLES}
        local = {"meta", "attribute_values", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4"}
        assert {name for name in tables - local if not name.startswith("fts_")} == named.keys()
        for name, columns in named.items():
            ours = {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
            assert columns - own.get(name, set()) == ours - own.get(name, set()), name
            assert columns - own.get(name, set()) == columns_of_postgres(address, name) - own.get(name, set()), name


class Cut(Exception):
    """Cuts a move off."""


def cut_after(pages: int) -> Callable[[str, int], None]:
    left = [pages]

    def count(_: str, __: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise Cut

    return count


def test_a_move_that_is_cut_off_goes_on(
    folder: Path, address: str, tmp_path: Path, embedder: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: HOST-4 (after any page; until it ends the target is no store)."""
    monkeypatch.setattr(copied_tables, "PAGE", 7)
    before, place = shown(folder, embedder), tmp_path / "back"
    for source, target in ((folder, address), (address, place)):
        cuts = 0
        while True:
            try:
                report = move_store(source, target, embedder=embedder, progress=cut_after(6))
            except Cut:
                cuts += 1
                with pytest.raises(StoreUnavailableError):
                    MemoryStore.open(target, embedder=embedder, create=False)
            else:
                break
        assert cuts > 3
        assert report.resumed
        assert shown(target, embedder) == before
        assert verify_place(target).findings == ()


def test_a_source_that_changed_meanwhile_is_moved_as_it_is_now(
    folder: Path, address: str, embedder: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: HOST-4."""
    monkeypatch.setattr(copied_tables, "PAGE", 7)
    with pytest.raises(Cut):
        move_store(folder, address, embedder=embedder, progress=cut_after(12))
    with MemoryStore.open(folder, embedder=embedder) as store:
        store.delete(["f0"], tenant="acme")
        store.update("f1", {"text": "The boat 1 burnt."}, tenant="isle")
    assert not move_store(folder, address, embedder=embedder).resumed
    assert shown(address, embedder) == shown(folder, embedder)


def test_a_difference_is_reported_and_repaired_by_moving_again(
    folder: Path, address: str, embedder: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: HOST-4 (counts and checksums; here the target's rows are changed behind the move's back)."""
    monkeypatch.setattr(copied_tables, "PAGE", 7)
    with pytest.raises(Cut):
        move_store(folder, address, embedder=embedder, progress=cut_after(12))
    found = PostgresAddress.parse(address)
    with psycopg.connect(found.url, autocommit=True) as connection:
        connection.execute(f"UPDATE {found.schema}.bodies SET terms = 'x' WHERE rowid = 2".encode())
    with pytest.raises(StoreUnavailableError, match="bodies differs"):
        move_store(folder, address, embedder=embedder)
    with pytest.raises(StoreUnavailableError, match="store move"):
        MemoryStore.open(address, embedder=embedder)
    assert not move_store(folder, address, embedder=embedder).resumed
    assert shown(address, embedder) == shown(folder, embedder)


def test_the_source_is_locked_during_a_move(
    folder: Path, address: str, tmp_path: Path, embedder: MiniLmEmbedder
) -> None:
    """Proves: HOST-4."""
    refused: list[type[Exception]] = []

    def write_to_folder(_: str, __: int) -> None:
        try:
            MemoryStore.open(folder, embedder=embedder).close()
        except StoreLockedError as error:
            refused.append(type(error))

    move_store(folder, address, embedder=embedder, progress=write_to_folder)
    assert refused

    def write_to_address(_: str, __: int) -> None:
        found = PostgresAddress.parse(address)
        from recall_loop.memory.store.postgres.postgres_connection import lock_key

        with psycopg.connect(found.url) as connection:
            key = lock_key(found.schema)
            got = connection.execute("SELECT pg_try_advisory_lock_shared(%s, %s)", key).fetchone()
            assert got == (False,)

    move_store(address, tmp_path / "back", embedder=embedder, progress=write_to_address)


def test_moves_that_are_rejected(folder: Path, address: str, tmp_path: Path, embedder: MiniLmEmbedder) -> None:
    """Proves: HOST-4 (typed errors; nothing is changed)."""
    other = tmp_path / "other"
    with MemoryStore.open(other, embedder=embedder) as store:
        store.upsert([{"id": "x", "kind": "fact", "text": "Something else."}])
    with pytest.raises(InvalidInputError, match="target"):
        move_store(folder, other, embedder=embedder)
    MemoryStore.open(address, embedder=embedder).close()
    with pytest.raises(InvalidInputError, match=r"target.*\*\*\*@"):
        move_store(folder, address, embedder=embedder)
    with pytest.raises(InvalidInputError, match="target"):
        move_store(address, folder, embedder=embedder)
    with pytest.raises(StoreUnavailableError, match="no store"):
        move_store(tmp_path / "none", tmp_path / "new", embedder=embedder)
    with pytest.raises(EmbedderMismatchError):
        move_store(folder, tmp_path / "new", embedder=WordHashEmbedder())
    assert not (tmp_path / "new" / "sidecar.sqlite3").exists()


def test_an_unreachable_chroma_server_is_reported_before_anything_is_copied(
    folder: Path, tmp_path: Path, embedder: MiniLmEmbedder
) -> None:
    """Proves: HOST-4."""
    with pytest.raises(StoreUnavailableError, match=r"the Chroma server doesn't answer; nothing was copied"):
        move_store(folder, tmp_path / "new", embedder=embedder, url="http://127.0.0.1:9")
    assert not (tmp_path / "new").exists()


def test_a_store_is_not_moved_to_itself(folder: Path, address: str, embedder: MiniLmEmbedder) -> None:
    """Nor is its own lock waited for, by whatever name it is called. Proves: HOST-4."""
    MemoryStore.open(address, embedder=embedder).close()
    began = time.monotonic()
    for source, target in (
        (address, f"{address}&application_name=other"),
        (folder, folder.parent / "x" / ".." / "store"),
    ):
        with pytest.raises(InvalidInputError, match="target"):
            move_store(source, target, embedder=embedder)
    assert time.monotonic() - began < 30


def test_a_partly_moved_store_is_not_a_valid_target(
    folder: Path, address: str, tmp_path: Path, embedder: MiniLmEmbedder
) -> None:
    """Proves: HOST-4."""
    with pytest.raises(Cut):
        move_store(folder, address, embedder=embedder, progress=cut_after(1))
    other = tmp_path / "other"
    MemoryStore.open(other, embedder=embedder).close()
    with pytest.raises(InvalidInputError, match="another store"):
        move_store(other, address, embedder=embedder)
    assert move_store(folder, address, embedder=embedder).resumed


@pytest.mark.slow
def test_vectors_go_to_a_chroma_server(folder: Path, address: str, tmp_path: Path, embedder: MiniLmEmbedder) -> None:
    """Proves: HOST-4."""
    before, chroma = shown(folder, embedder), ChromaProcess(tmp_path / "chroma")
    chroma.start()
    try:
        move_store(folder, address, embedder=embedder, url=chroma.url)
        report = verify_place(address)
        assert (report.findings, report.chroma_rows) == ((), report.records)
        assert move_store(folder, address, embedder=embedder, url=chroma.url).done_before
        assert verify_place(address).findings == ()
        move_store(address, tmp_path / "back", embedder=embedder, url=chroma.url)
        report = verify_place(tmp_path / "back")
        assert (report.findings, report.chroma_rows) == ((), report.records)
        assert verify_place(address).findings == ()  # neither touches the other's collection
        assert shown(tmp_path / "back", embedder) == before
    finally:
        chroma.kill()


_SLOWLY = """
import sys, time
from recall_loop.memory.store.moving import copied_tables
from recall_loop.cli.main import main
copied_tables.PAGE = 7
insert = copied_tables.CopiedTable.insert
def slowly(self, connection, rows):
    time.sleep(0.02)
    insert(self, connection, rows)
    time.sleep(0.02)
copied_tables.CopiedTable.insert = slowly
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_move_that_is_killed_goes_on(
    folder: Path, address: str, tmp_path: Path, embedder: MiniLmEmbedder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: HOST-4 (kill -9 at moments of chance, in both directions)."""
    before, chance, back = shown(folder, embedder), random.Random(7), tmp_path / "back"
    for source, target in ((str(folder), address), (address, str(back))):
        words = ["store", "move", "--store", source, "--to", target]
        for _ in range(4):
            with ForkedProcess(_SLOWLY, *words) as child:
                end = time.monotonic() + 0.5 + chance.random() * 2
                while child.poll() is None and time.monotonic() < end:
                    time.sleep(0.02)
                child.send_signal(signal.SIGKILL)
        assert main(words) == 0
        said = capsys.readouterr()
        assert main(words) == 0 and "in an earlier run of this move" in capsys.readouterr().out
        assert "Moved 48 records" in said.out
        assert PASSWORD not in said.out + said.err
        assert shown(target, embedder) == before
        assert main(["store", "verify", "--store", target]) == 0
