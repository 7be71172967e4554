"""Stores that a run names by path, and the settings that hold for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from recall_loop.graph.builder import route_after_evaluation
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.state.context import Context
from recall_loop.state.errors import StoreUnavailableError
from recall_loop.state.settings.settings import Settings


def test_a_stores_path_is_opened_once_and_for_reading(tmp_path):
    """Proves: STORE-4 (no writer lock), OPS-2."""
    with MemoryStore.open(tmp_path / "store"):
        resources = GraphResources(None, Settings(store_path=str(tmp_path / "store")))
        with ThreadPoolExecutor(8) as pool:
            opened = set(pool.map(lambda _: resources.store_for(Context()), range(16)))
        assert len(opened) == 1
        store = opened.pop()
        assert store.read_only
        assert resources.store_for(Context(store_path=str(tmp_path / "store"))) is store
        store.close()


def test_the_contexts_path_wins_over_the_bound_store(tmp_path, store):
    """Proves: OPS-2."""
    resources = GraphResources(store, Settings(store_path=str(tmp_path / "none")))
    assert resources.store_for(Context()) is store
    with pytest.raises(StoreUnavailableError):
        resources.store_for(Context(store_path=str(tmp_path / "another")))


def test_the_contexts_knobs_lie_over_the_settings():
    """Proves: STOP-4, OPS-2."""
    resources = GraphResources(None, Settings(max_facts=5, novelty_patience=4))
    assert resources.settings_for(Context()) is resources.settings
    chosen = resources.settings_for(Context(novelty_patience=9, coverage_enough=0))
    assert (chosen.max_facts, chosen.novelty_patience, chosen.coverage_enough) == (5, 9, 0)


@pytest.mark.parametrize(
    ("route", "node"), [("stop", "synthesize"), ("refine", "refine"), ("continue", "plan_queries")]
)
def test_routing_is_a_pure_function_of_the_state(route, node):
    """Proves: LOOP-1."""
    assert route_after_evaluation({"route": route}) == node
