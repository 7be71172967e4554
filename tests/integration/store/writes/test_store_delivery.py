"""Chunks reach Chroma while the next one is prepared: nothing is lost, doubled or out of order by that."""

from __future__ import annotations

import signal
import threading

import pytest

from recall_loop.memory.store import record_writer
from recall_loop.memory.store.chroma import chroma_index
from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.write.group_commit import chroma_delivery
from recall_loop.state.errors import EmbedderError, StoreUnavailableError
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import run_forked

CHUNK = 10


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(record_writer, "UPSERT_CHUNK", CHUNK)


def turns(number, text="word"):
    return [
        {"id": f"m{n}", "kind": "message", "text": f"{text} {n}", "session": "s", "position": n} for n in range(number)
    ]


def assert_equal_sides(store, records):
    """Both sides hold the same rows at the same revisions, and nothing is pending."""
    assert store.degraded_reason is None and store.maintenance.info()["pending"] == 0
    with store._session.connection.searching() as chroma, store._session.database.reading() as connection:
        kept = set(connection.execute("SELECT key, rowid, revision FROM records"))
        assert len(kept) == records
        if chroma is not None:  # tables in PostgreSQL need none
            assert {(row.key, row.rowid, row.revision) for row in chroma.rows()} == kept


@pytest.mark.folder
def test_rows_between_chunks_reach_chroma_as_they_are_in_the_end(tmp_path):
    """Proves: STORE-2, STORE-7."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        assert [o.status for o in store.upsert(turns(45))] == ["created"] * 45
        assert_equal_sides(store, 45)
        # Written again within one call: each chunk changes rows of the one before.
        outcomes = store.upsert([*turns(45, "other"), *turns(45, "third"), *turns(45, "third")])
        assert [o.status for o in outcomes] == ["replaced"] * 90 + ["unchanged"] * 45
        assert_equal_sides(store, 45)
        assert threading.active_count() < 20 and not any("chroma" in t.name for t in threading.enumerate())


@pytest.mark.folder
def test_every_row_is_read_once_however_long_the_pages_are(tmp_path, monkeypatch):
    """Proves: STORE-7."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert(turns(45))
        whole = {row.key: row.vector for row in store._session.connection.chroma.rows(vectors=True)}
        for ids, batch in ((7, 3), (9, 45), (45, 10), (46, 1000)):
            monkeypatch.setattr(chroma_index, "_IDS", ids)
            monkeypatch.setattr(store._session.connection.chroma, "_batch", batch)
            found = list(store._session.connection.chroma.rows(vectors=True))
            assert len(found) == 45
            assert all((row.vector == whole[row.key]).all() for row in found)


@pytest.mark.folder
def test_chroma_failing_under_a_chunk_is_not_acknowledged_and_heals(tmp_path):
    """Proves: STORE-4, SEARCH-9."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        store.upsert(turns(1))
        store._session.connection.chroma._client.close()  # a real failure: its client is gone
        with pytest.raises(StoreUnavailableError, match="not acknowledged"):
            store.upsert(turns(35))
        assert store.degraded_reason is not None and 1 < store.count() <= 35
        store.upsert(turns(35))
        assert_equal_sides(store, 35)


@pytest.mark.folder
def test_what_was_committed_is_delivered_when_a_later_chunk_fails(tmp_path):
    """Proves: STORE-2, STORE-4."""

    class Failing(WordHashEmbedder):
        def embed_documents(self, texts):
            if any("m9x" in text for text in texts):
                raise EmbedderError("no vectors")
            return super().embed_documents(texts)

    def broken():
        yield from turns(20)
        raise OSError("the source is gone")

    with MemoryStore.open(tmp_path, embedder=Failing()) as store:
        with pytest.raises(EmbedderError):
            store.upsert([*turns(25), {"id": "x", "kind": "fact", "text": "m9x"}])
        assert_equal_sides(store, 20)
        with pytest.raises(OSError, match="source"):
            store.upsert(broken())
        assert_equal_sides(store, 20)


@pytest.mark.folder
def test_a_failed_delivery_is_reported_once_and_in_order():
    """Proves: STORE-4."""
    seen = []

    def deliver(rows):
        seen.append(rows)
        if rows == [2]:
            raise ChromaError("gone")

    with pytest.raises(ChromaError), chroma_delivery(deliver) as hand_over:
        for number in range(5):
            hand_over([number])
    assert seen == [[0], [1], [2]]
    with pytest.raises(ValueError, match="own"), chroma_delivery(deliver) as hand_over:
        hand_over([2])
        raise ValueError("own")


CHILD = """
import os, signal
from recall_loop.memory.store import record_writer
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.chroma.chroma_index import ChromaIndex
from tests.embedders import WordHashEmbedder
from tests.integration.store.writes.test_store_delivery import turns
record_writer.UPSERT_CHUNK = 10
calls, upsert = [], ChromaIndex.upsert
def dying(*args):
    calls.append(args)
    if len(calls) == 4 and not {after}: os.kill(os.getpid(), signal.SIGKILL)
    upsert(*args)
    if len(calls) == 4: os.kill(os.getpid(), signal.SIGKILL)
ChromaIndex.upsert = dying
store = MemoryStore.open({path!r}, embedder=WordHashEmbedder())
store.upsert(turns(15))
print("acknowledged", flush=True)
store.upsert(turns(45, "other"))
"""


@pytest.mark.folder
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_while_one_chunk_is_delivered_and_another_written_is_repaired(tmp_path, after):
    """Proves: STORE-4."""
    code = CHILD.format(path=str(tmp_path), after=after)
    child = run_forked(code)
    assert child.returncode == -signal.SIGKILL and child.stdout == "acknowledged\n", child.stderr
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        kept = {record.id: record.text for record in store.scan()}
        assert {f"m{n}" for n in range(15)} <= kept.keys() and len(kept) in (20, 30)
        assert_equal_sides(store, len(kept))
        store.upsert(turns(45, "other"))
        assert_equal_sides(store, 45)
