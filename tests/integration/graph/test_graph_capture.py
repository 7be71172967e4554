"""The agent's own runs: captured on request, inside the same walls (TRAJ-9)."""

from __future__ import annotations

import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.self_capture import SELF_CAPTURE_TAG
from recall_loop.state.errors import UnsupportedOptionError
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType
from tests.integration.graph.worlds import COAST, DIRECT, TWO_HOPS, VALLEY, filled_store, valley_request

CAPTURING = Settings(capture_runs=True)


@pytest.fixture
def world(embedder):
    with filled_store(embedder) as store:
        yield store


def runs(store, tenant=VALLEY):
    return list(store.scan(Scope(tenant=tenant), Filters(tags=(SELF_CAPTURE_TAG,)), (ContentType.TRAJECTORY,)))


def test_nothing_is_captured_unless_asked_for(world):
    """Proves: TRAJ-9 (opt-in)."""
    retrieve(valley_request(TWO_HOPS), store=world)
    assert runs(world) == []


def test_a_run_is_captured_whole_and_found_again(world):
    """Proves: TRAJ-9, TRAJ-1."""
    plain = retrieve(valley_request(TWO_HOPS, debug=True, user_id="u-mara", agent_id="lena"), store=world)
    result = retrieve(valley_request(TWO_HOPS, user_id="u-mara", agent_id="lena"), store=world, settings=CAPTURING)
    assert "trace" not in result.metadata
    assert [fact.id for fact in result.facts] == [fact.id for fact in plain.facts]
    (record,) = runs(world)
    assert (record.user_id, record.agent_id, record.text) == ("u-mara", "lena", TWO_HOPS)
    run = run_from_record(record)
    assert run.execution.status == "completed"
    asked = [query["query"] for query in run.extra["queries"]]
    assert asked == [query["query"] for query in plain.metadata["trace"]["query_results"]]
    assert runs(world, COAST) == []
    world.erase(Scope(tenant=VALLEY, user_id="u-mara"))
    assert runs(world) == []


def test_captured_runs_are_not_facts(world):
    """Proves: TRAJ-9 (they don't come back as memories unless trajectories are asked for)."""
    before = {fact.id for fact in retrieve(valley_request(DIRECT), store=world).facts}
    retrieve(valley_request(DIRECT), store=world, settings=CAPTURING)
    assert {fact.id for fact in retrieve(valley_request(DIRECT), store=world).facts} == before


def test_a_store_for_reading_can_not_capture(tmp_path, embedder):
    """Proves: SEARCH-2 (what can't be honoured is an error)."""
    with filled_store(embedder, tmp_path / "store"):
        pass
    with MemoryStore.open(tmp_path / "store", embedder=embedder, read_only=True) as store:
        with pytest.raises(UnsupportedOptionError, match="capture_runs"):
            retrieve(valley_request(DIRECT), store=store, settings=CAPTURING)
        assert retrieve(valley_request(DIRECT), store=store).facts
