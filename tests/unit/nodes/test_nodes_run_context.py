"""What a run keeps between its nodes changes no result, and goes with the run."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.runtime import Runtime

from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.run_holder import RunHolder
from recall_loop.policy.confidence.asked_values import holds_asked_kind
from recall_loop.policy.evidence.coverage import FacetMatcher, compute_coverage, extract_facets
from recall_loop.policy.evidence.ranking import rank_entries
from recall_loop.policy.evidence.statements import put_statements_first
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.context import Context
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings
from recall_loop.text.speech.negations import is_negated

NOW = "2024-06-01T00:00:00+00:00"
CONTEXT = Context()
WORDS = ("Anna", "likes", "chess", "Lisbon", "2023", "moved", "May", "piano")


def state(question="When did Anna move to Lisbon?", reference_time=NOW, pool=None, iteration=1):
    request = {"messages": [{"content": question}], "max_facts": 5, "max_iterations": 3, "max_context_tokens": 500}
    asked = analyse_question(RetrieveRequest.model_validate(request), datetime.fromisoformat(reference_time))
    return {
        "request": request,
        "reference_time": reference_time,
        "facets": extract_facets(asked),
        "evidence_pool": pool or {},
        "iteration": iteration,
    }


def run(resources, given, context=CONTEXT, **configurable):
    """Return the run as a node gets it."""
    node = RunnableLambda(lambda _: resources.run(given, Runtime(context=context)))
    return node.invoke(None, {"configurable": configurable})


def pool(seed, size=20):
    draw = random.Random(seed)
    entries = {}
    for at in range(size):
        text = " ".join(draw.choices(WORDS, k=5))
        entries[f"k{at}"] = {
            "key": f"k{at}",
            "record": {"id": f"r{at % 7}", "kind": "message", "text": text, "created_at": "2024-05-01T00:00:00Z"},
            "window": text + " " + draw.choice(WORDS),
            "similarity": draw.choice((0.2, 0.5, 0.9)),
            "relevance": draw.choice((0.2, 0.5, 0.9)),
            "matches": [{"query": str(n)} for n in range(draw.randint(1, 3))],
            "evidence": [],
            "evidence_keys": [str(n) for n in range(draw.randint(1, 3))],
            "first_iteration": draw.randint(1, 2),
            "is_new": False,
            "legs": {},
        }
    return entries


@pytest.mark.parametrize("seed", range(10))
def test_a_kept_ranking_is_the_ranking_of_the_pool(seed):
    """Proves: LOOP-9, RANK-3."""
    known, found = run(GraphResources(None, Settings()), state()), pool(seed)
    question = known.question
    settings, now = Settings(max_facts=5, max_iterations=3), datetime.fromisoformat(NOW).astimezone(UTC)

    def ranking(entries):
        ranked = rank_entries(
            entries.values(),
            settings,
            now,
            question.text,
            answers=lambda each: holds_asked_kind(question, each) or is_negated(each["record"]["text"]),
        )
        return put_statements_first(ranked, known.states, known.supported_facets, settings.novelty_min_similarity)

    assert known.ranked(state(pool=found)) == ranking(found)
    new = frozenset(random.Random(seed).sample(sorted(found), 5))
    marked = known.mark_new(state(pool=found), new)
    assert {key for key, entry in marked.items() if entry["is_new"]} == new
    assert list(marked) == list(found)
    assert known.ranked(state(pool=marked)) == ranking(marked)
    other = pool(seed + 1)
    assert known.ranked(state(pool=other, iteration=2)) == ranking(other)


def test_the_ranking_knows_what_the_question_names():
    """Proves: RANK-3."""
    known, found = run(GraphResources(None, Settings()), state("Who owns The Heron?")), pool(1, 3)
    for key, entry in found.items():
        entry["record"] = {
            **entry["record"],
            "id": key,
            "kind": "archival",
            "label": "The Heron" if key == "k2" else None,
        }
    bonus = {item.entry["key"]: item.components["reference"] for item in known.ranked(state(pool=found))}
    assert bonus == {"k0": 0.0, "k1": 0.0, "k2": Settings().rank_reference_weight}


@pytest.mark.parametrize("seed", range(10))
def test_kept_support_is_the_support_of_the_record(seed):
    """Proves: LOOP-9, STOP-5."""
    known, found = run(GraphResources(None, Settings()), state()), pool(seed)
    facets = extract_facets(known.question)
    for entry in [*found.values(), *found.values(), *pool(seed + 1).values()]:
        expected = FacetMatcher(facets, known.question)(entry) if known.states(entry) else frozenset()
        assert known.supported_facets(entry) == expected
    single = [FacetMatcher(facets, known.question)(entry) for entry in found.values()]
    assert compute_coverage(facets, single) == compute_coverage(
        facets, map(FacetMatcher(facets, known.question), found.values())
    )


def test_all_nodes_of_a_run_get_the_same_run():
    """Proves: LOOP-9."""
    resources, given = GraphResources(None, Settings()), state()
    with RunHolder().current():
        first = run(resources, given)
        assert run(resources, {**given, "iteration": 2}, thread_id="1") is first


def test_another_call_of_the_graph_is_another_run():
    """Proves: LOOP-9 (parallel calls too: each has its own holder, also where one begins inside of another)."""
    resources, given = GraphResources(None, Settings()), state()
    with RunHolder().current():
        outer = run(resources, given)
        with RunHolder().current():
            assert run(resources, state("Who owns The Heron?")).question.text == "Who owns The Heron?"
        assert run(resources, given) is outer
    assert run(resources, given) is not outer


def test_what_a_run_is_made_from():
    """Proves: LOOP-9."""
    resources, given = GraphResources(None, Settings()), state()
    assert run(resources, given | {"reference_time": "2020-01-01T00:00:00+00:00"}).reference_time.year == 2020
    assert run(resources, given, Context(novelty_patience=9)).settings.novelty_patience == 9
    assert run(resources, given, None, novelty_patience=8).settings.novelty_patience == 8
    assert run(resources, given, None, novelty_patience=7).settings.novelty_patience == 7


def test_a_foreign_context_is_read_by_each_run():
    """Proves: LOOP-9."""
    resources, given, foreign = GraphResources(None, Settings()), state(), {"novelty_patience": 3}
    assert run(resources, given, foreign).settings.novelty_patience == 3
    foreign["novelty_patience"] = 4
    assert run(resources, given, foreign).settings.novelty_patience == 4
