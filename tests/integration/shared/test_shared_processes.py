"""One store in PostgreSQL that several processes write and read (HOST-1, HOST-2)."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables.attribute_index import indexed_paths
from recall_loop.state.errors import InvalidInputError, StoreReadOnlyError, StoreUnavailableError
from recall_loop.state.scope import Filters, Scope
from tests.embedders import WordHashEmbedder

WRITER = """
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder
place, name = sys.argv[1:]
wrong = 0
with MemoryStore.open(place, embedder=WordHashEmbedder()) as store:
    for at in range(40):
        tenant = f"t{at % 4}"
        word = f"{name}{at}"
        store.upsert([{"id": word, "text": f"{word} came by the ferry", "conversation_id": "c"}], tenant=tenant)
        hits = search(store, word, scope=Scope(tenant=tenant)).hits
        wrong += not hits or hits[0].record.id != word or any(hit.record.text == "" for hit in hits)
print(wrong)
"""


def opened(place: str, **options: object) -> MemoryStore:
    return MemoryStore.open(place, embedder=WordHashEmbedder(), **options)  # type: ignore[arg-type]


def texts(store: MemoryStore, tenant: str = "default") -> set[str]:
    return {record.text for record in store.scan(Scope(tenant=tenant))}


@pytest.mark.slow
def test_processes_write_and_read_one_store(address, run_script):
    """Proves: HOST-2. Each reads its own writes at once; tenants that all of them write stay whole and apart."""
    running = [run_script(WRITER, address, name) for name in ("alpha", "beta", "gamma")]
    assert [process.communicate(timeout=100)[0].strip() for process in running] == ["0", "0", "0"]
    with opened(address) as store:
        assert store.maintenance.verify().findings == ()
        for tenant in range(4):
            found = {record.id: record.text for record in store.scan(Scope(tenant=f"t{tenant}"))}
            words = {f"{name}{at}" for name in ("alpha", "beta", "gamma") for at in range(40) if at % 4 == tenant}
            assert found == {word: f"{word} came by the ferry" for word in words}


def test_others_see_a_write_within_a_tenth_of_a_second(address):
    """Proves: HOST-2. Of the cached tenant too, and of deletions."""
    with opened(address) as one, opened(address) as other, opened(address, read_only=True) as reader:
        one.upsert([{"id": "a", "text": "the ferry leaves at nine"}])
        for store in (other, reader):
            assert search(store, "ferry", scope=Scope()).hits[0].record.id == "a"
        other.upsert([{"id": "b", "text": "the lantern is in the garden"}])
        assert search(other, "lantern", scope=Scope()).hits[0].record.id == "b"
        time.sleep(0.1)
        for store in (one, reader):
            assert search(store, "lantern", scope=Scope()).hits[0].record.id == "b"
        one.delete(["a"])
        time.sleep(0.1)
        for store in (one, other, reader):
            assert [
                hit.record.id for hit in search(store, "ferry", scope=Scope()).hits if "ferry" in hit.record.text
            ] == []


def test_one_of_many_that_open_a_new_schema_makes_it(address):
    """Proves: HOST-2 (processes that open a store at the same time are safe)."""
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: opened(address), range(6)))
    assert len({store.generation for store in stores}) == 1
    for at, store in enumerate(stores):
        store.upsert([{"id": f"r{at}", "text": f"number {at}"}])
    assert texts(stores[0]) == {f"number {at}" for at in range(6)}
    for store in stores:
        store.close()


def test_what_is_read_under_the_lock_stays_true_until_it_is_written(address):
    """Proves: HOST-2. Two writers correct one fact at the same time, and one of them is current in the end."""
    with opened(address) as one, opened(address) as other:
        barrier = threading.Barrier(2)

        def correct(store: MemoryStore, name: str) -> None:
            barrier.wait()
            for at in range(8):
                place = f"{name} {at}"
                fact = {"subject": "Anna", "fact_type": "lives_in", "object": place, "text": f"Anna lives in {place}"}
                write_facts(store, [fact], tenant="default", single_valued=["lives_in"])

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(correct, one, "Tartu"), pool.submit(correct, other, "Narva")]:
                done.result()
        current = list(one.scan(Scope(), filters=Filters(include_superseded=False)))
        assert len(current) == 1 and len(texts(one)) == 16


def test_messages_of_one_session_from_two_processes_get_their_own_places(address):
    """Proves: HOST-2, API-2."""
    with opened(address) as one, opened(address) as other:

        def talk(store: MemoryStore, name: str) -> None:
            for at in range(10):
                store.upsert([{"id": f"{name}{at}", "text": f"{name} {at}", "session": "s", "role": "user"}])

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(talk, one, "x"), pool.submit(talk, other, "y")]:
                done.result()
        places = sorted(record.position for record in one.scan(Scope()))
        assert places == list(range(20))


def test_a_reader_needs_a_store_and_never_writes(address):
    """Proves: HOST-1."""
    with pytest.raises(StoreUnavailableError, match="no store there"):
        opened(address, read_only=True)
    with pytest.raises(StoreUnavailableError, match="no store there"):
        opened(address, create=False)
    assert not MemoryStore.exists(address)
    opened(address).close()
    assert MemoryStore.exists(address)
    with opened(address, read_only=True) as reader, pytest.raises(StoreReadOnlyError):
        reader.upsert([{"text": "no"}])


@pytest.mark.parametrize("wrong", ["postgresql://host/db?schema=Wrong", "postgresql://host/db?schema=1a"])
def test_a_schema_with_an_odd_name_is_refused(wrong):
    """Proves: HOST-1."""
    with pytest.raises(InvalidInputError, match="schema"):
        opened(wrong)


def test_an_unreachable_server_is_a_typed_error_without_the_password():
    """Proves: HOST-3."""
    with pytest.raises(StoreUnavailableError) as caught:
        opened("postgresql://someone:hunter2@127.0.0.1:1/none?connect_timeout=1")
    assert "hunter2" not in str(caught.value) and "127.0.0.1" in str(caught.value)


def test_a_new_generation_is_taken_over_by_all(address):
    """Proves: HOST-2, STORE-5. What one process compacts, another goes on reading and writing."""
    with opened(address) as one, opened(address) as other:
        one.upsert([{"id": "a", "text": "the ferry"}])
        assert texts(other) == {"the ferry"}
        one.maintenance.compact()
        time.sleep(0.1)
        other.upsert([{"id": "b", "text": "the lantern"}])
        assert texts(one) == {"the ferry", "the lantern"} and other.generation == one.generation


def test_options_of_an_address_stand_beside_ours(address):
    """Proves: HOST-1."""
    place = address.replace("?", "?options=-c%20work_mem%3D77MB&application_name=mine&", 1)
    with opened(place) as store:
        show = "SELECT current_setting('work_mem'), current_setting('application_name'), current_schema()"
        assert store._session.database.fetch(show)[0][:2] == ("77MB", "mine")
        store.upsert([{"id": "a", "text": "the ferry"}])
    with opened(address) as store:
        assert texts(store) == {"the ferry"}


def test_an_open_for_writing_waits_for_no_chunk_under_way(address):
    """Only what has to be made or upgraded waits for its turn. Proves: HOST-2."""
    with opened(address, indexed_attributes=["team"]) as one, ThreadPoolExecutor(1) as pool:
        one.upsert([{"id": "a", "text": "the ferry"}])
        one.update("a", {"text": "the lantern"})
        assert len(one.history("a")) == 1
        with one._session.exclusive(["busy"]):  # a chunk that takes long
            with opened(address, indexed_attributes=["team"], history_days=0) as other:
                assert one.history("a") == []  # its open has swept
                other.upsert([{"id": "b", "text": "the harbour"}])
            waiting = pool.submit(opened, address, indexed_attributes=["team", "age"])
            with pytest.raises(TimeoutError):
                waiting.result(timeout=1)
        with waiting.result(timeout=30) as other:
            assert set(indexed_paths(other._session.database)) == {"team", "age"}
