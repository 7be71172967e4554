"""A store that gets another embedder: chunk by chunk, whatever cuts it off, in a folder and in PostgreSQL (OPEN-3)."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.moving.move_store import move_store
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.write import staged_vectors
from recall_loop.state.errors import EmbedderMismatchError, StoreUnavailableError
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder, word_direction
from tests.processes.forked_process import forked_command, run_forked_command

TENANTS = ("acme", "isle")
ASKED = ("Where is boat 7 moored?", "lighthouse", "What did line 40 say?", "the storm took it")
# Three chunks and a part of a fourth.
CHUNK = 64
EACH = 100


class Words(WordHashEmbedder):
    """An embedder with token vectors, whose versions give other vectors; counts its texts, and may be slow."""

    token_dimension = 32

    def __init__(self, version, *, pause=0.0):
        self.fingerprint, self.version, self.pause = f"words:{version}", version, pause
        self.embedded = []

    def _matrix(self, text):
        words = [word_direction(f"{self.version} {word}", 32) for word in text.lower().split()]
        return np.array(words or np.ones((1, 32)), dtype=np.float32)

    def embed_documents(self, texts):
        return self.embed_documents_with_tokens(texts)[0]

    def embed_documents_with_tokens(self, texts):
        time.sleep(self.pause if len(texts) > 1 else 0)
        self.embedded += texts
        tokens = [self._matrix(text) for text in texts]
        vectors = np.array([matrix.sum(axis=0) for matrix in tokens], dtype=np.float32).reshape(len(texts), 32)
        return _units(vectors), [_units(matrix) for matrix in tokens]

    embed_queries, embed_queries_with_tokens = embed_documents, embed_documents_with_tokens


def _units(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def records():
    talk = [
        {"id": f"m{n}", "kind": "message", "text": f"Line {n} about the pier.", "session": f"s{n // 9}", "position": n}
        for n in range(EACH // 2)
    ]
    facts = [{"id": f"f{n}", "kind": "fact", "text": f"Boat {n} is moored at berth {n * 3}."} for n in range(EACH // 2)]
    run = {"id": "f3", "kind": "trajectory", "text": "Find the lighthouse.\n" + "The lighthouse is dark.\n" * 90}
    return [*talk, *facts[:3], run, *facts[4:]]


def fill(place):
    """Write a store of 200 records by the first embedder."""
    with MemoryStore.open(place, embedder=Words("1")) as store:
        for tenant in TENANTS:
            store.upsert(records(), tenant=tenant)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Have fewer records embedded at once: what cuts a run off cuts it between or within chunks of any size."""
    monkeypatch.setattr(staged_vectors, "_CHUNK", CHUNK)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A closed store in a folder, to be copied."""
    path = tmp_path_factory.mktemp("filled") / "store"
    fill(path)
    return path


@pytest.fixture(params=["folder", "postgres"])
def place(request, tmp_path):
    """Where a store is that was filled."""
    if request.param == "folder":
        return str(shutil.copytree(request.getfixturevalue("filled"), tmp_path / "store"))
    found = request.getfixturevalue("address")
    fill(found)
    return found


CHILD = """
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.write import staged_vectors
from tests.integration.shared.test_re_embedding import CHUNK, Words
staged_vectors._CHUNK = CHUNK
def tell(done, total): print(done, total, flush=True)
MemoryStore.open(sys.argv[1], embedder=Words("2", pause=0.4), re_embed=True, progress=tell)
"""


def killed(run_script, place):
    """Embed a store again in a process that is killed in the middle of its third chunk."""
    process = run_script(CHILD, place)
    assert [process.stdout.readline() for _ in range(3)] == ["0 200\n", "64 200\n", "128 200\n"]
    time.sleep(0.1)
    process.kill()
    assert process.stdout.read() == ""
    process.wait(30)


class CutOff(Exception):
    """Raised by whoever shows the progress: embedding ends there."""


def cut_off(place, embedder, after):
    """Embed a store again until so many records are embedded, as far as one that is closed properly."""

    def tell(done, total):
        if done >= after:
            raise CutOff

    with pytest.raises(CutOff):
        MemoryStore.open(place, embedder=embedder, re_embed=True, progress=tell)


def resumed(place, embedder):
    """Embed the rest; return the progress that was told."""
    seen = []
    MemoryStore.open(place, embedder=embedder, re_embed=True, progress=lambda *told: seen.append(told)).close()
    return seen


def staged(store):
    """Return the ids of records whose new vectors are kept aside, by tenant."""
    rows = store._session.database.fetch("SELECT r.tenant, r.id FROM reembedded s JOIN records r ON r.rowid = s.rowid")
    return {tenant: {name for other, name in rows if other == tenant} for tenant in TENANTS}


def has_leftovers(store):
    """Tell whether there is a table or a note of what is kept aside."""
    database = store._session.database
    if database.file is not None:
        known = "SELECT 1 FROM sqlite_master WHERE name LIKE '%reembedded%'"
    else:
        known = "SELECT 1 FROM pg_tables WHERE tablename = 'reembedded' AND schemaname = current_schema()"
    return bool(database.fetch(known)) or "re_embedding" in database.meta()


_CONTENT = """SELECT r.tenant, r.id, b.record, b."window", v.own, v.context, t.vectors, p.vectors, f.facets, f."window"
FROM records r JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid JOIN fts f ON f.rowid = r.rowid
LEFT JOIN tokens t ON t.rowid = r.rowid LEFT JOIN pieces p ON p.rowid = r.rowid"""


def content(store):
    return sorted(store._session.database.fetch(_CONTENT))


def answers(store):
    found = {}
    for tenant in TENANTS:
        for query in ASKED:
            hits = search(store, query, scope=Scope(tenant=tenant)).hits
            found[tenant, query] = [(hit.record.id, round(hit.score, 4)) for hit in hits]
    return found


def assert_freshly_embedded(place, embedder):
    """Check that a store answers as a new one with the same records, and that nothing is left aside."""
    with MemoryStore.open(place, embedder=embedder) as store, MemoryStore.in_memory(embedder=embedder) as fresh:
        for tenant in TENANTS:
            fresh.upsert(list(store.scan(Scope(tenant=tenant))), tenant=tenant)
        assert content(store) == content(fresh) and answers(store) == answers(fresh)
        assert store.maintenance.verify().findings == () and not has_leftovers(store)


def test_a_killed_run_leaves_the_store_as_it_was_and_the_next_embeds_the_rest(place, run_script):
    """Proves: OPEN-3."""
    with MemoryStore.open(place, embedder=Words("1")) as store:
        before = store.generation, content(store), answers(store)
    killed(run_script, place)
    with MemoryStore.open(place, embedder=Words("1")) as store:
        assert (store.generation, content(store), answers(store)) == before
        assert staged(store) == {"acme": {record["id"] for record in records()}, "isle": {f"m{n}" for n in range(28)}}
        assert store.maintenance.info()["records"] == 200 and store.maintenance.verify().findings == ()
    with pytest.raises(EmbedderMismatchError):
        MemoryStore.open(place, embedder=Words("2"))
    embedder = Words("2")
    seen = resumed(place, embedder)
    assert seen[:3] == [(128, 200), (192, 200), (200, 200)] and set(seen[3:]) <= {(200, 200)}
    assert len([text for text in embedder.embedded if "Line" in text or "Boat" in text]) == 71  # and the long one
    assert_freshly_embedded(place, Words("2"))


DYING = """
import os, signal
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.write import staged_vectors
from tests.integration.shared.test_re_embedding import CHUNK, Words
staged_vectors._CHUNK = CHUNK
original, pages = staged_vectors.reindex, []
def dying(*args):
    original(*args)
    pages.append(args)
    if len(pages) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
staged_vectors.reindex = dying
MemoryStore.open(sys.argv[1], embedder=Words("2"), re_embed=True)
"""


def test_a_run_that_is_killed_in_its_last_transaction_has_embedded_all(place, run_script):
    """Proves: OPEN-3."""
    with MemoryStore.open(place, embedder=Words("1")) as store:
        before = store.generation, content(store), answers(store)
    assert run_script(DYING, place).wait(60) == -signal.SIGKILL
    with MemoryStore.open(place, embedder=Words("1")) as store:
        assert (store.generation, content(store), answers(store)) == before
    embedder = Words("2")
    assert set(resumed(place, embedder)) == {(200, 200)} and embedder.embedded == []
    assert_freshly_embedded(place, Words("2"))


def test_records_that_change_between_the_runs_are_embedded_as_they_are(place, run_script):
    """Changed, deleted and new ones, whether they were embedded or not; compaction between. Proves: OPEN-3, STORE-6."""
    killed(run_script, place)
    with MemoryStore.open(place, embedder=Words("1")) as store:
        store.update("m3", {"text": "The storm took it."}, tenant="acme")
        store.delete(["m5", "f7"], tenant="acme")
        store.update("f9", {"text": "The storm took it, too."}, tenant="isle")
        store.delete(["f11"], tenant="isle")
        store.upsert([{"id": f"new{n}", "text": f"A storm came in year {n}."} for n in range(4)], tenant="isle")
        assert "m5" not in staged(store)["acme"]
        store.maintenance.compact()
        assert sum(map(len, staged(store).values())) == 125
    embedder = Words("2")
    assert resumed(place, embedder)[0] == (125, 201)
    assert len(embedder.embedded) == 201 - 125 + len(_pieces(place))
    assert_freshly_embedded(place, Words("2"))


def _pieces(place):
    """Return the pieces of the one long record of tenant isle, which are texts of their own."""
    with MemoryStore.open(place, embedder=Words("2"), read_only=True) as store:
        query = "SELECT p.vectors FROM pieces p JOIN records r ON r.rowid = p.rowid WHERE r.tenant = 'isle'"
        ((vectors,),) = store._session.database.fetch(query)
        return range(len(vectors) // 64)


def test_another_embedder_begins_anew(place):
    """It replaces what the one before has left; the rest of that still fits. Proves: OPEN-3."""
    cut_off(place, Words("2"), 128)
    cut_off(place, Words("3"), 64)
    with MemoryStore.open(place, embedder=Words("1")) as store:
        rows = store._session.database.fetch("SELECT target, count(*) FROM reembedded GROUP BY 1 ORDER BY 1")
        assert [(target[:9], count) for target, count in rows] == [('["words:2', 64), ('["words:3', 64)]
    embedder = Words("2")
    assert resumed(place, embedder)[0] == (64, 200) and len(embedder.embedded) > 136
    assert_freshly_embedded(place, Words("2"))


def test_no_row_of_another_embedder_is_taken_over(place):
    """Proves: OPEN-3."""
    cut_off(place, Words("2"), 128)
    assert resumed(place, Words("3"))[0] == (0, 200)
    assert_freshly_embedded(place, Words("3"))


def test_the_same_embedder_goes_on_too_and_others_may_write_meanwhile(place):
    """A rebuild of an open store; what is written while it embeds is in the end embedded once more. Proves: OPEN-3."""
    cut_off(place, Words("2"), 64)
    seen = []

    def tell(done, total):
        seen.append((done, total))
        if len(seen) == 2:
            store.update("m3", {"text": "The storm took it."}, tenant="acme")
            store.delete(["m4", "f8"], tenant="acme")
            store.upsert([{"id": "late", "text": "A lighthouse was built."}], tenant="isle")

    with MemoryStore.open(place, embedder=Words("1")) as store:
        new = Words("2")
        store.maintenance.rebuild(embedder=new, embedding=tell)
        assert seen[0] == (64, 200) and store.embedder is new
        assert len(new.embedded) < 200 - 64 + 2 + 3 * 3
        store.upsert([{"id": "after", "text": "It was painted red."}], tenant="isle")
    assert_freshly_embedded(place, Words("2"))


def test_a_move_leaves_what_is_kept_aside_behind(place, tmp_path):
    """Proves: OPEN-3, HOST-4."""
    cut_off(place, Words("2"), 64)
    move_store(place, tmp_path / "moved", embedder=Words("1"))
    with MemoryStore.open(tmp_path / "moved", embedder=Words("1")) as store:
        assert not has_leftovers(store)
    embedder = Words("2")
    assert resumed(str(tmp_path / "moved"), embedder)[0] == (0, 200)
    assert_freshly_embedded(tmp_path / "moved", Words("2"))


def test_a_damaged_text_keeps_no_run_from_its_end(tmp_path):
    """Proves: OPEN-3, GUARD-6."""
    with MemoryStore.open(tmp_path, embedder=Words("1")) as store:
        store.upsert(records(), tenant="acme")
    with closing(sqlite3.connect(tmp_path / "sidecar.sqlite3")) as connection, connection:
        connection.execute("UPDATE bodies SET record = replace(record, 'Line 7 ', 'Lime 7 ')")
    cut_off(tmp_path, Words("2"), 64)
    with MemoryStore.open(tmp_path, embedder=Words("1")) as store:
        assert len(staged(store)["acme"]) == 63
    assert resumed(tmp_path, Words("2"))[-1] == (100, 100)
    with MemoryStore.open(tmp_path, embedder=Words("2")) as store:
        assert store.maintenance.info()["fingerprint"] == "words:2" and not has_leftovers(store)


def test_two_processes_of_different_embedders_are_told(address):
    """The later one goes on alone. Proves: OPEN-3, HOST-2."""
    with MemoryStore.open(address, embedder=Words("1")) as store:
        store.upsert(records(), tenant="acme")

    def intrude(done, total):
        if done == 64:
            cut_off(address, Words("3"), 64)

    with pytest.raises(StoreUnavailableError, match="embedded elsewhere meanwhile, or another"):
        MemoryStore.open(address, embedder=Words("2"), re_embed=True, progress=intrude)
    assert resumed(address, Words("3"))[0] == (64, 100)


@pytest.mark.slow
def test_the_command_says_what_it_takes_up(tmp_path):
    """Killed and named once more, both times in a process of its own. Proves: OPEN-3."""
    with MemoryStore.open(tmp_path, embedder=Words("1")) as store:
        lines = [f"{n} boats of {n * 7} were seen from the pier" for n in range(600)]
        store.upsert([{"id": f"m{n}", "text": text} for n, text in enumerate(lines)])
    words = ["store", "rebuild", "--re-embed", "--store", str(tmp_path)]
    with forked_command(*words) as process:
        while not (found := _count(tmp_path / "sidecar.sqlite3")):
            assert process.poll() is None
            time.sleep(0.02)
    done = run_forked_command(*words)
    assert done.returncode == 0, done.stderr
    first, *others = done.stderr.splitlines()
    assert first == f"resuming: {found} of 600 are embedded already" and found in (256, 512)
    assert all(line.startswith("embed: ") for line in others) and done.stdout.startswith("Rebuilt; generation ")
    with MemoryStore.open(tmp_path) as store:
        assert store.maintenance.info()["fingerprint"] == store.embedder.fingerprint
        assert json.dumps(store.maintenance.verify().as_json()["findings"]) == "[]"


def _count(file: Path) -> int:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'reembedded'").fetchone():
            return 0
        return int(connection.execute("SELECT count(*) FROM reembedded").fetchone()[0])
