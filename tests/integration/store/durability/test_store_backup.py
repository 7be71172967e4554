"""Backups of a store in a folder, taken while it is written to (OPS-8)."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recall_loop import retrieve
from recall_loop.cli.main import main
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.files.store_files import WriterLock
from recall_loop.memory.store.moving.move_store import move_store
from recall_loop.memory.store.recovery.verify import verify_folder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, StoreLockedError, StoreUnavailableError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import run_forked, run_forked_command
from tests.service_server import running_service
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.folder, pytest.mark.timeout(300)]


def opened(path: Path, **options: Any) -> MemoryStore:
    return MemoryStore.open(path, embedder=WordHashEmbedder(), **options)


def fact(name: str, text: str = "The ferry leaves at nine.") -> dict[str, Any]:
    return {"id": name, "kind": "fact", "text": text}


@pytest.fixture
def lived(tmp_path: Path) -> Path:
    """A closed store with a version, a recall and a deletion."""
    with opened(tmp_path / "store") as store:
        store.upsert([fact("a"), fact("b", "Quokkas like to swim."), fact("gone")], tenant="acme")
        store.update("a", {"text": "The ferry leaves at ten."}, tenant="acme", actor="ann")
        store.delete(["gone"], tenant="acme")
        retrieve("When does the ferry leave?", store=store, tenant="acme")
    return tmp_path / "store"


def checked(copy: Path) -> None:
    """Check that a backup holds what `lived` has, before and after its first open for writing."""
    assert verify_folder(copy).sound
    for read_only in (True, False):
        with opened(copy, create=False, read_only=read_only) as store:
            acme = Scope(tenant="acme")
            assert {record.id for record in store.get(["a", "b", "gone"], scope=acme)} == {"a", "b"}
            assert [version.actor for version in store.history("a", tenant="acme")] == ["ann"]
            assert store.recalls("a", scope=acme).times == 1
            assert store.maintenance._session.database.fetch("SELECT count(*) FROM tombstones") == [(1,)]
    report = verify_folder(copy)
    assert report.sound and report.notes == () and report.records == report.chroma_rows


def goes_on(acknowledged: list[str]) -> None:
    """Wait until one more write is acknowledged."""
    last = len(acknowledged)
    wait_until(lambda: len(acknowledged) > last)


class Writer(threading.Thread):
    """Writes one record after another, and notes which were acknowledged."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        self.stopping = False
        self._store = store

    def run(self) -> None:
        while not self.stopping:
            name = f"w{len(self.acknowledged)}"
            self._store.upsert([fact(name)])
            self.acknowledged.append(name)


@contextmanager
def writing(store: MemoryStore) -> Iterator[Writer]:
    writer = Writer(store)
    writer.start()
    try:
        wait_until(lambda: len(writer.acknowledged) > 2)
        yield writer
    finally:
        writer.stopping = True
        writer.join(60)


def test_a_backup_during_writes_holds_all_that_was_acknowledged_before(lived: Path, tmp_path: Path) -> None:
    """Proves: OPS-8."""
    with opened(lived) as store, writing(store) as writer:
        for number in range(3):
            before = list(writer.acknowledged)
            report = store.maintenance.backup(tmp_path / f"copy{number}")
            assert report.sound and (report.records or 0) >= len(before) + 2
            goes_on(writer.acknowledged)
            with opened(tmp_path / f"copy{number}", read_only=True) as copy:
                assert len(copy.get(before, scope=Scope())) == len(before)
    for number in range(3):
        checked(tmp_path / f"copy{number}")


def test_the_command_backs_up_what_another_process_writes(
    lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With whatever embedder the settings name. Proves: OPS-8, STORE-5."""
    target = tmp_path / "backups" / "monday"
    with opened(lived) as store, writing(store):
        assert main(["store", "backup", "--store", str(lived), str(target)]) == 0
    assert capsys.readouterr().out.startswith("Backed up ")
    assert sorted(file.name for file in target.parent.iterdir()) == ["monday"]
    assert sorted(file.name for file in target.iterdir()) == ["sidecar.sqlite3", "writer.lock"]
    checked(target)


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no such permissions there")
def test_only_its_owner_can_read_a_new_store_s_folder_and_copies_of_it(tmp_path: Path) -> None:
    """An existing folder keeps its permissions, and a backup has those of its original. Proves: OPS-8."""
    new, shared = tmp_path / "below" / "new", tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o750)
    for folder, mode in ((new, 0o700), (shared, 0o750)):
        copy, moved = folder.with_name("copy"), folder.with_name("moved")
        with opened(folder) as store:
            store.upsert([fact("a")])
            store.maintenance.backup(copy)
        move_store(folder, moved, embedder=WordHashEmbedder())
        assert [path.stat().st_mode & 0o777 for path in (folder, copy, moved)] == [mode, mode, 0o700]


def test_what_was_erased_before_is_in_no_byte_of_a_backup(lived: Path, tmp_path: Path) -> None:
    """Proves: STORE-6, OPS-8."""
    with opened(lived) as store:
        store.upsert([fact(f"z{number}", f"Zanzibar {number} pays quokkaberry.") for number in range(300)])
        store.delete([f"z{number}" for number in range(300)])
        store.maintenance.backup(tmp_path / "copy")
        assert b"quokkaberri" in (lived / "sidecar.sqlite3-wal").read_bytes()
    assert b"quokkaberr" not in (tmp_path / "copy" / "sidecar.sqlite3").read_bytes()
    assert verify_folder(tmp_path / "copy").sound


def test_a_target_that_exists_and_postgresql_are_errors(
    lived: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: OPS-8."""
    for target in (tmp_path, lived, "postgresql://u:secret@h/d"):
        assert main(["store", "backup", "--store", str(lived), str(target)]) == 2
        said = capsys.readouterr().err
        assert "a folder that doesn't exist yet" in said and "secret" not in said
    assert main(["store", "backup", "--store", "postgresql://u:secret@h/d", str(tmp_path / "copy")]) == 2
    said = capsys.readouterr().err
    assert "pg_dump" in said and "secret" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_target_in_the_store_s_own_folder_is_an_error(
    lived: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be lost with the store. Proves: OPS-8, HOST-4."""
    (tmp_path / "link").symlink_to(lived)
    folders = {path for path in lived.rglob("*") if path.is_dir()}
    for target in (lived / "copy", lived / "chroma" / "new" / "copy", tmp_path / "link" / "copy"):
        for command, words in (
            (["backup", str(target)], "outside the store's own"),
            (["move", "--to", str(target)], "not the moved store's folder, nor one in it"),
        ):
            assert main(["store", *command, "--store", str(lived)]) == 2
            assert words in capsys.readouterr().err
    assert {path for path in lived.rglob("*") if path.is_dir()} == folders


def test_a_backup_that_was_killed_leaves_no_store_and_the_next_one_clears_it(lived: Path, tmp_path: Path) -> None:
    """Proves: OPS-8."""
    script = (
        "import os, signal, sys\n"
        "from recall_loop.memory.store import backup\n"
        "from recall_loop.memory.store.store import MemoryStore\n"
        "from tests.embedders import WordHashEmbedder\n"
        "backup._detach_from_chroma = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with MemoryStore.open(sys.argv[1], embedder=WordHashEmbedder(), read_only=True) as store:\n"
        "    store.maintenance.backup(sys.argv[2])\n"
    )
    assert run_forked(script, str(lived), str(tmp_path / "copy")).returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.unfinished", "store"]
    assert not MemoryStore.exists(tmp_path / "copy.unfinished")
    with opened(lived, read_only=True) as store:
        store.maintenance.backup(tmp_path / "copy")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "store"]
        (tmp_path / "other.unfinished").mkdir()
        lock = WriterLock(tmp_path / "other.unfinished")
        with pytest.raises(StoreLockedError):
            store.maintenance.backup(tmp_path / "other")
        lock.release()
    checked(tmp_path / "copy")


def test_a_damaged_store_is_not_backed_up(lived: Path, tmp_path: Path) -> None:
    """Neither one with a damaged text, nor one that lacks what its Chroma has. Proves: OPS-8, GUARD-6."""
    earlier = tmp_path / "earlier.sqlite3"
    shutil.copy2(lived / "sidecar.sqlite3", earlier)
    with opened(lived) as store:
        store.upsert([fact("later")], tenant="acme")
        with sqlite3.connect(lived / "sidecar.sqlite3") as connection:
            connection.execute("UPDATE bodies SET record = replace(record, 'Quokkas', 'Quolls')")
        connection.close()
        with pytest.raises(StoreUnavailableError, match=r"repaired first .*damaged"):
            store.maintenance.backup(tmp_path / "copy")
    shutil.copy2(earlier, lived / "sidecar.sqlite3")
    with opened(lived, read_only=True) as store, pytest.raises(StoreUnavailableError, match="repaired first"):
        store.maintenance.backup(tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["earlier.sqlite3", "store"]
    with opened(lived) as store:  # which repairs it
        store.maintenance.backup(tmp_path / "copy")
    with opened(tmp_path / "copy", read_only=True) as store:
        assert store.count(Scope(tenant="acme")) == 3


def test_a_store_in_memory_can_be_kept(tmp_path: Path) -> None:
    """Proves: OPS-8."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert([fact("a")])
        store.maintenance.backup(tmp_path / "copy")
        with pytest.raises(InvalidInputError, match="doesn't exist yet"):
            store.maintenance.backup(tmp_path / "copy")
    with opened(tmp_path / "copy", create=False) as store:
        assert store.count() == 1 and store.maintenance.verify().sound


def test_a_backup_of_a_served_store_holds_what_the_service_acknowledged(
    tmp_path: Path, embedder: MiniLmEmbedder
) -> None:
    """The command copies in a process of its own. Proves: OPS-8, OPS-1."""
    acknowledged: list[str] = []
    stopping = threading.Event()
    settings = Settings(store_path=str(tmp_path / "store"))
    with running_service(settings=settings, embedder=embedder) as served:

        def post() -> None:
            with served.client() as client:
                while not stopping.is_set():
                    name = f"w{len(acknowledged)}"
                    client.post("/api/memory/records", json={"records": [fact(name)]}).raise_for_status()
                    acknowledged.append(name)

        writer = threading.Thread(target=post, daemon=True)
        writer.start()
        try:
            wait_until(lambda: len(acknowledged) > 2)
            before = list(acknowledged)
            done = run_forked_command("store", "backup", "--store", str(tmp_path / "store"), str(tmp_path / "copy"))
            assert (done.returncode, done.stderr) == (0, "")
            goes_on(acknowledged)
        finally:
            stopping.set()
            writer.join(60)
    assert verify_folder(tmp_path / "copy").sound
    with MemoryStore.open(tmp_path / "copy", create=False) as store:
        assert len(store.get(before, scope=Scope())) == len(before)
        report = store.maintenance.verify()
        assert report.sound and report.records == report.chroma_rows
