"""Search of past runs on real ones: what an old two-threshold search hides, and that this one hides nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.convert import convert_run
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.memory.trajectories.contrast.tiers import Tier, TierThresholds
from recall_loop.memory.trajectories.indexing_text import searchable_text
from recall_loop.memory.trajectories.scoring.outcome_scoring import apply_outcome, score_by_rules
from recall_loop.state.records.trajectories import trajectory_record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import TrajectorySearchParams
from tests.embedders import WordHashEmbedder

pytestmark = [pytest.mark.data, pytest.mark.slow]
NOW = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def runs(data_dir):
    path = data_dir / "tau" / "trajectories.jsonl"
    if not path.is_file():
        pytest.skip("no tau runs")
    with path.open(encoding="utf-8") as file:
        return {row["id"]: row for row in map(json.loads, file)}


@pytest.fixture(scope="module")
def scored(runs):
    converted = {name: convert_run(row["messages"]) for name, row in runs.items()}
    return {name: apply_outcome(run, score_by_rules(run), NOW) for name, run in converted.items()}


def test_scores_spread_and_leave_no_run_out(scored):
    """Proves: TRAJ-2, TRAJ-5 (real runs: scores differ; each is in one tier, those between too)."""
    values = sorted(run.outcome_score for run in scored.values())
    assert values[-1] - values[0] > 0.4
    assert values[9 * len(values) // 10] - values[len(values) // 10] > 0.2
    tiers = {TierThresholds().tier(value) for value in values}
    assert tiers == {Tier.SUCCESS, Tier.MODERATE}


def test_contrasts_reach_what_two_thresholds_hide(runs, scored):
    """Proves: TRAJ-6 (every run that lies between the thresholds is found by its own words)."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        texts = {name: searchable_text(run) for name, run in scored.items()}
        store.upsert(trajectory_record(run, id=name, text=texts[name]) for name, run in scored.items())
        assert store.count(filters=Filters(scored=True)) == len(runs)
        between = [name for name, run in scored.items() if TierThresholds().tier(run.outcome_score) is Tier.MODERATE]
        for name in between[::25]:
            found = search_trajectories(
                store,
                texts[name][:1500],
                scope=Scope(),
                params=TrajectorySearchParams(min_similarity=0.5, limit=5, include_contrasts=True),
            )
            groups = (found.successes, found.moderate, found.failures, found.unscored, found.relevant_experiences)
            assert name in [item.id for group in groups for item in group]
