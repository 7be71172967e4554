"""Crashes, locks, readers, mismatches and rebuilding, over real files and real processes."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3

import numpy as np
import pytest

from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex
from recall_loop.memory.store.chroma.probe import vector_files_readable
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import (
    EmbedderError,
    EmbedderMismatchError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from recall_loop.state.scope import Scope
from recall_loop.text.words.tokens import stems
from tests.damage import garbage
from tests.lexical_rows import by_words, window_stems
from tests.processes.forked_process import run_forked

ALL = Scope()


class Lengths:
    """A tiny real embedder: direction by length and first letter of the text."""

    name, dimension = "lengths", 4

    def __init__(self, version="1"):
        self.fingerprint = f"lengths:{version}"
        self.version = int(version)

    def embed_documents(self, texts):
        rows = [[self.version, len(t), ord(t[0]), 1.0] for t in texts]
        vectors = np.array(rows, dtype=np.float32).reshape(len(rows), 4)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    embed_queries = embed_documents


def turn(number, text="text"):
    return {
        "id": f"m{number}", "kind": "message", "text": f"{text} {number}", "session": "s", "position": number,
        "created_at": None,
    }  # fmt: skip


def content(store):
    """Everything that readers can see, by record."""
    view = store.view(ALL)
    own, context = view.vectors(view.rowids())
    rows = view.rows(view.rowids())
    stems = window_stems(store)
    lexical = {n: by_words(view, [s], 1000) for rowid in rows for n, s in enumerate(stems[rowid])}
    return [(r.record, r.window, r.term_count, stems[r.rowid]) for r in rows.values()], own, context, lexical


def same(left, right):
    return left[0] == right[0] and left[3] == right[3] and np.allclose(left[1:3], right[1:3], atol=2e-3)


def assert_whole(store):
    """Both sides hold the same rows and revisions, and nothing is pending."""
    assert store.degraded_reason is None and store.maintenance.info()["pending"] == 0
    with store._session.connection.searching() as chroma, store._session.database.reading() as connection:
        sidecar = set(connection.execute("SELECT key, rowid, revision, record FROM records JOIN bodies USING (rowid)"))
        assert {(row.key, row.rowid, row.revision) for row in chroma.rows()} == {row[:3] for row in sidecar}
        indexed = connection.execute("SELECT count(*) FROM fts").fetchone()[0]
        assert indexed == len(sidecar) == connection.execute("SELECT count(*) FROM vectors").fetchone()[0]


CHILD = """
import os, signal
from tests.integration.store.durability import test_store_durability as module
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.recovery import recovery
from recall_loop.memory.store.write import commits
from recall_loop.memory.store.chroma.chroma_index import ChromaIndex

def die(*args): os.kill(os.getpid(), signal.SIGKILL)

store = MemoryStore.open({path!r}, embedder=module.Lengths())
store.upsert([module.turn(n) for n in range(6)])
owner, name, after = {{
    "in transaction": (commits, "bump_tenant_version", True),
    "before chroma": (ChromaIndex, {first!r}, False),
    "between deletes and upserts": (ChromaIndex, "upsert", False),
    "after chroma": (ChromaIndex, "upsert", True),
}}[{step!r}]
original = getattr(owner, name)
def dying(*args):
    if after: original(*args)
    die()
setattr(owner, name, dying)
print("acknowledged", flush=True)
if {write!r} == "upsert":
    store.upsert([module.turn(3, "changed"), module.turn(7)])
else:
    store.delete(["m3"])
"""


@pytest.mark.parametrize("write", ["upsert", "delete"])
@pytest.mark.parametrize("step", ["in transaction", "before chroma", "between deletes and upserts", "after chroma"])
def test_a_kill_at_any_step_loses_nothing_acknowledged_and_is_repaired(tmp_path, step, write):
    """Proves: STORE-4."""
    # A write without deletions begins with Chroma's upsert.
    first = "delete" if write == "delete" else "upsert"
    code = CHILD.format(path=str(tmp_path / "s"), step=step, write=write, first=first)
    child = run_forked(code)
    assert child.returncode == -signal.SIGKILL and child.stdout == "acknowledged\n", child.stderr
    with MemoryStore.open(tmp_path / "s", embedder=Lengths(), read_only=True) as reader:
        assert {f"m{n}" for n in range(6)} - {"m3"} <= {record.id for record in reader.scan()}
    with MemoryStore.open(tmp_path / "s", embedder=Lengths()) as store:
        assert_whole(store)
        kept = {record.id: record.text for record in store.scan()}
        committed = step != "in transaction"
        if write == "upsert":
            assert kept["m3"] == ("changed 3" if committed else "text 3")
            assert ("m7" in kept) == committed
        else:
            assert ("m3" in kept) != committed
        with MemoryStore.in_memory(embedder=Lengths()) as fresh:
            fresh.upsert(store.scan())
            ours, theirs = content(store), content(fresh)
            assert ours[0] == theirs[0] and np.allclose(ours[2], theirs[2], atol=2e-3)
        # The interrupted call can be repeated.
        store.upsert([turn(3, "changed"), turn(7)])
        assert_whole(store)


def test_an_acknowledged_write_survives_a_kill(tmp_path):
    """Proves: STORE-4."""
    values = {"step": "after chroma", "write": "upsert", "first": "upsert"}
    code = CHILD.format(path=str(tmp_path), **values)
    code = code.split("owner, name")[0] + "\nos.kill(os.getpid(), signal.SIGKILL)"
    child = run_forked(code)
    assert child.returncode == -signal.SIGKILL
    with MemoryStore.open(tmp_path, embedder=Lengths()) as store:
        assert store.count() == 6
        assert_whole(store)


def test_chroma_failing_in_a_write_is_not_acknowledged_and_heals(tmp_path):
    """Proves: STORE-4, SEARCH-9."""
    with MemoryStore.open(tmp_path, embedder=Lengths()) as store:
        store.upsert([turn(1)])
        # A real failure of Chroma: its client is closed under the store.
        store._session.connection.chroma._client.close()
        with pytest.raises(StoreUnavailableError, match="not acknowledged"):
            store.upsert([turn(2)])
        assert "Chroma" in store.degraded_reason
        assert [record.id for record in store.scan()] == ["m1", "m2"]
        assert store.view(ALL).nearest(Lengths().embed_queries(["text 1"]), 5) == [[1, 2]]
        assert [o.status for o in store.upsert([turn(2)])] == ["unchanged"]
        assert_whole(store)


def test_a_store_whose_chroma_cannot_be_opened_still_reads(tmp_path):
    """Proves: SEARCH-9."""
    with MemoryStore.open(tmp_path, embedder=Lengths()) as store:
        store.upsert([turn(n) for n in range(4)])
    shutil.rmtree(tmp_path / "chroma")
    (tmp_path / "chroma").write_text("a file where the folder was")
    with MemoryStore.open(tmp_path, embedder=Lengths()) as store:
        assert "Chroma" in store.degraded_reason and store.maintenance.info()["degraded_reason"]
        assert store.count() == 4 and sorted(by_words(store.view(ALL), stems("text"), 9)) == [1, 2, 3, 4]
        assert len(store.view(ALL).nearest(np.ones((1, 4)), 3)[0]) == 3
        with pytest.raises(StoreUnavailableError, match="nothing was written"):
            store.upsert([turn(9)])
        assert store.count() == 4
        (tmp_path / "chroma").unlink()
        assert [o.status for o in store.upsert([turn(9)])] == ["created"]
        assert_whole(store)


def test_a_second_writer_is_told_at_once_and_the_lock_ends_with_its_holder(tmp_path):
    """Proves: STORE-4."""
    with MemoryStore.open(tmp_path, embedder=Lengths()):
        # In another process it is the same (test_store_threads.py); here only who wants it alone is refused.
        with pytest.raises(StoreLockedError, match=rf"process {os.getpid()}.*read_only=True.*serve.*--read-only"):
            MemoryStore.open(tmp_path, embedder=Lengths(), re_embed=True)
        for name in ("writer.lock", "sidecar.sqlite3"):
            (tmp_path / name).read_bytes()
        with pytest.raises(StoreLockedError):
            MemoryStore.open(tmp_path, embedder=Lengths(), re_embed=True)
    MemoryStore.open(tmp_path, embedder=Lengths()).close()


def test_a_reader_sees_what_the_writer_commits_and_never_writes(tmp_path):
    """Proves: STORE-4."""
    with MemoryStore.open(tmp_path, embedder=Lengths()) as writer:
        writer.upsert([turn(1)])
        with MemoryStore.open(tmp_path, embedder=Lengths(), read_only=True) as reader:
            view = reader.view(ALL)
            assert view.count() == 1 and view.vectors([1])[0].any()
            writer.upsert([turn(2)])
            assert view.count() == 2 and view.vectors([2])[0].any()
            assert view.rows([1])[1].window == "text 1\ntext 2"
            assert sorted(view.nearest(np.ones((1, 4)), 5)[0]) == [1, 2]
            for write in (lambda: reader.upsert([turn(3)]), lambda: reader.delete(["m1"]), reader.maintenance.rebuild):
                with pytest.raises(StoreReadOnlyError):
                    write()
        writer.delete(["m1"])
        assert_whole(writer)


def test_another_embedder_is_refused_by_name_and_can_re_embed(tmp_path):
    """Proves: STORE-5."""
    with MemoryStore.open(tmp_path, embedder=Lengths("1")) as store:
        store.upsert([turn(n) for n in range(300)])
        first = store.generation
    for read_only in (False, True):
        with pytest.raises(EmbedderMismatchError, match=r"lengths:1 .*lengths:2.*store rebuild --store .* --re-embed"):
            MemoryStore.open(tmp_path, embedder=Lengths("2"), read_only=read_only)
    with MemoryStore.open(tmp_path, embedder=Lengths("2"), re_embed=True) as store:
        assert store.generation != first and store.maintenance.info()["fingerprint"] == "lengths:2"
        assert_whole(store)
        with MemoryStore.in_memory(embedder=Lengths("2")) as fresh:
            fresh.upsert(turn(n) for n in range(300))
            assert same(content(store), content(fresh))
    with pytest.raises(EmbedderMismatchError):
        MemoryStore.open(tmp_path, embedder=Lengths("1"))


def test_rebuild_changes_the_embedder_of_an_open_store(tmp_path):
    """Proves: STORE-5."""
    seen = []
    with MemoryStore.open(tmp_path, embedder=Lengths("1")) as store:
        store.upsert([turn(n) for n in range(10)])
        before = store.view(ALL).vectors([1])[0]
        store.maintenance.rebuild(embedder=Lengths("2"), progress=lambda done, total: seen.append((done, total)))
        assert not np.allclose(store.view(ALL).vectors([1])[0], before, atol=1e-3)
        assert seen[-1] == (10, 10)
        store.upsert([turn(11)])
        assert_whole(store)


def test_an_embedder_that_fails_leaves_the_store_as_it_was(tmp_path):
    """Proves: STORE-5."""

    class Wrong(Lengths):
        def embed_documents(self, texts):
            return np.ones((len(texts), 7), dtype=np.float32)

    with MemoryStore.open(tmp_path, embedder=Lengths("1")) as store:
        store.upsert([turn(1)])
        before = content(store)
        with pytest.raises(EmbedderError):
            store.maintenance.rebuild(embedder=Wrong("3"))
        store._session.embedder = Wrong("1")
        with pytest.raises(EmbedderError, match="shape"):
            store.upsert([turn(2)])
        assert same(content(store), before)
        assert_whole(store)


@pytest.mark.parametrize("damage", ["missing", "fewer rows", "other generation", "unfinished"])
def test_chroma_is_rebuilt_from_the_sidecar(tmp_path, damage):
    """Proves: STORE-4."""
    with MemoryStore.open(tmp_path, embedder=Lengths()) as store:
        store.upsert([turn(n) for n in range(10)])
        before = content(store)
        side = store._session.connection.chroma
        if damage == "fewer rows":
            side.delete([next(iter(side.rows())).key])
        elif damage == "other generation":
            side.mark_complete({**side.marker(), "generation": "other"})
        elif damage == "unfinished":
            side.collection.modify(metadata={**side.marker(), "complete": False})
    if damage == "missing":
        shutil.rmtree(tmp_path / "chroma")
    with MemoryStore.open(tmp_path, embedder=Lengths()) as store:
        assert same(content(store), before)
        assert_whole(store)


def test_the_sidecar_is_rebuilt_from_chroma(tmp_path):
    """Proves: STORE-4."""
    with MemoryStore.open(tmp_path, embedder=Lengths()) as store:
        store.upsert([turn(n, "tab\t\x07 é") for n in range(300)])
        store.upsert([{"id": "m1", "kind": "fact", "text": "x", "attributes": {"a": [None]}}], tenant="t")
        store.delete(["m5"])
        before, other = content(store), list(store.scan(Scope(tenant="t")))
        generation = store.generation
    for file in tmp_path.glob("sidecar.sqlite3*"):
        file.unlink()
    with pytest.raises(StoreUnavailableError, match="sidecar is missing"):
        MemoryStore.open(tmp_path, embedder=Lengths(), read_only=True)
    with pytest.raises(EmbedderMismatchError):
        MemoryStore.open(tmp_path, embedder=Lengths("2"))
    with MemoryStore.open(tmp_path, embedder=Lengths(), create=False) as store:
        assert same(content(store), before)
        assert list(store.scan(Scope(tenant="t"))) == other and store.generation == generation
        assert_whole(store)


def test_paths_that_hold_no_store_are_typed_errors(tmp_path):
    """Proves: STORE-4."""
    file = tmp_path / "file"
    file.write_text("no store")
    for path, words in (
        (file, "is a file"),
        (file / "below", "below"),
        (tmp_path / "none", "no store there"),
    ):
        for read_only in (True, False):
            with pytest.raises(StoreUnavailableError, match=words):
                MemoryStore.open(path, embedder=Lengths(), create=False, read_only=read_only)
    with pytest.raises(StoreUnavailableError):
        MemoryStore.open(file / "below", embedder=Lengths())
    with pytest.raises(StoreUnavailableError):
        MemoryStore.open("a\x00b", embedder=Lengths())
    assert file.read_text() == "no store"


def test_no_store_is_made_among_sources(tmp_path):
    """Proves: MOVE-1."""
    sources = tmp_path / "memory"
    sources.mkdir()
    (sources / "__init__.py").touch()
    with pytest.raises(StoreUnavailableError, match="memory: holds the source of a Python package"):
        MemoryStore.open(sources, embedder=Lengths())
    assert [path.name for path in sources.iterdir()] == ["__init__.py"]
    (sources / "__init__.py").rename(tmp_path / "aside.py")
    MemoryStore.open(sources, embedder=Lengths()).close()
    (tmp_path / "aside.py").rename(sources / "__init__.py")
    MemoryStore.open(sources, embedder=Lengths()).close()  # what is a store already stays one


def test_a_damaged_sidecar_and_an_unknown_schema_are_typed_errors(tmp_path):
    """Proves: STORE-4."""
    MemoryStore.open(tmp_path, embedder=Lengths()).close()
    with sqlite3.connect(tmp_path / "sidecar.sqlite3") as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    connection.close()
    with pytest.raises(StoreUnavailableError, match="schema 99"):
        MemoryStore.open(tmp_path, embedder=Lengths())
    (tmp_path / "sidecar.sqlite3").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreUnavailableError, match="sidecar"):
        MemoryStore.open(tmp_path, embedder=Lengths(), read_only=True)


def test_erased_words_are_nowhere_on_disk_after_compaction(tmp_path):
    """Proves: STORE-6."""
    with MemoryStore.open(tmp_path, embedder=Lengths()) as store:
        store.upsert([turn(n, "zanzibarword") if n == 3 else turn(n) for n in range(8)])
        store.view(ALL).rows(store.view(ALL).rowids())
        store.delete(["m3"])
        store.maintenance.compact()
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        found = [file.name for file in files if b"zanzibarword" in file.read_bytes().lower()]
        assert found == []
        assert "zanzibarword" not in str(content(store))
        assert_whole(store)


def test_in_memory_stores_do_not_share_rows():
    """Proves: STORE-3, SEARCH-9."""
    with MemoryStore.in_memory(embedder=Lengths()) as one, MemoryStore.in_memory(embedder=Lengths()) as two:
        one.upsert([turn(1)])
        assert two.count() == 0
        two.upsert([turn(1), turn(2)])
        query = Lengths().embed_queries(["text 1"])
        assert one.view(ALL).nearest(query, 5) == [[1]] and two.view(ALL).nearest(query, 5) == [[1, 2]]
        two.delete(["m1"])
        assert two.view(ALL).nearest(query, 5) == [[2]]
        one.maintenance.rebuild()
        assert one.path is None and one.view(ALL).nearest(query, 5) == [[1]]
        assert_whole(one)


def test_chroma_errors_are_typed(tmp_path):
    """Proves: SEARCH-9."""
    (tmp_path / "chroma").write_text("file")
    with pytest.raises(ChromaError):
        ChromaIndex(tmp_path / "chroma", {})


@pytest.mark.timeout(300)
def test_vector_files_that_would_end_the_process_are_replaced_at_open(tmp_path):
    """Proves: STORE-4."""
    code = (
        "import os, signal\n"
        "from tests.integration.store.durability import test_store_durability as module\n"
        "from recall_loop.memory.store.store import MemoryStore\n"
        f"store = MemoryStore.open({str(tmp_path)!r}, embedder=module.Lengths())\n"
        "store.upsert([module.turn(n) for n in range(1200)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    run_forked(code)
    damaged = [file for file in (tmp_path / "chroma").rglob("*.bin") if file.stat().st_size]
    assert damaged
    for file in damaged:
        file.write_bytes(garbage(file.stat().st_size // 2, file.name))
    assert not vector_files_readable(tmp_path / "chroma")
    with MemoryStore.open(tmp_path, embedder=Lengths()) as store:
        assert_whole(store)
        assert len(store.view(ALL).nearest(np.ones((1, 4)), 3)[0]) == 3
