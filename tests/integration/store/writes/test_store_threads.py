"""Threads, tasks and processes on one store: read your writes, and never a mixture."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from recall_loop.text.words.tokens import stems
from tests.embedders import WordHashEmbedder
from tests.lexical_rows import by_words
from tests.processes.forked_process import ForkedProcess

ROUNDS = 12


def batch(name: str, round_: int) -> list[dict[str, object]]:
    """Ten records of one writer and one round; a batch is seen wholly or not at all."""
    return [
        {"id": f"{name}-{n}", "kind": "fact", "text": f"{name} says marker{round_}", "user_id": name} for n in range(10)
    ]


def write_and_read(store: MemoryStore, name: str) -> None:
    """Whatever the others do, what this one has written is there when its call returns."""
    scope = Scope(user_id=name)
    for round_ in range(ROUNDS):
        store.upsert(batch(name, round_))
        view = store.view(scope)
        assert len(by_words(view, stems(f"marker{round_}"), 50)) == 10
        assert len(view.nearest(np.ones((1, 32)), 50)[0]) == 10
        assert {record.text for record in store.scan(scope)} == {f"{name} says marker{round_}"}
        if round_ % 3 == 2:
            assert store.delete([f"{name}-{n}" for n in range(5)]) == 5
            assert len(store.view(scope).rowids()) == store.count(scope) == 5
            assert len(by_words(view, stems(f"marker{round_}"), 50)) == 5


def test_threads_read_their_writes(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    for path in (tmp_path, None):
        store = (
            MemoryStore.open(path, embedder=WordHashEmbedder())
            if path
            else MemoryStore.in_memory(embedder=WordHashEmbedder())
        )
        with store, ThreadPoolExecutor(6) as pool:
            list(pool.map(partial(write_and_read, store), [f"writer{n}" for n in range(6)]))
            assert store.count() == 6 * 5
            assert store.maintenance.verify().sound, store.maintenance.verify().findings


async def test_tasks_read_their_writes(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        names = [f"task{n}" for n in range(4)]
        await asyncio.gather(*(asyncio.to_thread(write_and_read, store, name) for name in names))
        assert store.count() == 4 * 5 and store.maintenance.verify().sound


SECOND = """
from tests.embedders import WordHashEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import StoreLockedError
try:
    MemoryStore.open({path!r}, embedder=WordHashEmbedder())
except StoreLockedError as error:
    print("locked", flush=True)
with MemoryStore.open({path!r}, embedder=WordHashEmbedder(), read_only=True) as reader:
    seen = set()
    while True:
        texts = {{record.text.split()[-1] for record in reader.scan()}}
        count = reader.count()
        assert count in (0, 10) and len(texts) <= 2, (count, texts)
        seen |= texts
        if "marker99" in texts:
            break
print(len(seen))
"""


@pytest.mark.folder
def test_two_processes_on_one_path(tmp_path: Path) -> None:
    """Proves: STORE-4. The second writer is refused; the reader sees what is committed, and nothing else."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        code = SECOND.format(path=str(tmp_path))
        with ForkedProcess(code) as child:
            assert child.stdout.readline() == "locked\n"
            for round_ in [*range(30), 99]:
                store.upsert(batch("writer", round_))
            assert int(child.communicate(timeout=100)[0]) >= 1
        assert child.returncode == 0
        assert store.maintenance.verify().sound
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        assert store.count() == 10
