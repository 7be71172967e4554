"""How often records are recalled: counted in memory, kept by the store, erased with the record."""

from __future__ import annotations

import threading

import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.write import recall_counts
from recall_loop.state.errors import StoreUnavailableError
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder

HERE, ELSEWHERE = Scope(), Scope(tenant="elsewhere")


@pytest.fixture
def opened(tmp_path):
    def open_store(**options):
        return MemoryStore.open(tmp_path / "store", embedder=WordHashEmbedder(), **options)

    with open_store() as store:
        store.upsert([{"id": "a", "text": "the boat is red"}, {"id": "b", "text": "the kelp is dry"}])
        store.upsert([{"id": "a", "text": "the boat is blue"}], tenant="elsewhere")
    return open_store


def times(store, record_id="a", scope=HERE):
    return store.recalls(record_id, scope=scope).times


def test_retrievals_count_at_once_and_the_count_outlives_the_process(opened):
    """Proves: PAGE-1."""
    with opened() as store:
        assert (times(store), store.recalls("a", scope=HERE).last) == (0, None)
        given = [fact.id for _ in range(3) for fact in retrieve("Which boat is red?", store=store).facts]
        assert given.count("a") == 3 == times(store) and times(store, scope=ELSEWHERE) == 0
        first = store.recalls("a", scope=HERE)
    with opened() as store:
        assert store.recalls("a", scope=HERE) == first
        store.count_recalls(["a"])
        later = store.recalls("a", scope=HERE)
        assert later.times == 4 and first.last < later.last and later.since == first.since


def test_a_retrieval_writes_nothing_and_the_counts_follow_by_themselves(opened, monkeypatch):
    """Proves: PAGE-1."""
    written = threading.Event()
    monkeypatch.setattr(recall_counts, "_FLUSH_SECONDS", 0.3)
    with opened() as store, opened(read_only=True) as reader:
        add = store._session.add_recalls
        store._session.recalls._write = lambda rows: (add(rows), written.set())
        for _ in range(100):
            store.count_recalls(["a", "b", "gone"])
        assert not written.is_set() and times(reader) == 0
        assert written.wait(20)
        assert (times(reader), times(reader, "b"), times(reader, "gone")) == (100, 100, 0)


def test_who_only_reads_counts_nothing_and_says_so(opened):
    """Proves: PAGE-1."""
    with opened(read_only=True) as reader:
        assert retrieve("Which boat is red?", store=reader).facts
        found = reader.recalls("a", scope=HERE)
        assert (found.times, found.counting) == (0, False)
    with opened() as store:
        assert store.recalls("a", scope=HERE).counting


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("how", ["delete", "erase", "expire"])
def test_erasure_erases_the_count(opened, how, flushed):
    """Proves: PAGE-1, STORE-6."""
    with opened() as store:
        store.count_recalls(["a"])
        store.count_recalls(["a"], tenant="elsewhere")
        if flushed:
            store._session.recalls.flush()
        if how == "delete":
            store.delete(["a"])
        elif how == "erase":
            store.erase(HERE)
        else:
            store._session.recalls.flush()
            store.upsert([{"id": "a", "text": "the boat is red", "expires_at": "2020-01-01"}])
            assert times(store) == 0
        store.upsert([{"id": "a", "text": "another boat"}])
        assert (times(store), times(store, scope=ELSEWHERE)) == (0, 1)
        assert store.maintenance.verify().findings == ()
    with opened() as store:
        assert (times(store), times(store, scope=ELSEWHERE)) == (0, 1)


def test_changing_a_record_keeps_its_count(opened):
    """Proves: PAGE-1."""
    with opened() as store:
        store.count_recalls(["a"])
        store.update("a", {"text": "the boat is green"})
        assert times(store) == 1


def test_counts_that_cannot_be_written_are_kept_for_the_next_time(opened, caplog):
    """Proves: PAGE-1."""
    with opened() as store:
        add, counter = store._session.add_recalls, store._session.recalls

        def fail(rows):
            raise StoreUnavailableError("the disk is full")

        counter._write = fail
        store.count_recalls(["a"])
        counter.flush()
        assert "written later: the disk is full" in caplog.text and times(store) == 1
        counter._write = add
    with opened(read_only=True) as reader:
        assert times(reader) == 1
