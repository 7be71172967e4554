"""Tiers of learning value: thresholds, bounds, messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.memory.trajectories.contrast.tiers import (
    Tier,
    TierThresholds,
    combined_filters,
    contrasts_message,
    empty_message,
    fallback_message,
    tier_filters,
    tier_note,
)
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.legacy_trajectories import stored_score
from recall_loop.state.scope import Filters
from recall_loop.state.search import TrajectorySearchParams


@pytest.mark.parametrize(
    ("success", "failure", "field"),
    [
        (0.3, 0.7, "failure_threshold"),
        (0.5, 0.5, "failure_threshold"),
        (1.1, 0.3, "success_threshold"),
        (0.7, -0.1, "failure_threshold"),
        (float("nan"), 0.3, "success_threshold"),
        (0.7, float("nan"), "failure_threshold"),
        (True, 0.3, "success_threshold"),
        ("high", 0.3, "success_threshold"),
    ],
)
def test_thresholds_are_checked(success, failure, field):
    """Proves: TRAJ-5 (failure < success, both in [0,1])."""
    with pytest.raises(InvalidInputError) as caught:
        validate_model(TrajectorySearchParams, {"success_threshold": success, "failure_threshold": failure})
    assert caught.value.field == field


@given(failure=st.floats(0, 1), success=st.floats(0, 1), score=st.one_of(st.none(), st.floats(0, 1)))
def test_every_score_is_in_exactly_one_tier(failure, success, score):
    """Proves: TRAJ-5 ([0,1] without a gap, whatever the thresholds)."""
    if not failure < success:
        return
    thresholds = TierThresholds(success, failure)
    filters = tier_filters(Filters(), thresholds)
    assert list(filters) == list(Tier)
    assert [tier for tier, part in filters.items() if passes(score, part)] == [thresholds.tier(score)]


def passes(score, filters):
    """Tell by plain comparisons whether filters let a score through."""
    if score is None:
        return filters.scored is False
    if filters.scored is False:
        return False
    bounds = (filters.min_outcome_score, filters.max_outcome_score)
    above, below = filters.above_outcome_score, filters.below_outcome_score
    inside = (bounds[0] is None or score >= bounds[0]) and (bounds[1] is None or score <= bounds[1])
    return inside and (above is None or score > above) and (below is None or score < below)


@given(
    score=st.floats(0, 1),
    low=st.one_of(st.none(), st.floats(0, 1)),
    high=st.one_of(st.none(), st.floats(0, 1)),
    above=st.one_of(st.none(), st.floats(0, 1)),
    below=st.one_of(st.none(), st.floats(0, 1)),
)
def test_bounds_hold_in_every_tier(score, low, high, above, below):
    """Proves: TRAJ-5 (min_score and max_score with contrasts: what they allow is in its tier, nothing else in any)."""
    if low is not None and high is not None and low > high:
        return
    given_ = Filters(above_outcome_score=above, below_outcome_score=below)
    asked = combined_filters(TrajectorySearchParams(filters=given_, min_score=low, max_score=high))
    parts = tier_filters(asked, TierThresholds())
    found = [tier for tier, part in parts.items() if passes(score, part)]
    assert found == ([TierThresholds().tier(score)] if passes(score, asked) else [])
    if (low, high, above, below) != (None, None, None, None):
        assert Tier.UNSCORED not in parts


def test_the_stricter_bound_holds_and_an_empty_range_is_an_error():
    """Proves: TRAJ-5, SEARCH-2."""
    filters = Filters(min_outcome_score=0.2, max_outcome_score=0.9, min_similarity=0.6)
    asked = combined_filters(TrajectorySearchParams(filters=filters, min_score=0.4, max_score=0.95, min_similarity=0.1))
    assert (asked.min_outcome_score, asked.max_outcome_score, asked.min_similarity) == (0.4, 0.9, 0.6)
    with pytest.raises(InvalidInputError, match="min_score"):
        combined_filters(TrajectorySearchParams(min_score=0.8, max_score=0.2))
    for name, value in {"min_score": 2, "max_score": -1, "min_similarity": 7}.items():
        with pytest.raises(InvalidInputError, match=name):
            validate_model(TrajectorySearchParams, {name: value})


@pytest.mark.parametrize(("value", "score"), [(0, 0.0), (0.5, 0.5), (None, None), ("0.9", None), (True, None)])
def test_only_a_number_is_a_score(value, score):
    """Proves: TRAJ-5 (unscored is a group of its own)."""
    assert stored_score({"outcome_score": value}) == score
    assert stored_score({}) is None


def test_the_words_name_thresholds_and_counts():
    """Proves: TRAJ-5, TRAJ-6 (the message counts each tier, and says why there are no contrasts)."""
    thresholds = TierThresholds(0.8, 0.2)
    message = contrasts_message({Tier.SUCCESS: 1, Tier.FAILURE: 2, Tier.UNSCORED: 3}, thresholds)
    assert message.startswith("Found 1 success, 0 moderate, 2 failures, 3 unscored.")
    assert "0.80" in message and "0.20" in message and "not by how a run ended" in message
    why = fallback_message({Tier.MODERATE: 1}, 1, thresholds)
    assert "0 successes" in why and "0 failures" in why and "1 relevant experience, " in why
    assert "0.20 < score < 0.80" in tier_note(Tier.MODERATE, thresholds)
    assert empty_message(0, 0.3) == "No trajectory is in this scope and satisfies the filters."
    assert "0.30" in empty_message(3, 0.3) and empty_message(1, 0.3).startswith("1 trajectory is")
