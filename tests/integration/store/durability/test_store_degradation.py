"""Degraded stores: what still works if a part fails, with real failures (SEARCH-9)."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from recall_loop.memory.store.chroma import chroma_link
from recall_loop.memory.store.index.row_queries import read_rows
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import StoreUnavailableError
from recall_loop.state.scope import Scope
from tests.damage import garbage
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import run_forked
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

QUERY = np.ones((1, 32), dtype=np.float32)
SQUATTER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


def turn(number: int, text: str = "plain") -> dict[str, object]:
    return {"id": f"m{number}", "kind": "message", "text": f"{text} words {number}", "session": "s", "position": number}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore.open(tmp_path / "store", embedder=WordHashEmbedder()) as opened:
        opened.upsert(turn(n) for n in range(20))
        yield opened


def answers(store: MemoryStore, count: int = 20) -> None:
    """Everything that doesn't need the broken part still answers, whole."""
    view = store.view(Scope())
    assert store.count() == len(list(store.scan())) == count
    assert [record.id for record in store.get(["m3"], scope=Scope())] == ["m3"]
    assert len(view.nearest(QUERY, 5)[0]) == 5
    assert view.vectors(view.rowids())[1].shape == (count, 32)


def healed(store: MemoryStore) -> None:
    assert store.degraded_reason is None
    report = store.maintenance.verify()
    assert report.sound, report.findings


def test_chroma_taken_away_while_open(store: MemoryStore) -> None:
    """Proves: SEARCH-9, STORE-4. The open files would go on answering, and forget everything at the end."""
    assert store.path is not None
    shutil.rmtree(store.path / "chroma")
    answers(store)
    assert "removed or replaced" in (store.degraded_reason or "")
    assert store.upsert([turn(30)])[0].status == "created"
    answers(store, 21)
    healed(store)


def test_chroma_locked_by_another_process(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: SEARCH-9, STORE-4."""
    monkeypatch.setattr(chroma_link, "RETRY_SECONDS", 0.0)
    database = str((store.path or Path()) / "chroma" / "chroma.sqlite3")
    command = [sys.executable, "-c", SQUATTER, database]
    squatter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with squatter:
        assert squatter.stdout is not None and squatter.stdout.readline() == "locked\n"
        with pytest.raises(StoreUnavailableError, match="nothing was written"):
            store.upsert([turn(30)])
        answers(store)
        assert "lock" in (store.degraded_reason or "")
        with pytest.raises(StoreUnavailableError, match="nothing was written"):
            store.upsert([turn(31)])
        assert store.count() == 20
        squatter.communicate()
    # It comes back without a write, when a search tries it again.
    with store._session.connection.searching() as chroma:
        assert chroma is not None
    healed(store)


@pytest.mark.parametrize("what", ["garbage", "file in its place"])
def test_chroma_damaged_while_open(store: MemoryStore, what: str) -> None:
    """Proves: SEARCH-9, STORE-4."""
    chroma = (store.path or Path()) / "chroma"
    if what == "garbage":
        database = chroma / "chroma.sqlite3"
        with database.open("r+b") as file:
            file.write(garbage(database.stat().st_size))
        with pytest.raises(StoreUnavailableError, match=r"acknowledged|nothing was written"):
            store.upsert([turn(30)])
    else:
        shutil.rmtree(chroma)
        chroma.write_text("in its place")
        with pytest.raises(StoreUnavailableError, match="nothing was written"):
            store.upsert([turn(30)])
        chroma.unlink()
    answers(store, store.count())
    assert "Chroma" in (store.degraded_reason or "")
    store.upsert([turn(30)])
    answers(store, 21)
    healed(store)


BREAKAGES = {
    "rows of the index gone": ["DELETE FROM fts_data WHERE id > 10"],
    "garbage in the index": ["UPDATE fts_data SET block = garbage(id)"],
    # A structure record whose one level claims 268 million segments: SQLite reports a lack of memory.
    "absurd sizes in the index": ["UPDATE fts_data SET block = x'00000001010101008FFFFFFF7F' WHERE id = 10"],
    "a table of the index gone": ["DROP TABLE fts_data"],
    "the index gone": ["DROP TABLE fts"],
}


@pytest.mark.parametrize("what", BREAKAGES)
@pytest.mark.parametrize("way", ["write", "rebuild", "open"])
def test_a_broken_lexical_index(tmp_path: Path, what: str, way: str) -> None:
    """Proves: SEARCH-9, STORE-4."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert(turn(n) for n in range(20))
        with sqlite3.connect(tmp_path / "sidecar.sqlite3") as connection:
            connection.create_function("garbage", 1, lambda row: garbage(50, str(row)))
            for statement in BREAKAGES[what]:
                connection.execute(statement)
        connection.close()
        with pytest.raises(StoreUnavailableError):
            # A merge of a few rows doesn't meet every damage; a change of all of them does.
            store.upsert(turn(n, "changed") for n in range(20))
            store.upsert(turn(n, "again") for n in range(20))
            raise StoreUnavailableError("the damage was not in the way")
        if store.degraded_reason is None:
            store._session.database.lexical_damage = "the lexical index can't be searched: met by a search"
        assert "lexical" in (store.degraded_reason or "")
        answers(store)
        if way == "write":
            assert store.upsert([turn(30)])[0].status == "created"
        elif way == "rebuild":
            store.maintenance.rebuild()
        else:
            (tmp_path / "sidecar.suspect").touch()
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        answers(store, 21 if way == "write" else 20)
        healed(store)
        assert len(read_rows(store._session.database, "default", [1, 2, 3])) == 3


FULL = """
import sys
sys.path.insert(0, {root!r})
from tests.damage import garbage
from tests.embedders import WordHashEmbedder
from tests.integration.store.durability.test_store_degradation import turn
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import StoreUnavailableError
{limit}
acknowledged = []
with MemoryStore.open({path!r}, embedder=WordHashEmbedder()) as store:
    try:
        for number in range(100_000):
            store.upsert([turn(number, "x" * 2000)])
            acknowledged.append(number)
        raise SystemExit("never full")
    except StoreUnavailableError as error:
        words = str(error)
    assert store.degraded_reason, words
    assert len(acknowledged) >= 3, words
    held = [record.id for record in store.scan()]
    assert held[: len(acknowledged)] == [f"m{{n}}" for n in acknowledged], (len(held), len(acknowledged))
    assert len(store.view(__import__("recall_loop").Scope()).rowids()) == len(held)
    try:
        store.upsert([turn(200_000, "y" * 5000)])
        raise SystemExit("written to a full disk")
    except StoreUnavailableError:
        pass
    {again}
print(len(acknowledged))
"""
LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))"
LIFT = """resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.upsert([turn(200_000)])
    assert store.degraded_reason is None and store.maintenance.verify().sound, store.maintenance.verify().findings"""


def run_full(path: Path, root: Path, limit: str, again: str) -> int:
    code = FULL.format(root=str(root), path=str(path), limit=limit, again=again)
    child = run_forked(code)
    assert child.returncode == 0, child.stderr[-3000:]
    return int(child.stdout)


def test_files_that_may_not_grow(tmp_path: Path, root: Path) -> None:
    """Proves: SEARCH-9, STORE-4. The limit on the size of a file stands for a full disk, and can be lifted."""
    if sys.platform == "win32":
        pytest.skip("no limits on the size of files here")
    count = run_full(tmp_path / "store", root, LIMIT, LIFT)
    with MemoryStore.open(tmp_path / "store", embedder=WordHashEmbedder()) as store:
        assert store.count() >= count + 1
        healed(store)


def test_a_full_disk(tmp_path: Path, root: Path) -> None:
    """Proves: SEARCH-9, STORE-4. A file system of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("no right to mount a small file system; the limit on the size of files is tested above")
    try:
        count = run_full(disk / "store", root, "", "pass")
        subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
        with MemoryStore.open(disk / "store", embedder=WordHashEmbedder()) as store:
            assert store.count() >= count
            store.upsert([turn(300_000)])
            healed(store)
    finally:
        # The files of a store that was just closed may be held for a moment longer.
        wait_until(lambda: subprocess.run(["umount", str(disk)], capture_output=True, check=False).returncode == 0, 30)


def test_a_store_opens_beside_a_chroma_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: SEARCH-9. Whatever its import raises, as one made for another numpy does."""
    (tmp_path / "chromadb.py").write_text("raise AttributeError('np.float_ was removed')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "chromadb", raising=False)
    with MemoryStore.open(tmp_path / "store", embedder=WordHashEmbedder()) as store:
        assert store.degraded_reason == "Chroma can't be opened"
