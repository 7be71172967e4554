"""Processes and PostgreSQL die at any moment: nothing acknowledged is lost, nothing is half-written (HOST-3)."""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.index import row_queries
from recall_loop.memory.store.postgres import postgres_address
from recall_loop.memory.store.postgres.postgres_connection import typed_errors
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import RecallError, StoreUnavailableError
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder
from tests.waiting import wait_until

WRITER = """
from recall_loop.memory.store.store import MemoryStore
from tests.embedders import WordHashEmbedder
place, name = sys.argv[1:]
store = MemoryStore.open(place, embedder=WordHashEmbedder())
at = 0
while True:
    batch = [{"id": f"{name}-{at}-{part}", "text": f"{name} {at} {part}", "conversation_id": "c"} for part in range(5)]
    store.upsert(batch, tenant=name)
    print(at, flush=True)
    at += 1
"""


def opened(place: str) -> MemoryStore:
    return MemoryStore.open(place, embedder=WordHashEmbedder())


def batches(store: MemoryStore, tenant: str) -> dict[int, int]:
    """Return how many records there are of each batch of a writer."""
    found: dict[int, int] = {}
    for record in store.scan(Scope(tenant=tenant)):
        number = int(record.id.split("-")[1])
        found[number] = found.get(number, 0) + 1
    return found


@pytest.mark.slow
def test_killed_writers_leave_whole_batches(address, run_script):
    """Proves: HOST-3. What a killed process had acknowledged is there; another goes on with its tenant at once."""
    chance, acknowledged = random.Random(7), dict[str, int]()
    opened(address).close()
    for turn in range(4):
        running = {name: run_script(WRITER, address, name) for name in ("one", "two")}
        first = {name: int(process.stdout.readline()) for name, process in running.items()}
        for name, process in running.items():  # both write by now, and the other goes on while one dies
            time.sleep(chance.random() * 0.3)  # some dozen batches
            process.send_signal(signal.SIGKILL)
            last = max([first[name], *(int(line) for line in process.stdout.read().split())])
            acknowledged[name] = max(acknowledged.get(name, -1), last)
        with opened(address) as store:
            for name, last in acknowledged.items():
                found = batches(store, name)
                assert set(range(last + 1)) <= found.keys() and set(found.values()) == {5}, (turn, name)
            assert store.maintenance.verify().findings == ()


def test_a_restart_of_postgresql_is_a_typed_error_at_most(address, postgres):
    """Proves: HOST-3. Each request is answered or fails with a typed error; then everything goes on by itself."""
    acknowledged: list[int] = []
    failed: list[Exception] = []
    stop = threading.Event()
    with opened(address) as store:
        numbers = itertools.count(1)

        def write() -> None:
            at = next(numbers)
            store.upsert([{"id": f"r{at}", "text": f"number {at}"}])
            acknowledged.append(at)

        def repeat(request: Callable[[], object]) -> None:
            while not stop.is_set():
                try:
                    request()
                except Exception as error:  # noqa: BLE001  # every kind is looked at below
                    failed.append(error)

        def read() -> None:
            store.get(["r1"], scope=Scope())

        threads = [threading.Thread(target=repeat, args=(request,)) for request in (write, read)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                _more(acknowledged, 5)
                postgres.stop()
                time.sleep(0.2)
                postgres.start()
            _more(acknowledged, 1)
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert all(isinstance(error, RecallError) for error in failed), failed
        stored = {record.id for record in store.scan(Scope())}
        assert {f"r{at}" for at in acknowledged} <= stored


def _more(acknowledged: list[int], number: int) -> None:
    """Wait until so many writes more are acknowledged."""
    before = len(acknowledged)
    wait_until(lambda: len(acknowledged) >= before + number, 60)


def test_a_failed_write_is_told_without_addresses_and_only_until_postgresql_answers(address, caplog):
    """Proves: HOST-3, SEARCH-9. It has left nothing behind; what the driver says names hosts, ports and paths."""
    with opened(address) as store:
        store.upsert([{"id": "a", "text": "the ferry"}])
        with pytest.raises(StoreUnavailableError, match="from nowhere:5432"), store._session.writing([]):
            raise_as_the_driver("from nowhere:5432")
        assert store.degraded_reason == "the last write failed: PostgreSQL can't be written"
        assert "from nowhere:5432" in (store.degraded_detail or "") and "from nowhere:5432" in caplog.text
        assert store.count() == 1
        assert store.degraded_reason is None and store.degraded_detail is None
        with pytest.raises(StoreUnavailableError), store._session.writing([]):
            raise_as_the_driver("again")
        assert store.maintenance.probe() is None


def raise_as_the_driver(words: str) -> None:
    with typed_errors("PostgreSQL can't be written"):
        raise psycopg.OperationalError(words)


def test_a_connection_lost_during_a_write_loses_its_lock_and_writes_nothing(address, postgres):
    """Proves: HOST-2, HOST-3. Else another process might write between what is read and what is written."""
    with opened(address) as store, pytest.raises(StoreUnavailableError), store.exclusive():
        with psycopg.connect(postgres.url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        with pytest.raises(StoreUnavailableError):
            store.upsert([{"id": "a", "text": "the ferry"}])
        store.upsert([{"id": "a", "text": "the ferry"}])  # nor is the lock there for a second attempt
    with opened(address) as store:
        assert list(store.scan(Scope())) == []
        store.upsert([{"id": "a", "text": "the ferry"}])
        assert [record.id for record in store.scan(Scope())] == ["a"]


def test_a_lock_that_is_not_got_leaves_no_other_behind(address, monkeypatch):
    """Proves: HOST-2. Who has waited in vain for one tenant keeps nobody from the store."""
    monkeypatch.setattr(postgres_address, "LOCK_SECONDS", 1)
    with opened(address) as one, opened(address) as other:
        with one.exclusive("t"), pytest.raises(StoreUnavailableError, match="lock timeout"):
            other.upsert([{"id": "a", "text": "the ferry"}], tenant="t")
        one.maintenance.sweep()
        with one._session.exclusive(None):
            pass
        other.upsert([{"id": "a", "text": "the ferry"}], tenant="t")


def test_a_cache_that_could_not_follow_begins_anew(address, monkeypatch):
    """Proves: HOST-2, HOST-3. A failure between two reads hides no record for good."""
    with opened(address) as one, opened(address) as other:
        one.upsert([{"id": "a", "text": "the ferry"}])
        assert search(one, "ferry", scope=Scope()).hits
        other.upsert([{"id": "b", "text": "the lantern"}])
        time.sleep(0.1)

        def failing(*_: object) -> None:
            raise StoreUnavailableError("PostgreSQL can't be read")

        with monkeypatch.context() as broken:
            broken.setattr(row_queries, "read_index_rows", failing)
            with pytest.raises(StoreUnavailableError):
                search(one, "lantern", scope=Scope())
        assert [hit.record.id for hit in search(one, "lantern", scope=Scope()).hits][:1] == ["b"]
        assert one.view(Scope()).count() == 2


def test_ids_that_cannot_be_stored_are_nobodys(address):
    """Proves: HOST-1. As in a folder."""
    with opened(address) as store:
        store.upsert([{"id": "a", "text": "the ferry"}])
        for odd in ("a\x00b", "\ud800"):
            assert store.get([odd, "a"], scope=Scope())[0].id == "a"
        assert store.delete(["a\x00b"]) == 0
