"""An outline's bytes count as soon as it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.search.query.options import SearchOptions
from recall_loop.memory.store.index import pruning_bounds, tenant_cache, vector_search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashEmbedder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

VECTOR = SearchOptions(mode=SearchMode.VECTOR)
WORDS = ["ferry", "island", "bread", "window", "lamp", "north", "cat", "bicycle", "train", "office"]


def test_an_outline_is_held_to_the_memory_limit_of_the_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tenant used longest ago is forgotten at the first request after an outline was made. Proves: OPS-2."""
    for name, value in (("LEAST", 0), ("WORTH", 0), ("MOST", 1.0)):
        monkeypatch.setattr(pruning_bounds, name, value)
    monkeypatch.setattr(vector_search, "_RARE", 0)
    chance, near, far = np.random.default_rng(5), Scope(tenant="near"), Scope(tenant="far")
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        for scope in (near, far):
            texts = (" ".join(chance.choice(WORDS, 2)) for _ in range(400))
            store.upsert(
                ({"id": f"{scope.tenant}{at}", "kind": "message", "text": text} for at, text in enumerate(texts)),
                tenant=scope.tenant,
            )
        for scope in (far, near):
            assert search(store, "ferry", scope=scope, options=VECTOR).hits
        held = store.cache._tenants
        monkeypatch.setattr(tenant_cache, "CACHED_BYTES", sum(kept.nbytes() for kept in held.values()) + 1_000)
        search_many(store, WORDS, scope=near, options=VECTOR)
        vectors = held["near"]._vectors
        assert vectors is not None
        assert vectors.has_bounds
        search(store, "ferry", scope=near, options=VECTOR)
        assert list(held) == ["near"]
