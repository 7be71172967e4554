"""Stores that are opened once and kept: a slow one holds nobody else up, and there is a bound."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime import opened_stores
from recall_loop.nodes.runtime.opened_stores import OpenedStores
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.state.context import Context
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder


def test_a_store_that_opens_slowly_holds_up_its_own_key_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Proves: OPS-2."""
    paths = {name: str(tmp_path / name) for name in ("slow", "quick")}
    stores = {path: MemoryStore.in_memory(embedder=WordHashEmbedder()) for path in paths.values()}
    begun, go_on, opened = threading.Event(), threading.Event(), list[str]()

    def open_store(_: GraphResources, path: str, embedder: str | None) -> MemoryStore:
        opened.append(path)
        if path == paths["slow"]:
            begun.set()
            assert go_on.wait(60)
        return stores[path]

    monkeypatch.setattr(GraphResources, "_open", open_store)
    resources = GraphResources(None, Settings())
    with ThreadPoolExecutor(3) as pool:
        try:
            waiting = [pool.submit(resources.store_for, Context(store_path=paths["slow"])) for _ in range(2)]
            assert begun.wait(60)
            quick = pool.submit(resources.store_for, Context(store_path=paths["quick"]))
            assert quick.result(20) is stores[paths["quick"]]
        finally:
            go_on.set()
        assert {future.result(60) for future in waiting} == {stores[paths["slow"]]}
    assert opened == [paths["slow"], paths["quick"]]


def test_stores_open_for_reading_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Proves: OPS-2."""
    monkeypatch.setattr(opened_stores, "MAX_READERS", 2)
    kept, embedder = OpenedStores(), WordHashEmbedder()
    for name in "abc":
        MemoryStore.open(tmp_path / name, embedder=embedder).close()

    def reader(name: str) -> MemoryStore:
        return kept.get((name, None), lambda: MemoryStore.open(tmp_path / name, embedder=embedder, read_only=True))

    writer = MemoryStore.in_memory(embedder=embedder)
    assert kept.get(("", None), lambda: writer) is writer
    first = weakref.ref(reader("a"))
    in_use = reader("b")
    reader("c")
    gc.collect()
    assert first() is None
    assert reader("b") is in_use
    assert kept.get(("", None), pytest.fail) is writer


def test_a_store_that_can_not_be_opened_is_tried_again() -> None:
    """Proves: OPS-2."""
    kept, store = OpenedStores(), MemoryStore.in_memory(embedder=WordHashEmbedder())

    def fail() -> MemoryStore:
        raise OSError

    with pytest.raises(OSError):
        kept.get(("a", None), fail)
    assert kept.get(("a", None), lambda: store) is store
