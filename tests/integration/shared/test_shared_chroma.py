"""Vectors of a store in PostgreSQL on their way to a Chroma server (HOST-1 to HOST-3)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from chromadb import HttpClient

from recall_loop.memory.store.chroma import chroma_index
from recall_loop.memory.store.index import vector_search
from recall_loop.memory.store.shared import outbox
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from tests.chroma_server import ChromaProcess
from tests.embedders import WordHashEmbedder

WRITER = """
import time
from recall_loop.memory.store.store import MemoryStore
from tests.embedders import WordHashEmbedder
store = MemoryStore.open(sys.argv[1], embedder=WordHashEmbedder())
store._session.connection.disconnect()  # it dies before it sends anything
for at in range(20):
    store.upsert([{"id": f"child{at}", "text": f"number {at} of the child"}])
    print(at, flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaProcess]:
    """One Chroma server for every test here; stores keep collections of their own in it."""
    made = ChromaProcess(tmp_path_factory.mktemp("chroma"))
    yield made
    made.kill()


@pytest.fixture
def chroma(server: ChromaProcess) -> ChromaProcess:
    """The server, running; started again where a test that kills it has failed."""
    if not server.is_running():
        server.start()
    return server


def opened(place: str, chroma: ChromaProcess) -> MemoryStore:
    return MemoryStore.open(place, embedder=WordHashEmbedder(), url=chroma.url)


def until(done: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it doesn't happen"
        time.sleep(0.05)


def is_delivered(store: MemoryStore) -> bool:
    return store.maintenance.info()["pending"] == 0


def sides_are_equal(store: MemoryStore) -> bool:
    report = store.maintenance.verify()
    return report.findings == () and report.notes == () and report.records == report.chroma_rows


def nearest(store: MemoryStore, text: str, limit: int = 3) -> list[str]:
    view = store.view(Scope())
    rowids = view.nearest(store.embedder.embed_queries([text]), limit)[0]
    return [row.record.id for row in view.rows(rowids).values()]


def numbered(start: int, end: int) -> list[dict[str, object]]:
    return [{"id": f"r{at}", "text": f"number {at} word{at}", "kind": "archival"} for at in range(start, end)]


def test_what_is_written_replaced_and_deleted_reaches_the_server(address, chroma):
    """Proves: HOST-1, HOST-2."""
    with opened(address, chroma) as store:
        store.upsert(numbered(0, 300))
        store.upsert([{"id": "r7", "text": "something else", "kind": "archival"}])
        store.delete(["r8", "r9"])
        store.upsert([{"id": "r9", "text": "back again", "kind": "archival"}])
        until(lambda: is_delivered(store))
        assert sides_are_equal(store) and store.degraded_reason is None


def test_a_search_finds_what_the_server_has_not_heard_of_yet(address, chroma, monkeypatch):
    """Proves: HOST-2. Written and replaced records are compared as they are, deleted ones left out."""
    monkeypatch.setattr(vector_search, "_SMALL_SHARE", 0.0)  # or so few would all be compared anyway
    with opened(address, chroma) as store:
        store.upsert(numbered(0, 150))
        until(lambda: is_delivered(store))
        assert nearest(store, "word17", 1) == ["r17"]
        store._session.connection.disconnect()  # nobody sends from now on
        store.upsert([*numbered(150, 160), {"id": "r17", "text": "quite other words now", "kind": "archival"}])
        store.delete(["r18"])
        assert store.maintenance.info()["pending"] == 11
        assert nearest(store, "word155", 1) == ["r155"] and nearest(store, "quite other words now", 1) == ["r17"]
        assert "r18" not in nearest(store, "word18", 150)
        every = store.view(Scope())
        queries = store.embedder.embed_queries([f"word{at} number" for at in (3, 17, 18, 152)])
        exact = vector_search.search_exhaustively(lambda rows: every.vectors(rows)[1], queries, every.rowids(), 10)
        for found, best in zip(every.nearest(np.asarray(queries), 10), exact, strict=True):
            assert found[:5] == best[:5] and len(found) == 10  # many are equally far away further down


def test_what_a_killed_process_left_is_sent_by_another(address, chroma, run_script):
    """Proves: HOST-2, HOST-3. Its claims end by themselves."""
    with opened(address, chroma) as store:
        child = run_script(WRITER, address)
        for _ in range(20):
            assert child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        with store._session.database.transaction() as connection:  # as if it had died with a claim in its hands
            soon = time.time_ns() // 1000 + 1_000_000
            connection.execute("UPDATE records SET state = 1, claimed_until = ? WHERE id = 'child3'", (soon,))
        until(lambda: is_delivered(store))
        assert len(list(store.scan(Scope()))) == 20 and sides_are_equal(store)


def test_writes_go_on_while_the_server_is_away_and_it_catches_up(address, chroma, monkeypatch):
    """Proves: HOST-3, SEARCH-9. The store says that it works with less, answers exactly, and heals by itself."""
    monkeypatch.setattr(vector_search, "_SMALL_SHARE", 0.0)
    with opened(address, chroma) as store:
        store.upsert(numbered(0, 120))
        until(lambda: is_delivered(store))
        chroma.kill()
        store.upsert(numbered(120, 140))
        assert nearest(store, "word130", 1) == ["r130"]
        assert nearest(store, "word3", 1) == ["r3"]  # what the server had is compared too, however much is new
        until(lambda: store.degraded_reason is not None)
        assert "127.0.0.1" not in str(store.degraded_reason)
        chroma.start()
        until(lambda: is_delivered(store) and store.degraded_reason is None)
        assert sides_are_equal(store)


def test_a_server_may_come_later_and_a_rebuild_begins_a_new_collection(address, chroma):
    """Proves: HOST-1. What was written without one is sent to it; old collections go."""
    with MemoryStore.open(address, embedder=WordHashEmbedder()) as store:
        store.upsert(numbered(0, 30))
    of_others = {one.name for one in HttpClient("127.0.0.1", chroma.port).list_collections()}
    with opened(address, chroma) as store:
        until(lambda: is_delivered(store))
        assert sides_are_equal(store)
        store.maintenance.compact()
        until(lambda: is_delivered(store))
        assert sides_are_equal(store)
        with store._session.connection.searching() as index:
            assert index is not None
            names = {one.name for one in index._client.list_collections() if "deleted" not in one.name}
            assert len(names - of_others) == 1


def test_a_deletion_waits_for_the_record_that_is_being_sent(address):
    """Proves: HOST-2. Else the record might arrive after its deletion, and stay."""
    with MemoryStore.open(address, embedder=WordHashEmbedder()) as store:
        database = store._session.database
        store.upsert(numbered(0, 2))
        sending = outbox.claim(database)
        assert {row.rowid for row in sending.rows} and not outbox.claim(database)
        store.delete(["r0"])
        assert not outbox.claim(database).deleted
        outbox.settle(database, sending)
        heard = outbox.claim(database)
        assert len(heard.deleted) == 1 and not heard.rows
        outbox.settle(database, heard)
        assert outbox.count_waiting(database) == (0, 0)


def test_a_record_written_anew_waits_for_the_deletion_that_is_being_sent(address):
    """Proves: HOST-2. Else the deletion might arrive after the record, and take it away."""
    with MemoryStore.open(address, embedder=WordHashEmbedder()) as store:
        database = store._session.database
        store.upsert(numbered(0, 1))
        outbox.settle(database, outbox.claim(database))
        store.delete(["r0"])
        deleting = outbox.claim(database)
        assert len(deleting.deleted) == 1
        store.upsert(numbered(0, 1))
        assert not outbox.claim(database)
        outbox.settle(database, deleting)
        assert len(outbox.claim(database).rows) == 1


def test_what_could_not_be_sent_is_free_again_at_once(address):
    """Proves: HOST-2."""
    with MemoryStore.open(address, embedder=WordHashEmbedder()) as store:
        database = store._session.database
        store.upsert(numbered(0, 3))
        claimed = outbox.claim(database)
        store.delete(["r0"])
        outbox.release(database, claimed)
        again = outbox.claim(database)
        assert len(again.rows) == 2 and len(again.deleted) == 1


def test_an_idle_process_sends_to_the_collection_that_another_has_begun(address, chroma):
    """Proves: HOST-2. Nothing is taken for sent that went to a collection of an earlier generation."""
    with opened(address, chroma) as one, opened(address, chroma) as idle:
        one.upsert(numbered(0, 60))
        until(lambda: is_delivered(one))
        for _ in range(2):
            one.maintenance.compact()
            idle._session.connection.flush_after_commit()
            until(lambda: is_delivered(one))
            assert sides_are_equal(one)


def lapse(store: MemoryStore) -> None:
    """Let time pass until every claim has lapsed."""
    with store._session.database.transaction() as connection:
        for table in ("records", "tombstones"):
            connection.execute(f"UPDATE {table} SET claimed_until = 1 WHERE claimed_until > 0")


def test_a_claim_that_has_lapsed_acknowledges_and_releases_nothing(address):
    """What another has claimed since stays that one's. Proves: HOST-2."""
    with (
        MemoryStore.open(address, embedder=WordHashEmbedder()) as one,
        MemoryStore.open(address, embedder=WordHashEmbedder()) as other,
    ):
        slow, quick = one._session.database, other._session.database
        one.upsert(numbered(0, 3))
        one.delete(["r2"])
        late = outbox.claim(slow)
        lapse(one)
        taken = outbox.claim(quick)
        assert (len(taken.rows), len(taken.gone)) == (2, 1)
        outbox.settle(slow, late)
        assert outbox.count_waiting(slow) == (2, 1) and not outbox.claim(slow)
        outbox.settle(quick, taken)
        assert outbox.count_waiting(slow) == (0, 0) and not outbox.claim(slow)


def test_a_claim_is_kept_while_a_slow_server_is_sent_to(address, monkeypatch):
    """Else two processes would send the same rows in turns, and acknowledge none. Proves: HOST-2."""
    with MemoryStore.open(address, embedder=WordHashEmbedder()) as store:
        database = store._session.database
        store.upsert(numbered(0, 3))
        store.delete(["r2"])
        claimed = outbox.claim(database)
        lapse(store)
        outbox.keep(database, claimed)  # too soon to ask
        monkeypatch.setattr(outbox, "_KEPT_AFTER_SECONDS", 0)
        outbox.keep(database, claimed)
        assert not outbox.claim(database)
        lapse(store)
        taken = outbox.claim(database)
        lapse(store)
        outbox.keep(database, claimed)
        assert len(outbox.claim(database).rows) == len(taken.rows) == 2


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_slow_process_sends_late_is_sent_again(address, chroma, fails):
    """An older record, one that was deleted, and a deletion of one that is back come last. Proves: HOST-2, HOST-3."""
    with opened(address, chroma) as one, opened(address, chroma) as other:
        one.upsert([*numbered(0, 3), *numbered(7, 8)])
        until(lambda: is_delivered(one))
        for store in (one, other):
            store._session.connection.disconnect()  # only what follows sends
        database, index = one._session.database, other._session.connection._opened()
        one.upsert([{"id": name, "text": "the first words"} for name in ("r0", "r1")])
        one.delete(["r2"])
        late = outbox.claim(database)
        assert len(late.rows) == 2 and len(late.gone) == 1
        lapse(one)
        one.upsert([{"id": name, "text": "the last words"} for name in ("r0", "r2")])
        one.delete(["r1"])
        while other._session.connection._send_once():
            pass
        assert is_delivered(other) and sides_are_equal(other)
        index.delete(late.gone)
        index.upsert(late.rows)
        assert not sides_are_equal(other)
        (outbox.release if fails else outbox.settle)(database, late)
        while other._session.connection._send_once():
            pass
        assert is_delivered(other) and sides_are_equal(other)


def test_a_reader_knows_how_many_rows_others_have_sent(address, chroma, monkeypatch):
    """Else it would compare every vector where it had better ask the server. Proves: HOST-2, SEARCH-9."""
    monkeypatch.setattr(chroma_index, "SIZE_SECONDS", 0.2)
    with (
        opened(address, chroma) as writer,
        MemoryStore.open(address, embedder=WordHashEmbedder(), read_only=True) as reader,
    ):
        writer.upsert(numbered(0, 1))
        until(lambda: is_delivered(writer))
        with reader._session.connection.searching() as index:
            assert index is not None and index.size() == 1
            writer.upsert(numbered(1, 300))
            until(lambda: is_delivered(writer))
            until(lambda: index.size() == 300, 10)
            assert len(index.nearest(np.asarray(reader.embedder.embed_queries(["word17"])), index.size())[0]) == 300


def test_a_rebuild_lets_others_end_what_they_do_with_the_server(address, chroma):
    """Its connection isn't closed under a search or a delivery. Proves: HOST-2, SEARCH-9."""
    with opened(address, chroma) as store:
        store.upsert(numbered(0, 30))
        until(lambda: is_delivered(store))
        queries = np.asarray(store.embedder.embed_queries(["word17"]))
        with store._session.connection.searching() as index:
            assert index is not None
            store._session.connection.rebuild(None)
            assert len(index.nearest(queries, 3)[0]) == 3
        with store._session.connection.searching() as newer:
            assert newer is not index and len(newer.nearest(queries, 3)[0]) == 3
        store._session.connection.rebuild(None)
        assert nearest(store, "word17", 1) == ["r17"]
        assert store.degraded_reason is None


def test_a_dump_restored_beside_its_original_leaves_its_collection_alone(address, postgres, chroma):
    """Proves: HOST-2 (the copy becomes a store of its own; before, readers compare its vectors one by one)."""
    with opened(address, chroma) as store:
        store.upsert(numbered(0, 5))
        until(lambda: is_delivered(store))
    restored = postgres.restored(address)
    with MemoryStore.open(restored, embedder=WordHashEmbedder(), read_only=True) as reader:
        assert nearest(reader, "number 3 word3")[0] == "r3"
        assert reader._session.files.chroma_location() is None
    with opened(restored, chroma) as copy, opened(address, chroma) as store:
        copy.delete(["r3"])
        until(lambda: is_delivered(copy))
        assert sides_are_equal(copy) and copy.maintenance.verify().chroma_rows == 4
        assert sides_are_equal(store) and store.maintenance.verify().chroma_rows == 5
    with opened(restored, chroma) as again:
        assert sides_are_equal(again)
