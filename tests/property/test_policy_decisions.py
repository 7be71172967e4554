"""Laws of the decisions: first true reason, bounds, monotony."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.policy.confidence.confidence_score import (
    COMPONENT_WEIGHTS,
    ConfidenceInputs,
    compute_confidence,
    compute_confidence_score,
    confidence_components,
)
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.stopping import RunProgress, stop_reason
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ConfidenceLabel, StopReason

UNIT = st.floats(0.0, 1.0)
LABELS = list(ConfidenceLabel)
OPTIONS = Settings(deadline_seconds=10.0)


def call(results, success=True, attempts=1):
    return {"result_count": results, "success": success, "attempts": attempts}


# In the order of STOP-2. Each makes its reason true and leaves the others alone where that is possible.
CHANGES = {
    StopReason.TOOL_FAILURE: lambda p: replace(p, calls=(*p.calls, call(0, success=False))),
    StopReason.NOTHING_IN_SCOPE: lambda p: replace(p, in_scope=False),
    StopReason.COVERED: lambda p: replace(p, coverage=1.0),
    StopReason.EXHAUSTED: lambda p: replace(p, queries_left=False),
    StopReason.ENOUGH_FACTS: lambda p: replace(p, new_facts=30, coverage=max(p.coverage, 0.9)),
    StopReason.NO_NOVELTY: lambda p: replace(p, streak=2),
    StopReason.DEADLINE: lambda p: replace(p, elapsed=10.0),
    StopReason.ITERATION_LIMIT: lambda p: replace(p, iteration=10),
    StopReason.STEP_LIMIT: lambda p: replace(p, remaining_steps=1),
}
GOING_ON = RunProgress(
    iteration=5,
    in_scope=True,
    calls=(call(5),),
    queries_left=True,
    coverage=0.5,
    best_single=0.5,
    best_similarity=0.6,
    new_facts=3,
    streak=0,
    elapsed=1.0,
    remaining_steps=100,
)


def test_of_all_combinations_the_first_true_reason_wins():
    """Proves: STOP-2."""
    assert list(CHANGES) == [reason for reason in StopReason if reason in CHANGES]
    for chosen in product((False, True), repeat=len(CHANGES)):
        progress = GOING_ON
        true = [reason for reason, holds in zip(CHANGES, chosen, strict=True) if holds]
        for reason in true:
            progress = CHANGES[reason](progress)
        assert stop_reason(progress, OPTIONS) == (true[0] if true else None)


PROGRESS = st.builds(
    RunProgress,
    iteration=st.integers(1, 12),
    in_scope=st.booleans(),
    calls=st.lists(st.builds(call, st.integers(0, 3), st.booleans()), max_size=5).map(tuple),
    queries_left=st.booleans(),
    coverage=UNIT,
    best_single=UNIT,
    best_similarity=UNIT,
    new_facts=st.integers(0, 60),
    streak=st.integers(0, 4),
    elapsed=st.floats(0, 100),
    remaining_steps=st.integers(0, 30),
)


@given(progress=PROGRESS, floor=st.integers(1, 6))
def test_success_never_comes_before_the_floor_but_by_a_strong_first_pass(progress, floor):
    """Proves: STOP-3."""
    chosen = Settings(early_stop_min_iterations=floor)
    reason = stop_reason(progress, chosen)
    if progress.iteration < floor:
        assert reason is not StopReason.ENOUGH_FACTS
        if reason is StopReason.COVERED:
            assert progress.iteration == 1
            assert progress.best_single >= chosen.strong_first_coverage
            assert progress.best_similarity >= chosen.strong_first_similarity


@given(progress=PROGRESS)
def test_every_run_ends(progress):
    """Whatever else holds, the limits of iterations and steps stop it. Proves: STOP-2."""
    chosen = Settings()
    assert stop_reason(replace(progress, iteration=chosen.max_iterations), chosen) is not None
    assert stop_reason(replace(progress, remaining_steps=2), chosen) is not None
    assert stop_reason(progress, chosen) == stop_reason(progress, chosen)


PARTS = st.fixed_dictionaries(dict.fromkeys(COMPONENT_WEIGHTS, UNIT))


@given(parts=PARTS, name=st.sampled_from(list(COMPONENT_WEIGHTS)), higher=UNIT)
def test_confidence_is_bounded_and_monotone_in_each_component(parts, name, higher):
    """Proves: CONF-1."""
    options = Settings()
    better = parts | {name: max(parts[name], higher)}
    low, high = compute_confidence_score(parts), compute_confidence_score(better)
    assert 0.0 <= low <= high <= 1.0
    before, after = compute_confidence(low, parts, options), compute_confidence(high, better, options)
    assert LABELS.index(before) <= LABELS.index(after)
    if parts["relevance"] < options.conf_min_relevance:
        assert before is ConfidenceLabel.LOW


def entry(at, similarity, sources, queries):
    return {
        "record": {"id": f"f{at}"},
        "similarity": similarity,
        "evidence_keys": [f"{at}:{number}" for number in range(sources)],
        "matches": [{"query": f"q{number}"} for number in range(queries)],
    }


ENTRIES = st.lists(st.tuples(UNIT, st.integers(0, 9), st.integers(0, 9)), max_size=40).map(
    lambda found: [entry(at, *values) for at, values in enumerate(found)]
)
CALLS = st.lists(st.builds(call, st.integers(0, 9), st.booleans(), st.integers(1, 5)), max_size=12)


@settings(max_examples=60)
@given(entries=ENTRIES, coverage=UNIT, calls=CALLS)
def test_components_are_bounded_whatever_was_found(entries, coverage, calls):
    """Proves: CONF-2, CONF-3."""
    options = Settings()
    found = confidence_components(
        ConfidenceInputs([RankedEntry(item, 0.5, {}) for item in entries], coverage, coverage, calls, 0.35)
    )
    assert set(found) == set(COMPONENT_WEIGHTS)
    assert all(0.0 <= value <= 1.0 for value in found.values())
    label = compute_confidence(compute_confidence_score(found), found, options)
    if not entries or max(item["similarity"] for item in entries) < options.conf_min_relevance:
        assert label is ConfidenceLabel.LOW
