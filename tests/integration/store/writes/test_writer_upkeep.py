"""Looking after a store that several of one process have open for writing, and owners that never close it (STORE-4)."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recall_loop import Memory
from recall_loop.memory.store.moving.move_store import move_store
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import EmbedderMismatchError, InvalidInputError, StoreLockedError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import run_forked


class OtherEmbedder(WordHashEmbedder):
    fingerprint = "word-hashes:2"


def opened(folder: Path, **options: Any) -> MemoryStore:
    return MemoryStore.open(folder, **{"embedder": WordHashEmbedder(), **options})


def assert_free(folder: Path, **options: Any) -> None:
    with opened(folder, re_embed=True, **options) as store:
        assert store.repairs == [] and store.maintenance.verify().sound


def test_one_compacts_and_rebuilds_while_another_writes(tmp_path: Path) -> None:
    """Proves: STORE-4, STORE-6."""
    with opened(tmp_path) as first, opened(tmp_path) as second, ThreadPoolExecutor(1) as pool:
        first.upsert([{"id": "a", "text": "quietly erased"}])
        first.delete(["a"])
        writing = pool.submit(lambda: [second.upsert([{"id": f"{n}", "text": f"text {n}"}]) for n in range(20)])
        first.maintenance.compact()
        first.maintenance.rebuild()
        writing.result(60)
        assert first.count() == 20 and first.generation == second.generation
        assert second.view(Scope()).count() == 20 and second.degraded_reason is None
        first.maintenance.backup(tmp_path.with_name("backup"))
    assert_free(tmp_path)
    with opened(tmp_path.with_name("backup")) as copy:
        assert copy.count() == 20


def test_all_have_the_embedder_that_one_has_changed_to(tmp_path: Path) -> None:
    """Proves: STORE-4, STORE-5."""
    with opened(tmp_path) as first, opened(tmp_path) as second:
        second.upsert([{"id": "a", "text": "one"}])
        first.maintenance.rebuild(embedder=OtherEmbedder())
        assert second.embedder.fingerprint == "word-hashes:2"
        second.upsert([{"id": "b", "text": "two"}])
        with pytest.raises(EmbedderMismatchError):
            opened(tmp_path)
        with opened(tmp_path, embedder=OtherEmbedder()) as third:
            assert third.count() == 2
    assert_free(tmp_path, embedder=OtherEmbedder())


def test_a_store_that_is_shared_is_not_moved(tmp_path: Path) -> None:
    """Proves: HOST-1, STORE-4."""
    with opened(tmp_path / "a") as first, opened(tmp_path / "a"):
        first.upsert([{"id": "a", "text": "one"}])
        opened(tmp_path / "b").close()
        for source, target in (("a", "b"), ("b", "a")):
            with pytest.raises(StoreLockedError, match=rf"process {os.getpid()}, this one"):
                move_store(tmp_path / source, tmp_path / target, embedder=WordHashEmbedder())
    assert move_store(tmp_path / "a", tmp_path / "d", embedder=WordHashEmbedder()).records == 1
    assert_free(tmp_path / "d")


def test_memories_that_share_a_folder_keep_their_tenants_apart(tmp_path: Path) -> None:
    """Proves: API-1, STORE-3."""
    acme, other = (
        Memory(tmp_path, settings=Settings(tenant=tenant), embedder=WordHashEmbedder()) for tenant in ("acme", "other")
    )
    with acme, other:
        acme.add("one")
        other.add("two")
        assert [[record.text for record in memory.list().records] for memory in (acme, other)] == [["one"], ["two"]]


def test_a_closed_store_may_be_opened_with_other_options(tmp_path: Path) -> None:
    """Proves: STORE-4. Without waiting for the garbage collection of a store that was never closed."""
    gc.disable()
    try:
        opened(tmp_path, history_days=9, indexed_attributes=["team"]).upsert([{"id": "a", "text": "one"}])
        with opened(tmp_path, history_days=3, indexed_attributes=iter(["age"])) as store:
            assert store.count() == 1
            opened(tmp_path, history_days=3, indexed_attributes=iter(["age"])).close()
            with pytest.raises(InvalidInputError, match="got 9; allowed: 3"):
                opened(tmp_path, history_days=9)
            assert store.upsert([{"text": "two"}])[0].status == "created"
    finally:
        gc.enable()
    assert_free(tmp_path)


def test_one_opens_while_another_holds_the_writes_off(tmp_path: Path) -> None:
    """Proves: STORE-4. Nor does closing one of several wait for that."""
    with opened(tmp_path) as first, first.exclusive(), ThreadPoolExecutor(1) as pool:

        def open_and_close() -> int:
            with opened(tmp_path) as second:
                return second.count()

        assert pool.submit(open_and_close).result(20) == 0


def test_many_open_and_close_while_others_are_collected(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    together, stay = threading.Barrier(4), opened(tmp_path)

    def work(number: int) -> None:
        together.wait(60)
        for turn in range(25):
            store = opened(tmp_path)
            store.upsert([{"id": f"{number}-{turn}", "text": "text"}])
            if turn % 3:
                store.close()
            if number == 0 and turn % 10 == 0:
                gc.collect()

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(work, number) for number in range(4)]
        for future in running:
            future.result(120)
    stay.close()
    with opened(tmp_path) as store:
        assert store.count() == 100
    assert_free(tmp_path)


NEVER_CLOSED = """
import sys
sys.path.insert(0, {root!r})
from recall_loop import Memory, MemoryStore, remember
from langgraph.graph import START, MessagesState, StateGraph
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder

builder = StateGraph(MessagesState)
builder.add_node("memory", remember(settings=Settings(store_path={path!r})))
builder.add_edge(START, "memory")
graph = builder.compile()
graph.invoke({{"messages": [("user", "I live in Bergen.")]}}, {{"configurable": {{"thread_id": "1"}}}})
memory = Memory({path!r})
memory.add("I have a boat.")
print("done")
"""


def test_a_process_that_ends_without_closing_has_written_all_of_it(tmp_path: Path, root: Path) -> None:
    """Proves: STORE-4."""
    done = run_forked(NEVER_CLOSED.format(root=str(root), path=str(tmp_path / "s")))
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout[-2000:] + done.stderr[-3000:]
    with Memory(tmp_path / "s") as memory:
        assert {record.text for record in memory.list().records} == {"I live in Bergen.", "I have a boat."}
