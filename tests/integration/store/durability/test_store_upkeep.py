"""Verifying, compacting, erasing, and rebuilding either side from the other, over real files."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from recall_loop.memory.store.chroma import probe
from recall_loop.memory.store.chroma.chroma_files import zero_unused_space
from recall_loop.memory.store.recovery.verify import verify_folder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import (
    EmbedderMismatchError,
    InvalidInputError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from recall_loop.state.scope import Scope
from tests.damage import garbage
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import run_forked

# Damaged vector files are tried in processes of their own.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
# From so many rows on Chroma keeps files of vectors beside its database.
LARGE = 1100
SMALL = 150
PROBE = """
import sys
from pathlib import Path
from recall_loop.memory.store.chroma.probe import main
main(Path(sys.argv[1]))
"""


def forked_trial(command: Sequence[str], patience: float) -> int | None:
    """Try Chroma's files in a process that is forked, and needn't load Chroma each time."""
    assert command[1:4] == ["-P", "-m", probe.__name__]
    return run_forked(PROBE, command[4]).returncode


@pytest.fixture(autouse=True)
def forked_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the same code tried in the same files; test_store_durability.py has it run by a Python of its own."""
    monkeypatch.setattr(probe, "_exit_status", forked_trial)


def opened(path: Path, **options: object) -> MemoryStore:
    return MemoryStore.open(path, embedder=WordHashEmbedder(), **options)


def turn(number: int, text: str = "plain", **fields: object) -> dict[str, object]:
    place = {"session": "s", "position": number, **fields}
    return {"id": f"m{number}", "kind": "message", "text": f"{text} words {number}", **place}


def sides(store: MemoryStore) -> None:
    report = store.maintenance.verify()
    assert report.sound, report.findings
    assert report.records == report.chroma_rows == store.maintenance.info()["records"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with vector files, not to be written to."""
    path = tmp_path_factory.mktemp("large") / "store"
    with opened(path) as store:
        store.upsert(turn(n) for n in range(LARGE))
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store without vector files, not to be written to. Nothing of it has to be tried in another process."""
    path = tmp_path_factory.mktemp("small") / "store"
    with opened(path) as store:
        store.upsert(turn(n, "plain words of some length, that fill pages of the file,") for n in range(SMALL))
    return path


@pytest.fixture
def copy(large: Path, tmp_path: Path) -> Path:
    return copied(large, tmp_path)


def copied(store: Path, folder: Path) -> Path:
    return Path(shutil.copytree(store, folder / "store"))


def verified(path: Path) -> str:
    report = verify_folder(path)
    assert report.sound == (not report.findings)
    assert json.loads(json.dumps(report.as_json()))["sound"] == report.sound
    return "\n".join(report.findings)


def test_a_sound_store_verifies_open_closed_and_read_only(large: Path) -> None:
    """Proves: STORE-4."""
    before = {file: file.read_bytes() for file in large.rglob("*") if file.is_file() and file.suffix == ".bin"}
    report = verify_folder(large)
    assert report.sound, report.findings
    assert report.records == report.chroma_rows == LARGE
    with opened(large, read_only=True) as reader:
        assert reader.maintenance.verify().sound
    assert {file: file.read_bytes() for file in before} == before
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert([turn(1)])
        assert store.maintenance.verify().sound


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM bodies WHERE rowid = 3", "records without a body: 1"),
        ("DELETE FROM vectors WHERE rowid = 3", "records without vectors: 1"),
        ("UPDATE vectors SET own = x'00' WHERE rowid = 3", "a length other than 32: 1"),
        ("DELETE FROM fts WHERE rowid = 3", "the lexical index is damaged: 1 rows are missing"),
        ("DELETE FROM fts_data WHERE id > 10", "the lexical index is damaged"),
        ("DROP TABLE fts_data", "the lexical index is damaged"),
        ("UPDATE records SET state = 1 WHERE rowid = 3", "not yet in Chroma: 1 written"),
        ("INSERT INTO tombstones VALUES ('k', 1, 1)", "1 deleted records"),
        ("UPDATE records SET revision = 9 WHERE rowid = 3", "records of another revision in Chroma: 1 (m2)"),
        ("UPDATE records SET key = 'k' WHERE rowid = 3", "records missing from Chroma: 1"),
        (
            "UPDATE vectors SET context = CAST(zeroblob(62) || x'003c' AS BLOB) WHERE rowid = 3",
            "another vector in Chroma: 1 (m2)",
        ),
        ("UPDATE meta SET value = 'other' WHERE key = 'generation'", "`recall-loop store rebuild` fills it anew"),
        ("INSERT INTO memberships VALUES ('default', 'a', 'g', 2)", "miscounted: 1"),
    ],
)
def test_what_does_not_agree_is_found(tmp_path: Path, statement: str, words: str) -> None:
    """Proves: STORE-4."""
    with opened(tmp_path) as store:
        store.upsert(turn(n) for n in range(8))
    with sqlite3.connect(tmp_path / "sidecar.sqlite3") as connection:
        connection.execute(statement)
    connection.close()
    assert words in verified(tmp_path)


def test_verify_finds_damaged_files_of_either_side(copy: Path, tmp_path: Path) -> None:
    """Proves: STORE-4."""
    vectors = next(copy.rglob("data_level0.bin"))
    os.truncate(vectors, 1000)
    assert "crash the process" in verified(copy)
    database = copy / "chroma" / "chroma.sqlite3"
    database.write_bytes(garbage(5000, "database"))
    assert "Chroma's database is missing or malformed" in verified(copy)
    (copy / "sidecar.sqlite3").write_bytes(garbage(5000, "sidecar"))
    assert verified(copy).count("from Chroma") == 1
    (copy / "sidecar.sqlite3").unlink()
    assert "the sidecar is missing" in verified(copy)
    with pytest.raises(StoreUnavailableError, match="no store there"):
        verify_folder(tmp_path / "none")


def damage(copy: Path, what: str) -> None:
    """Damage Chroma's files on the disk."""
    if what.endswith("database"):
        damage_database(copy / "chroma" / "chroma.sqlite3", what)
        return
    vectors = next(copy.rglob("data_level0.bin"))
    data = bytearray(vectors.read_bytes())
    if what == "truncated vectors":
        del data[len(data) // 2 :]
    elif what == "flipped vectors":
        data[::97] = bytes(byte ^ 0xFF for byte in data[::97])
    else:
        data[len(data) // 2] ^= 0x40
    vectors.write_bytes(data)


def damage_database(database: Path, what: str) -> None:
    if what == "deleted database":
        database.unlink()
    elif what == "garbage database":
        database.write_bytes(garbage(database.stat().st_size, "database"))
    elif what == "truncated database":
        os.truncate(database, database.stat().st_size // 2)
    else:  # SQLite's error quotes the name, which is no text: Chroma would end the process
        with sqlite3.connect(database) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(
                "UPDATE sqlite_master SET name = CAST(x'61A062' AS TEXT), sql = 'CREATE INDEX' WHERE rowid = "
                "(SELECT max(rowid) FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL)"
            )
        connection.close()


@pytest.mark.parametrize(
    "what",
    [
        "truncated vectors", "flipped vectors", "one flipped bit", "deleted database", "garbage database",
        "truncated database", "nameless database",
    ],
)  # fmt: skip
def test_a_damaged_chroma_is_rebuilt_from_the_sidecar(large: Path, small: Path, tmp_path: Path, what: str) -> None:
    """Proves: STORE-4, SEARCH-9."""
    chosen, count = (small, SMALL) if what.endswith("database") else (large, LARGE)
    copy = copied(chosen, tmp_path)
    damage(copy, what)
    with opened(copy, read_only=True) as reader, reader._session.connection.searching() as chroma:
        assert chroma is None and reader.degraded_reason is not None and reader.count() == count
    with opened(copy) as store:
        assert store.degraded_reason is None
        sides(store)
        assert len(store.view(Scope()).nearest(np.ones((1, 32)), 5)[0]) == 5
    assert verified(copy) == ""


@pytest.mark.parametrize("what", ["garbage", "truncated", "flipped page", "empty"])
def test_a_damaged_sidecar_is_kept_aside_and_rebuilt_from_chroma(
    large: Path, small: Path, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: STORE-4."""
    copy = copied(large if what == "flipped page" else small, tmp_path)
    with opened(copy) as store:
        before = {record.id: record for record in store.scan()}
    file = copy / "sidecar.sqlite3"
    if what == "garbage":
        file.write_bytes(garbage(file.stat().st_size, "sidecar"))
    elif what == "truncated":
        os.truncate(file, file.stat().st_size // 3)
    elif what == "empty":
        os.truncate(file, 0)
    else:
        data = bytearray(file.read_bytes())
        data[4096 : len(data) // 2] = garbage(len(data) // 2 - 4096, "pages")
        file.write_bytes(data)
    if what in ("truncated", "flipped page"):
        assert verified(copy) != ""
    try:
        with opened(copy) as store:
            list(store.scan())
            store.maintenance.verify()
    except StoreUnavailableError:
        # Met in the middle of the file: noted, and examined at the next open.
        assert (copy / "sidecar.suspect").exists()
    with opened(copy) as store:
        assert {record.id: record for record in store.scan()} == before
        sides(store)
    assert f"was rebuilt from Chroma with {len(before)} records" in caplog.text
    assert what == "empty" or list(copy.glob("sidecar.damaged-1.sqlite3"))
    assert verified(copy) == ""


ODD_ROWS = {
    "text that is none": "UPDATE bodies SET record = CAST(x'7B80' AS TEXT) WHERE rowid = 3",
    "no JSON": "UPDATE bodies SET record = '{' || record WHERE rowid = 3",
    "no record": """UPDATE bodies SET record = '{"id": "m2"}' WHERE rowid = 3""",
    "no body": "DELETE FROM bodies WHERE rowid = 3",
    "vectors that are none": "UPDATE vectors SET own = 'own', context = 'text' WHERE rowid = 3",
    "an index of other rows": """UPDATE sqlite_master SET rootpage = (SELECT max(rootpage) FROM sqlite_master
        WHERE type = 'index' AND tbl_name = 'records' AND name != 'records_thread') WHERE name = 'records_thread'""",
}


@pytest.mark.parametrize("what", ODD_ROWS)
def test_damage_inside_rows_is_met_as_such_and_repaired_at_the_next_open(tmp_path: Path, what: str) -> None:
    """Proves: STORE-4. SQLite reads such a file without an error, or with one that doesn't say what is wrong."""
    with opened(tmp_path) as store:
        store.upsert(turn(n) for n in range(8))
        before = list(store.scan())
    with sqlite3.connect(tmp_path / "sidecar.sqlite3") as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(ODD_ROWS[what])
    connection.close()
    if what == "an index of other rows":
        assert "malformed" in verified(tmp_path)
    else:
        with opened(tmp_path) as store, pytest.raises(StoreUnavailableError, match=r"damaged|can't be read"):
            list(store.scan())
            store.upsert([turn(1, "changed")])  # its neighbours are read with it
            raise StoreUnavailableError("it was not in the way")
    with opened(tmp_path) as store:
        text = what in ("text that is none", "no JSON", "no record")
        words = "1 records taken over from Chroma" if text else "rebuilt from Chroma with 8 records"
        assert [repair for repair in store.repairs if words in repair]
        assert list(store.scan()) == before
        sides(store)


def test_a_damaged_sidecar_without_a_whole_chroma_is_left_alone(copy: Path) -> None:
    """Proves: STORE-4."""
    (copy / "sidecar.sqlite3").write_bytes(b"garbage" * 1000)
    (copy / "chroma" / "chroma.sqlite3").unlink()
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match=r"sidecar is damaged .* can't be rebuilt"):
            opened(copy)
    assert (copy / "sidecar.sqlite3").read_bytes() == b"garbage" * 1000


def bytes_of(path: Path) -> bytes:
    return b"\n".join(file.read_bytes().lower() for file in path.rglob("*") if file.is_file())


ERASED = [
    ("record", None, ["m40"]),
    ("user", Scope(tenant="acmetenant", user_id="userzanzibar"), ["m40", "m41", "m45"]),
    ("agent", Scope(tenant="acmetenant", agent_id="agentzanzibar"), ["m42", "m44"]),
    ("conversation", Scope(tenant="acmetenant", conversation_id="talkzanzibar"), ["m43"]),
    ("tenant", Scope(tenant="acmetenant"), [f"m{n}" for n in range(60)]),
]


@pytest.mark.parametrize(("what", "scope", "gone"), ERASED, ids=[case[0] for case in ERASED])
def test_erased_bytes_are_gone_after_compaction(
    tmp_path: Path, what: str, scope: Scope | None, gone: list[str]
) -> None:
    """Proves: STORE-6, STORE-7."""
    owners = {
        40: {"user_id": "userzanzibar"}, 41: {"user_id": "userzanzibar"}, 45: {"user_id": "userzanzibar"},
        42: {"agent_id": "agentzanzibar", "group_id": "crew"}, 44: {"agent_id": "agentzanzibar"},
        43: {"conversation_id": "talkzanzibar"},
    }  # fmt: skip
    size = LARGE if what == "record" else 60
    with opened(tmp_path) as store:
        store.upsert(
            (turn(n, f"secretword{n}" if f"m{n}" in gone else "plain", **owners.get(n, {})) for n in range(size)),
            tenant="acmetenant",
        )
        store.upsert([turn(1, "keeper")], tenant="other")
        with store._session.database.reading() as connection:
            query = "SELECT own, context FROM records JOIN vectors USING (rowid) WHERE id = ? AND tenant = 'acmetenant'"
            own, context = connection.execute(query, (gone[0],)).fetchone()
        assert b"secretword" in bytes_of(tmp_path)
        count = store.delete(gone, tenant="acmetenant") if scope is None else store.erase(scope)
        assert count == len(gone)
        assert scope is None or store.erase(scope) == 0
        store.maintenance.compact()
        # While the store is still open, and once more when it was searched and closed.
        words = [b"secretword", *([b"acmetenant"] if what == "tenant" else []), own[4:], context[4:]]
        words += [np.frombuffer(context, dtype=np.float16).astype(np.float32).tobytes()[8:]]
        words += [f"{what}zanzibar".encode()] if what in ("user", "agent") else []
        words += [b"talkzanzibar"] if what == "conversation" else []
        assert [word for word in words if word in bytes_of(tmp_path)] == []
        sides(store)
    assert [word for word in words if word in bytes_of(tmp_path)] == []
    with opened(tmp_path) as store:
        assert store.count(Scope(tenant="acmetenant")) == size - len(gone)
        assert store.count(Scope(tenant="other")) == 1
        store.upsert([turn(1, "again")], tenant="acmetenant")
        sides(store)


def test_compaction_removes_a_damaged_sidecar_that_was_kept(tmp_path: Path) -> None:
    """Proves: STORE-6."""
    with opened(tmp_path) as store:
        store.upsert([turn(1, "secretword"), turn(2)])
    file = tmp_path / "sidecar.sqlite3"
    data = bytearray(file.read_bytes())
    data[:16] = b"not a database !"
    file.write_bytes(data)
    with opened(tmp_path) as store:
        store.delete(["m1"])
        assert [note for note in store.maintenance.verify().notes if "sidecar.damaged-1" in note]
        store.maintenance.compact()
        assert store.maintenance.verify().notes == ()
    assert b"secretword" not in bytes_of(tmp_path)


def test_a_scope_that_reaches_other_agents_is_not_erased(tmp_path: Path) -> None:
    """Proves: STORE-6, SEARCH-4."""
    with opened(tmp_path) as store:
        store.upsert([turn(1, agent_id="a", group_id="g"), turn(2, agent_id="b", group_id="g")])
        with pytest.raises(InvalidInputError, match="local"):
            store.erase(Scope(agent_id="a", mode="constellation"))
        assert store.erase(Scope(agent_id="a")) == 1 and store.count() == 1
    with opened(tmp_path, read_only=True) as reader:
        for write in (reader.maintenance.compact, lambda: reader.erase(Scope())):
            with pytest.raises(StoreReadOnlyError):
                write()


def test_a_reader_follows_compaction_and_is_told_of_another_embedder(tmp_path: Path) -> None:
    """Proves: STORE-5, STORE-6."""

    class Other(WordHashEmbedder):
        fingerprint = "word-hashes:2"

    with opened(tmp_path) as writer:
        writer.upsert([turn(1), turn(2)])
        with opened(tmp_path, read_only=True) as reader:
            assert reader.count() == 2
            writer.delete(["m1"])
            writer.maintenance.compact()
            assert reader.count() == 1 and reader.generation == writer.generation
            assert reader.view(Scope()).rowids().tolist() == [2]
            writer.maintenance.rebuild(embedder=Other())
            for read in (reader.count, lambda: reader.view(Scope()), lambda: list(reader.scan())):
                with pytest.raises(EmbedderMismatchError, match="made with embedder word-hashes:2"):
                    read()


CRASH = """
import os, signal
from tests.embedders import WordHashEmbedder
from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.recovery import chroma_rebuild, rebuilding
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.store import MemoryStore
store = MemoryStore.open({path!r}, embedder=WordHashEmbedder())
def die(*args, **kwargs): os.kill(os.getpid(), signal.SIGKILL)
owner, name = {{
    "new generation": (SqliteDatabase, "compact"),
    "files rewritten": (rebuilding, "remove_leftovers"),
    "half built": (chroma_rebuild.recovery, "apply_all"),
    "before the swap": (chroma_files, "swap_in_rebuilt"),
    "old one away": (chroma_files.Path, "rename"),
}}[{step!r}]
if {step!r} == "old one away":
    original = chroma_files.Path.rename
    def rename(self, target):
        original(self, target)
        die()
    chroma_files.Path.rename = rename
else:
    setattr(owner, name, die)
store.maintenance.compact()
"""


@pytest.mark.parametrize("step", ["new generation", "files rewritten", "before the swap", "old one away", "half built"])
def test_a_kill_within_compaction_loses_nothing(tmp_path: Path, step: str) -> None:
    """Proves: STORE-4, STORE-6."""
    with opened(tmp_path) as store:
        store.upsert(turn(n) for n in range(30))
        store.delete(["m3"])
    child = run_forked(CRASH.format(path=str(tmp_path), step=step))
    assert child.returncode == -9, child.stderr
    with opened(tmp_path) as store:
        # Nothing has to be rebuilt: the rows of both sides are the same. What was deleted may be on the disk.
        cut = [f"{tmp_path}: a compaction was cut off: compact the store again"]
        assert store.repairs == ([] if step == "half built" else cut)
        assert store.count() == 29
        sides(store)
        store.maintenance.compact()
        sides(store)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chroma", "sidecar.sqlite3", "writer.lock"]


def test_what_chroma_leaves_in_unused_room_is_zeroed(tmp_path: Path) -> None:
    """Proves: STORE-6. Chroma writes uninitialised memory to the disk; words of deleted records were found in it."""
    with opened(tmp_path) as store:
        store.upsert([turn(1)])
        store.maintenance.rebuild()
        store.upsert([turn(2)])
    header = next(tmp_path.rglob("header.bin"))
    data = header.with_name("data_level0.bin")
    assert data.stat().st_size > 0 and not data.read_bytes().strip(b"\x00")
    data.write_bytes(b"\x00" * 5 + b"secretword" + b"\x00" * (data.stat().st_size - 15))
    zero_unused_space(tmp_path / "chroma")
    assert b"secretword" not in bytes_of(tmp_path)
    with opened(tmp_path) as store:
        sides(store)
