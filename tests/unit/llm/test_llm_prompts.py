"""Prompts of a language model: bounded, complete, newest and strongest first; and how its answers are used."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.llm.structured.output_methods import reply_schema
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.model.llm_step import build_answer_prompt, build_prompt, strategy_lines, tool_lines
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.evidence.llm_query_weight import MIN_FACTOR, question_terms, weight_llm_queries
from recall_loop.policy.evidence.merging import QueryHits, merge_hits
from recall_loop.policy.planning.query_forms import make_query
from recall_loop.policy.prompting import briefing
from recall_loop.policy.prompting.answer_composition import (
    NOT_IN_MEMORY,
    cited_ids,
    compose_answer,
    compose_partial_answer,
)
from recall_loop.policy.question.question import analyse_question
from recall_loop.prompts.replies import AnswerReply, EvaluateReply, PlanReply, RefineReply
from recall_loop.prompts.templates import load_template, render_prompt
from recall_loop.state.records.records import Fact, SearchHit
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import QuerySource, Strategy, ToolName
from recall_loop.text.words.snippets import estimate_tokens

NOW = datetime(2024, 6, 1, tzinfo=UTC)
QUESTION = "Who owns the granary where the quartet rehearses?"
SCHEMAS = {"plan": PlanReply, "refine": RefineReply, "evaluate": EvaluateReply, "answer": AnswerReply}


def render(name, given_state, given_run, ranked):
    """Return a prompt as its node renders it."""
    if name == "answer":
        return build_answer_prompt(given_run, ranked, AnswerReply)[0]
    return build_prompt(name, given_state, given_run, ranked, SCHEMAS[name], **extra(name))


def run(settings: Settings | None = None, **more: Any) -> RunContext:
    request = RetrieveRequest.model_validate({"messages": [{"content": QUESTION}], **more})
    return RunContext(request, analyse_question(request, NOW), NOW, settings or Settings(), [], MemoryStore.in_memory())


def entry(number: int, text: str, iteration: int = 1, new: bool = False) -> Any:
    record = {
        "id": f"m{number}",
        "kind": "message",
        "text": text,
        "author": "Mara",
        "created_at": "2024-05-01T00:00:00Z",
    }
    return {"key": f"k{number}", "record": record, "is_new": new, "first_iteration": iteration}


def outcome(number: int, new: int = 0, iteration: int = 1, error: str | None = None) -> Any:
    return {
        "query": f"query {number} about the granary",
        "results": 30,
        "new_facts": new,
        "iteration": iteration,
        "error": error,
    }


def state(outcomes: int = 0, **more: Any) -> Any:
    found = {f"q{at}": outcome(at, int(at % 7 == 0), 1 + at // 18) for at in range(outcomes)}
    return {"query_results": found, "judged_uncovered": [], "uncovered": ["granary"], "iteration": 50, **more}


def extra(name: str) -> dict[str, str]:
    lines = {
        "tools": tool_lines(list(ToolName)),
        "strategies": strategy_lines(list(Strategy)[:4]),
        "reasons": "nothing_new",
    }
    return {key: value for key, value in lines.items() if key in load_template(name).variables}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_wording(name, snapshot):
    """Proves: LOOP-8 (the words that a model reads, as they are rendered)."""
    ranked = [entry(1, "Pelle Lund owns the <granary>."), entry(2, "We rehearse on Thursdays.", new=True)]
    given_state = state(3, iteration=1)
    prompt = render(name, given_state, run(goal="Return the stove"), ranked)
    snapshot(f"prompt_{name}.md", f"{prompt.system}\n=====\n{prompt.user}\n")


@pytest.mark.parametrize("cap", [2000, 3000, 8000])
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_prompt_stays_within_its_cap_however_long_the_run(name, cap):
    """Proves: LOOP-3 (50 iterations, 1,000 facts, a long window and a long goal)."""
    long = "the quartet rehearses in the old granary by the tram depot, " * 20
    ranked = [entry(at, f"{at} {long}", 1 + at // 20, at % 3 == 0) for at in range(1000)]
    window = [{"content": f"{at} {long}"} for at in range(40)] + [{"content": QUESTION}]
    long_run = run(Settings(llm_prompt_tokens=cap), messages=window, goal=long * 20)
    long_state = state(900, uncovered=[f"part {at} of the question" for at in range(200)])
    prompt = render(name, long_state, long_run, ranked)
    size = estimate_tokens(prompt.system) + estimate_tokens(prompt.user)
    assert size + reply_schema(SCHEMAS[name]).tokens <= cap
    assert "[1] " in prompt.user
    if "tried" in load_template(name).variables:
        assert "(and " in prompt.user


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("text", ["<td>&nbsp;</td>" * 66, "漢字" * 499 + "?", "a" * 999, "<" * 999])
def test_text_that_takes_many_tokens_leaves_room_for_memories(name, text):
    """Proves: LOOP-3, LOOP-10 (question, goal, authors and labels are cut as they are shown)."""
    named = entry(1, "Pelle Lund owns the granary.")
    named["record"] |= {"author": "A" * 15_000, "label": "&" * 5000}
    odd = run(Settings(llm_prompt_tokens=2000), messages=[{"content": text}], goal=text * 5)
    prompt = render(name, state(50), odd, [named, entry(2, "We rehearse there.")])
    assert "Pelle Lund owns the granary." in prompt.user
    assert estimate_tokens(prompt.system) + estimate_tokens(prompt.user) + reply_schema(SCHEMAS[name]).tokens <= 2000


def test_the_digest_is_newest_and_strongest_first():
    """Proves: LOOP-3."""
    ranked = [entry(1, "strong and old"), entry(2, "weaker and old"), entry(3, "weak and new", 4, True)]
    lines = briefing.render_found(ranked, 4, 500, frozenset()).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["weak and new", "strong and old", "weaker and old"]
    short = briefing.render_found(ranked, 4, 35, frozenset()).splitlines()
    assert short[-1] == "(and 2 more)"


def test_tried_queries_are_listed_with_their_yield():
    """Proves: LOOP-3."""
    lines = briefing.render_tried([outcome(1), outcome(2, 3), outcome(3, iteration=2, error="gone")], 500).splitlines()
    assert lines[0] == "- query 2 about the granary (30 found, 3 new)"
    assert lines[1] == "- query 3 about the granary (failed)"


def test_only_facts_that_are_shown_can_be_cited():
    """Proves: LOOP-10."""
    ranked = [entry(at, "word " * 400) for at in range(100)]
    prompt, places = build_answer_prompt(run(Settings(llm_prompt_tokens=2000)), ranked, AnswerReply)
    assert 0 < len(places) < 100
    assert all(f"[{place}] " in prompt.user for place in places)
    assert f"[{max(places) + 1}] " not in prompt.user


SENTENCES = st.lists(
    st.tuples(st.lists(st.integers(0, 5), max_size=3), st.text("abM [1]\n.é", max_size=30)), max_size=4
)


@given(SENTENCES, st.integers(0, 30))
def test_what_is_shown_of_an_answer_is_a_head_of_it(sentences, cut):
    """Proves: LOOP-10 (streamed tokens never have to be taken back)."""
    ids = ["m1", "m2", "m3"]
    final = compose_answer(sentences, ids)
    for at in range(len(sentences)):
        numbers, text = sentences[at]
        shown = compose_partial_answer([*sentences[:at], (numbers, text[:cut])], ids)
        assert final.startswith(shown)
    assert final == NOT_IN_MEMORY or final.endswith("]")


def test_sentences_without_a_valid_citation_are_dropped():
    """Proves: LOOP-10."""
    said = [([1, 9], "Pelle owns it [1]."), ([], "Nobody knows."), ([9], "Ludo owns it."), ([2, 2], "Since 1998.")]
    assert compose_answer(said, ["m1", "f 2"]) == "Pelle owns it. [m1] Since 1998. [f 2]"
    assert compose_answer(said[1:3], ["m1"]) == NOT_IN_MEMORY
    assert cited_ids([0, -1, 2], ["a", "b"]) == ["b"]


def test_every_sentence_of_an_item_is_cited_and_brackets_are_not_the_models():
    """Proves: LOOP-10."""
    said = [([1], "Mara moved in March [m99]. Dr. J. Voss, of St. Ives, hates [f2] cheese. In 2023 she left.")]
    assert compose_answer(said, ["m1"]) == (
        "Mara moved in March. [m1] Dr. J. Voss, of St. Ives, hates cheese. [m1] In 2023 she left. [m1]"
    )


def hit(name: str, text: str) -> SearchHit:
    return SearchHit(record=Fact(id=name, text=text), similarity=0.8, score=0.8)


def found(text: str, *hits: SearchHit, source: QuerySource = QuerySource.LLM) -> QueryHits:
    return QueryHits(make_query(text, source), list(hits))


def test_a_query_weighs_what_it_is_grounded():
    """Proves: LOOP-8 (a plan for another question displaces nothing)."""
    ran = run()
    asked = question_terms(ran.question, ran.request.messages, [])
    first = found("who owns the granary of the quartet", hit("a", "The granary belongs to Pelle Lund."))
    chained, foreign = found("birthplace of Pelle Lund"), found("capital of Guyana")
    own = found("capital of Guyana", source=QuerySource.KEYWORD)
    before = [part.query["weight"] for part in (foreign, first, chained, own)]
    parts = weight_llm_queries([foreign, first, chained, own], asked, [])
    after = [part.query["weight"] for part in parts]
    assert after[1:] == before[1:], "grounded in the question, in a grounded query's hits, and not a model's at all"
    assert after[0] == pytest.approx(before[0] * MIN_FACTOR)
    seed = first.hits[0]
    assert parts[1].credit_ceiling is None and parts[3].credit_ceiling is None
    assert parts[2].credit_ceiling is not None
    assert parts[2].credit_ceiling.similarity < before[1] * seed.similarity, "a chain is as strong as its weakest link"
    alone = weight_llm_queries([chained], asked, [])[0].query["weight"]
    assert alone < before[2], "its entity stands nowhere yet"


def test_a_models_echo_of_a_record_lifts_nothing_above_it():
    """Proves: LOOP-8 (a model that repeats what it was shown changes no order)."""
    ran = run()
    asked = question_terms(ran.question, ran.request.messages, [])
    weak = "A farm roof with a jar of honey"
    own = QueryHits(make_query("quartet", QuerySource.KEYWORD, 0.4), [hit("d", weak)])
    word = weight_llm_queries([found("quartet", hit("d", weak))], asked, [])[0].query["weight"]
    assert word == pytest.approx(0.3), "a single word of the question is no part of it"
    merged = merge_hits(
        {}, weight_llm_queries([own, found(weak, hit("d", weak), hit("e", f"{weak} again"))], asked, []), 1, frozenset()
    )
    by_id = {each["record"]["id"]: each for each in merged.pool.values()}
    assert by_id["d"]["relevance"] == pytest.approx(0.4 * 0.8)
    assert by_id["e"]["relevance"] < by_id["d"]["relevance"]
    assert by_id["e"]["similarity"] < by_id["d"]["similarity"]


@pytest.mark.parametrize(
    ("model", "reply", "expected"),
    [
        (PlanReply, {"tool": "x", "strategy": 3, "queries": ["a", "a", "b"]}, ["a", "b"]),
        (PlanReply, {"queries": {"whole": " a\n b ", "names": None, "statement": 7}}, ["a b"]),
        (RefineReply, {"queries": {}, "missing": "one thing", "fuzzy": 9, "start_date": "soon"}, []),
    ],
)
def test_slips_that_do_no_harm_are_read_leniently(model, reply, expected):
    """Proves: LOOP-8."""
    read = model.model_validate(reply)
    assert read.queries.texts() == expected
    assert read.tool is None and read.strategy is None


@pytest.mark.parametrize(
    ("model", "reply"),
    [
        (PlanReply, {"tool": "search_all"}),
        (PlanReply, {"queries": "everything"}),
        (EvaluateReply, {"stop": True}),
        (EvaluateReply, {"stop": True, "confidence": "utter"}),
        (AnswerReply, {"found": True, "sentences": "Pelle owns it."}),
    ],
)
def test_what_is_needed_is_required(model, reply):
    """Proves: LOOP-8."""
    with pytest.raises(ValueError, match="validation error"):
        model.model_validate(reply)


def test_a_prompt_has_two_parts():
    """Proves: LOOP-8."""
    with pytest.raises(ValueError, match="no parts"):
        render_prompt("context", confidence="low", stop="covered", memories="")
    with pytest.raises(ValueError, match="got"):
        render_prompt("plan", question="x")
    assert replace(render_prompt("evaluate", **dict.fromkeys(load_template("evaluate").variables, ""))).version == "1"
