"""Data loaded for searches counts towards the memory limit of the caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.index.caches import row_limits, tenant_caches
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashEmbedder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

VECTOR = SearchParams(mode=SearchMode.VECTOR)
WORDS = ["ferry", "island", "bread", "window", "lamp", "north", "cat", "bicycle", "train", "office"]


def test_loaded_vectors_are_held_to_the_memory_limit_of_the_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenant used longest ago is forgotten at the first request after another's were loaded. Proves: OPS-2."""
    chance, near, far = np.random.default_rng(5), Scope(tenant="near"), Scope(tenant="far")
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        for scope in (near, far):
            texts = (" ".join(chance.choice(WORDS, 2)) for _ in range(400))
            store.upsert(
                ({"id": f"{scope.tenant}{at}", "kind": "message", "text": text} for at, text in enumerate(texts)),
                tenant=scope.tenant,
            )
        assert search(store, "ferry", scope=far, params=VECTOR).hits
        assert store.view(near).count()
        held = store._session.cache._tenants
        monkeypatch.setattr(tenant_caches, "CACHED_BYTES", sum(kept.nbytes() for kept in held.values()) + 1_000)
        assert search(store, "ferry", scope=near, params=VECTOR).hits
        assert list(held) == ["far", "near"]
        search(store, "ferry", scope=near, params=VECTOR)
        assert list(held) == ["near"]


def test_cached_rows_are_held_to_a_number_of_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are kept where texts are long, and one that is longer than all of them isn't. Proves: GUARD-2, OPS-2."""
    monkeypatch.setattr(row_limits, "CACHED_ROWS", 10)
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        texts = [f"ferry {at} " + "island bread " * size for at, size in enumerate([100] * 12 + [5_000])]
        store.upsert({"id": str(at), "kind": "archival", "text": text} for at, text in enumerate(texts))
        for _ in range(2):
            hits = search(store, "ferry", params=SearchParams(limit=20)).hits
            assert sorted(hit.record.text for hit in hits) == sorted(texts)
        rows = next(iter(store._session.cache._tenants.values())).rows
        assert 0 < len(rows._values) < 12
        assert rows.nbytes <= 20_000
