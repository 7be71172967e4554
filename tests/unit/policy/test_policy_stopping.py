"""When a run refines, when it stops, and how sure it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recall_loop.policy.confidence.confidence_score import (
    COMPONENT_WEIGHTS,
    ConfidenceInputs,
    compute_confidence,
    compute_confidence_score,
    confidence_components,
)
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.stopping import STEPS_PER_ITERATION, RunProgress, refine_reasons, stop_figures, stop_reason
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ConfidenceLabel, StopReason

SETTINGS = Settings()
LEAST = SETTINGS.novelty_min_similarity


def call(results=5, similarity=0.8, success=True, iteration=1, attempts=1):
    return {
        "name": "search_all",
        "input": {},
        "strategy": "direct",
        "iteration": iteration,
        "result_count": results,
        "new_facts": 0,
        "mean_similarity": similarity,
        "success": success,
        "attempts": attempts,
        "duration_ms": 1.0,
        "error": None if success else "StoreError: gone",
    }


def entry(name, similarity=0.8, sources=1, queries=1, iteration=1, confidence=None):
    record = {"id": name, "kind": "fact", "text": name} | ({} if confidence is None else {"confidence": confidence})
    return {
        "key": name,
        "record": record,
        "window": "",
        "similarity": similarity,
        "relevance": similarity,
        "matches": [{"query": f"q{at}"} for at in range(queries)],
        "evidence": [],
        "evidence_keys": [f"{name}:{at}" for at in range(sources)],
        "first_iteration": iteration,
    }


def pool(*entries):
    return {found["key"]: found for found in entries}


# Refinement


def reasons(*calls, found=None, new=1, settings=SETTINGS):
    return refine_reasons(calls, found or {}, new, settings)


def test_good_results_need_no_refinement():
    """Proves: LOOP-5."""
    assert reasons(call()) == []
    assert reasons() == []


def test_zero_results_call_for_refinement():
    """Proves: LOOP-5."""
    assert reasons(call(results=0, similarity=0.0), new=0) == ["no_results"]


@pytest.mark.parametrize(("now", "refines"), [(5, False), (4, True), (10, False), (20, False)])
def test_a_drop_of_more_than_half_calls_for_refinement(now, refines):
    """Proves: LOOP-5."""
    assert reasons(call(results=10), call(results=now)) == (["fewer_results"] if refines else [])


def test_a_drop_is_measured_against_the_last_call_that_worked():
    """Proves: LOOP-5, STOP-6."""
    assert reasons(call(results=10), call(results=0, success=False), call(results=4)) == ["fewer_results"]


@pytest.mark.parametrize(("similarity", "refines"), [(0.499, True), (0.5, False)])
def test_a_low_mean_similarity_calls_for_refinement(similarity, refines):
    """Proves: LOOP-5."""
    assert reasons(call(similarity=similarity)) == (["low_similarity"] if refines else [])


@pytest.mark.parametrize(("confidences", "refines"), [((0.4, 0.5), True), ((0.4, 0.6), False), ((), False)])
def test_a_low_mean_fact_confidence_calls_for_refinement(confidences, refines):
    """Proves: LOOP-5."""
    facts = pool(*(entry(f"f{at}", confidence=value) for at, value in enumerate(confidences)), entry("plain"))
    assert reasons(call(), found=facts) == (["low_confidence"] if refines else [])


def test_a_stored_confidence_of_zero_counts():
    """0 isn't "not given". Proves: LOOP-5."""
    assert reasons(call(), found=pool(entry("a", confidence=0.0))) == ["low_confidence"]


def test_only_this_iterations_facts_are_judged():
    """Proves: LOOP-5."""
    facts = pool(entry("old", confidence=0.1, iteration=1), entry("new", confidence=0.9, iteration=2))
    assert reasons(call(iteration=2), found=facts) == []


def test_nothing_new_calls_for_refinement():
    """Proves: LOOP-5."""
    assert reasons(call(), new=0) == ["nothing_new"]


def test_reasons_add_up():
    """Proves: LOOP-5."""
    found = reasons(call(results=10), call(results=2, similarity=0.1), new=0)
    assert found == ["fewer_results", "low_similarity", "nothing_new"]


def test_a_failed_call_says_nothing_about_its_queries():
    """Proves: STOP-6."""
    assert reasons(call(), call(results=0, similarity=0.0, success=False), new=0) == []


def test_thresholds_come_from_the_settings():
    """0 switches a trigger off. Proves: LOOP-5."""
    off = Settings(refine_min_similarity=0.0, refine_min_confidence=0.0, refine_drop=1.0)
    facts = pool(entry("a", confidence=0.0))
    assert reasons(call(results=10), call(results=1, similarity=0.0), found=facts, settings=off) == []
    assert "low_similarity" in reasons(call(similarity=0.8), settings=Settings(refine_min_similarity=0.9))


# Stopping

GOING_ON = RunProgress(
    iteration=2,
    in_scope=True,
    calls=(call(),),
    queries_left=True,
    coverage=0.5,
    best_single=0.5,
    best_similarity=0.6,
    new_facts=3,
    streak=0,
    elapsed=1.0,
    remaining_steps=100,
)
FIRST = replace(GOING_ON, iteration=1)
STRONG = replace(FIRST, coverage=1.0, best_single=1.0, best_similarity=0.95)


def stops(progress, **settings):
    return stop_reason(progress, Settings(**settings))


def test_while_nothing_holds_it_goes_on():
    """Proves: STOP-2."""
    assert stops(GOING_ON) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"calls": (call(success=False),)}, StopReason.TOOL_FAILURE),
        ({"in_scope": False, "calls": ()}, StopReason.NOTHING_IN_SCOPE),
        ({"coverage": 1.0}, StopReason.COVERED),
        ({"queries_left": False}, StopReason.EXHAUSTED),
        ({"calls": (call(0), call(0), call(0))}, StopReason.EXHAUSTED),
        ({"new_facts": 30, "coverage": 0.8}, StopReason.ENOUGH_FACTS),
        ({"streak": 2}, StopReason.NO_NOVELTY),
        ({"iteration": 10}, StopReason.ITERATION_LIMIT),
        ({"remaining_steps": STEPS_PER_ITERATION - 1}, StopReason.STEP_LIMIT),
    ],
)
def test_each_reason_is_told_by_itself(change, reason):
    """Proves: STOP-2, STOP-4."""
    assert stops(replace(GOING_ON, **change)) is reason


def test_the_deadline_stops_only_where_there_is_one():
    """Proves: STOP-2."""
    late = replace(GOING_ON, elapsed=60.0)
    assert stops(late) is None
    assert stops(late, deadline_seconds=60.0) is StopReason.DEADLINE
    assert stops(late, deadline_seconds=61.0) is None


@pytest.mark.parametrize(
    "change",
    [
        {"coverage": 0.99},
        {"calls": (call(0), call(0))},
        {"calls": (call(0), call(1), call(0), call(0))},
        {"new_facts": 29, "coverage": 0.9},
        {"new_facts": 30, "coverage": 0.79},
        {"streak": 1},
        {"iteration": 9},
        {"remaining_steps": STEPS_PER_ITERATION},
        {"calls": (call(success=False), call())},
    ],
)
def test_just_short_of_a_threshold_it_goes_on(change):
    """Proves: STOP-2, STOP-4."""
    assert stops(replace(GOING_ON, **change)) is None


@pytest.mark.parametrize("change", [{"coverage": 1.0}, {"new_facts": 30, "coverage": 0.9}])
@pytest.mark.parametrize("floor", [2, 4])
def test_the_floor_holds_off_early_success(change, floor):
    """Proves: STOP-3."""
    for iteration in range(1, floor):
        weak = replace(GOING_ON, iteration=iteration, **change)
        assert stops(weak, early_stop_min_iterations=floor) is None
    assert stops(replace(GOING_ON, iteration=floor, **change), early_stop_min_iterations=floor) is not None


def test_a_very_strong_first_pass_is_exempt_from_the_floor():
    """Proves: STOP-3."""
    assert stops(STRONG) is StopReason.COVERED
    assert stops(STRONG, early_stop_min_iterations=9) is StopReason.COVERED


@pytest.mark.parametrize("weak", [{"coverage": 0.9}, {"best_single": 0.9}, {"best_similarity": 0.5}])
def test_a_strong_first_pass_needs_one_similar_record_that_holds_it_all(weak):
    """Proves: STOP-3."""
    assert stops(replace(STRONG, **weak)) is None


def test_the_thresholds_of_a_strong_first_pass_are_settings():
    """Proves: STOP-3."""
    modest = replace(STRONG, coverage=0.6, best_single=0.6, best_similarity=0.6)
    assert stops(modest, strong_first_coverage=0.5, strong_first_similarity=0.5) is StopReason.COVERED
    assert stops(STRONG, strong_first_similarity=0.99) is None


def test_failed_calls_are_no_zero_results():
    """Proves: STOP-6."""
    calls = (call(0), call(0, success=False), call(0))
    assert stops(replace(GOING_ON, calls=calls)) is None


def test_a_run_without_any_call_is_no_failure():
    """Proves: STOP-2."""
    assert stops(replace(GOING_ON, calls=())) is None


def test_figures_leave_out_what_differs_from_run_to_run():
    """Proves: STOP-2, LOOP-9."""
    progress = replace(GOING_ON, calls=(call(0), call(success=False), call(3)))
    shown = stop_figures(progress)
    assert shown == stop_figures(replace(progress, elapsed=99.0))
    assert (shown["failed_calls"], shown["zero_result_calls"]) == (1, 1)
    assert (shown["coverage"], shown["new_facts"]) == (0.5, 3)


# Confidence


def ranked(*entries):
    return [RankedEntry(found, found["relevance"], {}) for found in entries]


CLEAN = (call(),)


def parts(*entries, coverage=1.0, calls=CLEAN):
    return confidence_components(ConfidenceInputs(ranked(*entries), coverage, coverage, calls, LEAST))


def label(*entries, coverage=1.0, calls=CLEAN, settings=SETTINGS):
    found = parts(*entries, coverage=coverage, calls=calls)
    return compute_confidence(compute_confidence_score(found), found, settings)


GOOD = [entry(f"f{at}", 0.9, sources=3, queries=5) for at in range(6)]


def test_no_facts_are_low_with_score_zero():
    """Proves: CONF-3."""
    found = parts(coverage=1.0)
    assert set(found) == set(COMPONENT_WEIGHTS) and set(found.values()) == {0.0}
    assert compute_confidence_score(found) == 0.0
    assert label() is ConfidenceLabel.LOW


def test_a_second_record_is_no_crowd_to_stand_out_from():
    """One record beside the found one hardly moves its relevance; nine alike ones do. Proves: LIVE-3, CONF-2."""
    alone, beside, among = (
        parts(entry("said", 0.63), *(entry(f"other{at}", 0.58) for at in range(others)))["relevance"]
        for others in (0, 1, 9)
    )
    assert abs(alone - beside) < 0.1
    assert among < 0.4 < beside


def test_the_weights_are_those_of_the_requirement():
    """Proves: CONF-2."""
    assert dict(COMPONENT_WEIGHTS) == {
        "relevance": 0.35,
        "evidence": 0.20,
        "novelty_coverage": 0.25,
        "reliability": 0.20,
    }
    for name, weight in COMPONENT_WEIGHTS.items():
        assert compute_confidence_score(dict.fromkeys(COMPONENT_WEIGHTS, 0.0) | {name: 1.0}) == weight
    assert compute_confidence_score(dict.fromkeys(COMPONENT_WEIGHTS, 1.0)) == 1.0


def test_strong_evidence_is_high():
    """Proves: CONF-1, CONF-3."""
    assert label(*GOOD) is ConfidenceLabel.HIGH


def test_broad_low_quality_matches_are_never_high():
    """Proves: CONF-3."""
    for similarity in (0.2, 0.4, 0.5):
        broad = [entry(f"f{at}", similarity, sources=3, queries=5) for at in range(200)]
        assert label(*broad, coverage=0.2) is not ConfidenceLabel.HIGH
        assert label(*broad, coverage=0.2, calls=[call(200)] * 10) is not ConfidenceLabel.HIGH


def test_while_relevance_is_low_so_is_the_label():
    """Proves: CONF-3."""
    full = dict.fromkeys(COMPONENT_WEIGHTS, 1.0)
    assert compute_confidence(0.99, full | {"relevance": 0.29}, SETTINGS) is ConfidenceLabel.LOW
    assert compute_confidence(0.99, full | {"relevance": 0.35}, SETTINGS) is ConfidenceLabel.HIGH
    weak = [entry(f"f{at}", 0.3, sources=5, queries=9) for at in range(30)]
    assert label(*weak) is ConfidenceLabel.LOW


def test_labels_follow_the_thresholds_of_the_settings():
    """Proves: CONF-1."""
    full = dict.fromkeys(COMPONENT_WEIGHTS, 1.0)
    settings = Settings(conf_medium=0.3, conf_high=0.6)
    labels = [compute_confidence(score, full, settings).value for score in (0.29, 0.3, 0.59, 0.6)]
    assert labels == ["low", "medium", "medium", "high"]


def test_irrelevant_facts_are_no_evidence_and_no_novelty():
    """Proves: CONF-2."""
    noise = [entry(f"n{at}", LEAST - 0.01, sources=9, queries=9) for at in range(9)]
    found = parts(*noise, coverage=0.0)
    assert found["evidence"] == 0.0 and found["novelty_coverage"] == 0.0


def test_more_sources_are_more_evidence():
    """Proves: CONF-2."""
    levels = [parts(entry("a", sources=count))["evidence"] for count in (1, 2, 3, 6)]
    assert levels == sorted(levels) and len(set(levels)) == len(levels)


def test_one_source_behind_many_facts_is_one_source():
    """Proves: CONF-2."""
    shared = [{**entry(f"f{at}"), "evidence_keys": ["same"]} for at in range(5)]
    assert parts(*shared)["evidence"] < parts(*(entry(f"f{at}") for at in range(5)))["evidence"]


def test_errors_and_retries_lower_the_reliability():
    """Proves: CONF-2."""
    clean = parts(*GOOD, calls=[call(), call()])["reliability"]
    retried = parts(*GOOD, calls=[call(), call(attempts=3)])["reliability"]
    failed = parts(*GOOD, calls=[call(), call(success=False, attempts=3)])["reliability"]
    assert clean > retried > failed


def test_agreeing_queries_raise_the_reliability():
    """Proves: CONF-2."""
    assert parts(entry("a", queries=4))["reliability"] > parts(entry("a", queries=1))["reliability"]


def test_coverage_and_similarity_raise_their_components():
    """Proves: CONF-2."""
    assert parts(*GOOD, coverage=1.0)["novelty_coverage"] > parts(*GOOD, coverage=0.3)["novelty_coverage"]
    assert parts(entry("a", 0.9))["relevance"] > parts(entry("a", 0.5))["relevance"]


@pytest.mark.parametrize("bad", [-0.01, 1.01, float("nan"), float("inf")])
@pytest.mark.parametrize("name", list(COMPONENT_WEIGHTS))
def test_a_bad_component_is_refused_by_name(name, bad):
    """Proves: CONF-1, CONF-2."""
    with pytest.raises(InvalidInputError) as caught:
        compute_confidence_score(dict.fromkeys(COMPONENT_WEIGHTS, 0.5) | {name: bad})
    assert name in caught.value.field


@pytest.mark.parametrize("given", [{}, {"relevance": 1.0}, dict.fromkeys(COMPONENT_WEIGHTS, 0.5) | {"charm": 1.0}])
def test_missing_and_unknown_components_are_refused(given):
    """Proves: CONF-2."""
    with pytest.raises(InvalidInputError):
        compute_confidence_score(given)
