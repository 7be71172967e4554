"""Every run ends, for a stated reason, whatever the limits and the knobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import retrieve
from recall_loop.state.errors import RecursionLimitError
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import StopReason
from recall_loop.text.words.tokens import query_terms
from tests.integration.graph.worlds import DIRECT, NOTHING, TWO_HOPS, comparable_json, filled_store, valley_request

# Knobs under which nothing but a limit ends the loop while queries are left.
ENDLESS = {
    "strong_first_similarity": 1,
    "early_stop_min_iterations": 100,
    "novelty_patience": 100,
    "max_iterations": 100,
    "fallback_max_queries": 1,
}
QUESTIONS = (DIRECT, TWO_HOPS, NOTHING, "Granary?", "And then?", "What did he pay, and when did she tell him about it?")


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


@pytest.mark.parametrize("going_on", [True, False])
@pytest.mark.parametrize("limit", [*range(5, 12), 28, 29, 30])  # a round takes three steps
def test_any_limit_from_five_reaches_the_end(world, limit, going_on):
    """Proves: STOP-2, LOOP-1 (on the route by plan_queries and on the one by refine)."""
    knobs = {"refine_min_similarity": 0, "refine_drop": 1, "novelty_min_similarity": 0} if going_on else {}
    graph = build_graph(world, settings=Settings(**ENDLESS, **knobs))
    output = graph.invoke(valley_request(TWO_HOPS), {"recursion_limit": limit})
    assert output["stop"]["reason"] in (StopReason.STEP_LIMIT, StopReason.EXHAUSTED)
    if output["stop"]["reason"] == StopReason.STEP_LIMIT:
        # Three steps a round, one for the answer and one that LangGraph keeps: no round is given away.
        assert output["stop"]["iteration"] == (limit - 2) // 3
    assert output["facts"]


def test_the_limit_changes_nothing_but_where_the_run_is_cut(world):
    """Proves: LOOP-9, STOP-2 (step_limit is the only difference between ways of calling)."""
    graph = build_graph(world)
    free = graph.invoke(valley_request(TWO_HOPS, debug=True))
    for limit in range(5, 31):
        cut = graph.invoke(valley_request(TWO_HOPS, debug=True), {"recursion_limit": limit})
        if cut["stop"]["reason"] == StopReason.STEP_LIMIT:
            done = cut["stop"]["iteration"]
            assert done <= free["stop"]["iteration"]
            calls = [output["metadata"]["trace"]["tool_calls"][:done] for output in (cut, free)]
            assert [call["input"] for call in calls[0]] == [call["input"] for call in calls[1]]
        else:
            assert comparable_json(cut) == comparable_json(free)


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_a_limit_below_five_is_a_typed_error(world, limit):
    """Proves: STOP-2, SEARCH-2."""
    with pytest.raises(RecursionLimitError, match=r"recursion_limit.*5 or more") as caught:
        build_graph(world).invoke(valley_request(DIRECT), {"recursion_limit": limit})
    assert caught.value.value == str(limit)


UNITS = st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0])
KNOBS = st.fixed_dictionaries(
    {},
    optional={
        "max_facts": st.integers(1, 30),
        "max_iterations": st.integers(1, 12),
        "early_stop_min_iterations": st.integers(1, 12),
        "novelty_min_new_facts": st.integers(1, 5),
        "novelty_patience": st.integers(1, 12),
        "novelty_min_similarity": UNITS,
        "coverage_enough": UNITS,
        "strong_first_coverage": UNITS,
        "strong_first_similarity": UNITS,
        "refine_min_similarity": UNITS,
        "refine_min_confidence": UNITS,
        "refine_drop": UNITS,
        "repeat_similarity": UNITS,
        "duplicate_similarity": UNITS,
        "fallback_max_queries": st.integers(1, 12),
        "fallback_max_length": st.integers(10, 120),
        "search_limit": st.integers(1, 40),
        "search_mode": st.sampled_from(["vector", "fts", "hybrid", "auto"]),
        "rank_novelty_weight": UNITS,
        "rank_diversity_weight": UNITS,
        "conf_min_relevance": UNITS,
        "max_context_tokens": st.integers(1, 400),
    },
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "min_similarity": st.sampled_from([0.0, 0.3, 0.6, 0.9, 1.0]),
        "role": st.sampled_from(["user", "assistant", "tool"]),
        "tags": st.sampled_from([["health"], ["travel"]]),
    },
)


def check_result(result: RetrieveResult, knobs: Settings) -> None:
    """What holds for every result, whatever the knobs."""
    assert result.stop.reason in set(StopReason)
    assert 0 <= result.stop.iteration <= knobs.max_iterations
    assert result.stop.iteration == result.metadata["iterations"]
    assert len(result.facts) <= knobs.max_facts
    assert len({fact.id for fact in result.facts}) == len(result.facts)
    for number in (result.confidence.score, *result.confidence.components.values(), result.metadata["coverage"]):
        assert 0 <= number <= 1
    for fact in result.facts:
        assert 0 <= fact.score <= 1
        assert 0 <= fact.similarity <= 1
    if not result.facts:
        assert (result.confidence.label, result.confidence.score, result.context) == ("low", 0, "")


def check_no_repeats(result: RetrieveResult) -> None:
    """No query runs twice with the same tool and filters (a run's filters never change)."""
    run = [
        (call["name"], query_terms(query))
        for call in result.metadata["trace"]["tool_calls"]
        for query in call["input"]["queries"]
    ]
    assert len(run) == len(set(run)), [query for query in run if run.count(query) > 1]


@settings(max_examples=40)
@given(question=st.sampled_from(QUESTIONS), knobs=KNOBS, filters=FILTERS)
def test_every_run_ends_for_a_reason_and_repeats_no_query(world, question, knobs, filters):
    """Proves: STOP-2, STOP-4, LOOP-4."""
    chosen = Settings(**knobs)
    result = retrieve(valley_request(question, filters=filters, debug=True), store=world, settings=chosen)
    check_result(result, chosen)
    check_no_repeats(result)


def test_a_query_without_results_is_not_asked_again(world):
    """Proves: LOOP-4 (nothing changed between the calls: neither messages nor filters nor tool)."""
    knobs = Settings(**{**ENDLESS, "fallback_max_queries": 12})
    result = retrieve(
        valley_request(TWO_HOPS, filters={"min_similarity": 1.0}, debug=True), store=world, settings=knobs
    )
    assert result.facts == ()
    check_no_repeats(result)
