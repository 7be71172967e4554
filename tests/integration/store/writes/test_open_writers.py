"""A folder that is opened for writing more than once in one process: its users share one writer (STORE-4)."""

from __future__ import annotations

import gc
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recall_loop import AsyncMemory, Memory
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import (
    EmbedderMismatchError,
    InvalidInputError,
    StoreLockedError,
    StoreUnavailableError,
    StoreUnusableError,
)
from recall_loop.state.scope import RetentionRule, Scope
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import run_forked


class OtherEmbedder(WordHashEmbedder):
    fingerprint = "word-hashes:2"


def opened(folder: Path, **options: Any) -> MemoryStore:
    return MemoryStore.open(folder, embedder=WordHashEmbedder(), **options)


def assert_free(folder: Path) -> None:
    """The last one has closed it in order: it can be had alone, and needs no repair."""
    with opened(folder, re_embed=True) as store:
        assert store.repairs == [] and store.maintenance.verify().sound


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_is_closed_while_the_other_writes_on(tmp_path: Path, order: tuple[int, int]) -> None:
    """Proves: STORE-4."""
    pair = opened(tmp_path), opened(tmp_path)
    pair[0].upsert([{"id": "a", "text": "one"}])
    pair[1].upsert([{"id": "b", "text": "two"}])
    assert pair[0].count() == pair[1].count() == 2
    early, late = (pair[number] for number in order)
    for _ in range(2):
        early.close()
    late.upsert([{"id": "c", "text": "three"}])
    assert late.count() == 3
    late.close()
    assert_free(tmp_path)


def test_a_closed_one_is_closed_also_while_the_other_is_open(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    first, second = opened(tmp_path), opened(tmp_path)
    first.close()
    for call in (
        first.count,
        lambda: first.upsert([{"text": "x"}]),
        lambda: first.view(Scope()),
        lambda: first.maintenance.verify().sound,
    ):
        with pytest.raises(StoreUnusableError, match="the store is closed"):
            call()
    second.close()


def test_an_unclosed_memory_does_not_keep_others_from_closing(tmp_path: Path) -> None:
    """Proves: STORE-4. As where the cell of a notebook runs a second time."""
    embedder = WordHashEmbedder()
    memory = Memory(tmp_path, embedder=embedder)
    memory.add("one")
    memory = Memory(tmp_path, embedder=embedder)
    gc.collect()
    memory.add("two")
    memory.close()
    assert_free(tmp_path)


async def test_memories_of_one_path_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: API-1, STORE-4. However the path is written."""
    embedder = WordHashEmbedder()
    (tmp_path / "link").symlink_to(tmp_path / "memory")
    monkeypatch.chdir(tmp_path)
    with Memory("memory", embedder=embedder) as first, Memory(tmp_path / "link", embedder=embedder) as second:
        async with AsyncMemory(str(tmp_path / "memory"), embedder=embedder) as third:
            first.add("one", user_id="ada")
            second.add("two", user_id="ada")
            await third.add("three", user_id="ada")
        assert [record.text for record in first.list(user_id="ada").records] == ["three", "two", "one"]
    assert_free(tmp_path / "memory")


def test_a_reader_beside_two_writers_sees_what_both_write(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    with opened(tmp_path) as first, opened(tmp_path, read_only=True) as reader, opened(tmp_path) as second:
        first.upsert([{"id": "a", "text": "one"}])
        assert reader.count() == 1
        first.close()
        second.upsert([{"id": "b", "text": "two"}])
        assert reader.count() == 2


def test_threads_that_open_at_once_make_one_store(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    together = threading.Barrier(6)

    def write(number: int) -> None:
        together.wait(60)
        for turn in range(3):
            with opened(tmp_path / "new") as store:
                store.upsert([{"id": f"{number}-{turn}", "text": f"text {number} {turn}"}])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    with opened(tmp_path / "new") as store:
        assert store.count() == 18
    assert_free(tmp_path / "new")


def test_an_exclusive_lock_blocks_other_writers(tmp_path: Path) -> None:
    """Proves: STORE-4. They share the turns of writing too."""
    with opened(tmp_path) as first, opened(tmp_path) as second, ThreadPoolExecutor(1) as pool:
        with first.exclusive():
            waiting = pool.submit(first.upsert, [{"id": "a", "text": "one"}])
            while not first.writer.group_commit._queue:
                pass
            second.upsert([{"id": "b", "text": "two"}])
            assert not waiting.done() and [record.id for record in second.scan()] == ["b"]
        waiting.result(60)
        assert second.count() == 2


def test_options_that_differ_are_named(tmp_path: Path) -> None:
    """Proves: STORE-4, STORE-5."""
    rule = RetentionRule(older_than_days=3)
    with opened(tmp_path, indexed_attributes=["team"], history_days=9) as store:
        with pytest.raises(EmbedderMismatchError, match="made with embedder"):
            MemoryStore.open(tmp_path, embedder=OtherEmbedder())
        for field, wanted, words in (
            ("history_days", {"history_days": 3}, "9, as this process has .* open for writing"),
            ("retention", {"retention": [rule]}, r"\(\), as this process"),
            ("indexed_attributes", {"indexed_attributes": ["age"]}, r"\['team'\], as this"),
            ("url", {"url": "http://127.0.0.1:9"}, "keeps its vectors in its own folder"),
        ):
            with pytest.raises(InvalidInputError, match=words) as refused:
                opened(tmp_path, **wanted)
            assert refused.value.field == field
        with opened(tmp_path, history_days=9, indexed_attributes=["team"]):
            pass
        assert store.upsert([{"text": "one"}])[0].status == "created"
    assert_free(tmp_path)


def test_options_that_are_not_given_are_those_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STORE-4. A setting counts as given where an argument or the environment states it."""
    stated = Settings(history_days=9, retention=(RetentionRule(older_than_days=3),))
    with Memory(tmp_path, settings=stated, embedder=WordHashEmbedder()) as memory:
        for other in (opened(tmp_path), MemoryStore.from_settings(Settings(), tmp_path, embedder=WordHashEmbedder())):
            other.upsert([{"id": "a", "text": "one"}])
            other.close()
        assert [record.text for record in memory.list().records] == ["one"]
        monkeypatch.setenv("RECALL_LOOP_HISTORY_DAYS", "30")
        with pytest.raises(InvalidInputError, match="history_days: got 30; allowed: 9"):
            MemoryStore.from_settings(Settings(), tmp_path, embedder=WordHashEmbedder())
    assert_free(tmp_path)


def test_another_that_is_closed_while_one_joins_takes_nothing_away(tmp_path: Path) -> None:
    """Proves: STORE-4. As by a garbage collection, which comes at any time and in the same thread."""
    first = opened(tmp_path)

    class Closing(WordHashEmbedder):
        @property
        def fingerprint(self) -> str:
            first.close()
            return "word-hashes:1"

    with MemoryStore.open(tmp_path, embedder=Closing()) as store:
        store.upsert([{"text": "one"}])
        assert store.count() == 1
    assert_free(tmp_path)


@pytest.mark.parametrize("alone", [{"re_embed": True}, {"defer": True}])
def test_who_wants_it_alone_is_refused_and_refuses(tmp_path: Path, alone: dict[str, bool]) -> None:
    """Proves: STORE-4."""
    for first, second in (({}, alone), (alone, {}), (alone, alone)):
        held = opened(tmp_path, **first)
        with pytest.raises(StoreLockedError, match=rf"process {os.getpid()}, this one"):
            opened(tmp_path, **second)
        held.close()
        opened(tmp_path).close()


def test_a_folder_in_the_place_of_one_that_was_removed_is_another_store(tmp_path: Path) -> None:
    """Proves: STORE-4. What is written there isn't lost with the old one."""
    folder = tmp_path / "memory"
    old = opened(folder)
    old.upsert([{"id": "a", "text": "one"}])
    shutil.rmtree(folder)
    with opened(folder) as new:
        assert new.count() == 0
        new.upsert([{"id": "b", "text": "two"}])
        old.close()
        with opened(folder) as again:
            assert [record.id for record in again.scan()] == ["b"]
    assert_free(folder)


def test_a_failed_opening_leaves_nothing_behind(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file", Path("a\0b")):
        with pytest.raises(StoreUnavailableError):
            opened(bad)
    (tmp_path / "file").unlink()
    opened(tmp_path / "file").close()
    assert_free(tmp_path / "file")


FORK = """
import os, sys, threading
sys.path.insert(0, {root!r})
from tests.embedders import WordHashEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.open_writers import OPEN_WRITERS
from recall_loop.state.errors import StoreLockedError
from pathlib import Path

def opened(end=""):
    return MemoryStore.open({path!r} + end, embedder=WordHashEmbedder())

store, held = opened(), threading.Event()
def hold():
    with OPEN_WRITERS.turn(Path({path!r})):
        held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    try:
        opened()
    except StoreLockedError as error:
        assert f"process {{os.getppid()}})" in str(error), error
        store.close()
        with opened("-of-child") as one, opened("-of-child") as two:
            one.upsert([{{"text": "one"}}])
            os._exit(0 if two.count() == 1 else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
store.upsert([{{"text": "one"}}])
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_is_refused_and_waits_for_no_turn(tmp_path: Path, root: Path) -> None:
    """Proves: GUARD-7, STORE-4."""
    done = run_forked(FORK.format(root=str(root), path=str(tmp_path / "s")))
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout[-2000:] + done.stderr[-3000:]
