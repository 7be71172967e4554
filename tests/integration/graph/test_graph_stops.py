"""Each reason to stop, refinement, and the scope's walls through the whole loop."""

from __future__ import annotations

from datetime import datetime

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from recall_loop.graph.builder import build_graph
from recall_loop.graph.loop_tools import retrieve_tool
from recall_loop.graph.retriever import RecallLoopRetriever
from recall_loop.graph.run import retrieve, stream_retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.policy.prompting.answer_composition import NOT_SEARCHED
from recall_loop.state.display import NOT_SEARCHED_TEXT
from recall_loop.state.errors import StoreError, StoreUnavailableError
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import StopReason
from tests.integration.graph.planners import ScriptedPlanner
from tests.integration.graph.worlds import (
    BY_ID,
    COAST,
    COAST_RECORDS,
    COAST_TEXTS,
    DIRECT,
    NOTHING,
    TWO_HOPS,
    VALLEY,
    VALLEY_IDS,
    FlakyEmbedder,
    WordHashEmbedder,
    filled_store,
    validated_result,
    valley_request,
)
from tests.llm_endpoint import ChatEndpoint

PATIENT = {"strong_first_similarity": 1, "novelty_patience": 100}


@pytest.fixture(scope="module")
def world(embedder):
    with filled_store(embedder) as store:
        yield store


def run(store, question, knobs=None, **more):
    return retrieve(valley_request(question, debug=True, **more), store=store, settings=Settings(**(knobs or {})))


def test_nothing_in_scope(world):
    """Proves: STOP-2 (said at once: no search is made)."""
    for scope in ({"tenant": "nobody"}, {"agent_id": "nobody"}, {"conversation_id": "c-none"}):
        result = run(world, DIRECT, **scope)
        assert (result.stop.reason, result.stop.iteration) == (StopReason.NOTHING_IN_SCOPE, 0)
        assert result.metadata["queries_executed"] == 0
        assert (result.facts, result.confidence.score, result.degraded) == ((), 0, False)


def test_nothing_in_an_empty_store():
    """Proves: STOP-2."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        assert run(store, DIRECT).stop.reason is StopReason.NOTHING_IN_SCOPE


def test_nothing_of_the_content_types_in_scope(world):
    """Proves: STOP-2 (a scope whose records are all of other kinds)."""
    result = run(world, DIRECT, conversation_id="c-mara", content_types=["trajectory"])
    assert result.stop.reason is StopReason.NOTHING_IN_SCOPE


def test_covered_after_a_very_strong_first_pass(world):
    """Proves: STOP-2, STOP-3 (before the floor, only where one record holds it all)."""
    strong = {"strong_first_coverage": 0.5, "strong_first_similarity": 0.5}
    result = run(world, "Is Oda Voss allergic to walnuts?", strong)
    assert (result.stop.reason, result.stop.iteration) == (StopReason.COVERED, 1)
    assert result.stop.detail["best_similarity"] >= 0.5
    assert result.facts[0].id == "f-oda"


def test_the_floor_holds_back_full_coverage(world):
    """Proves: STOP-3."""
    knobs = {**PATIENT, "early_stop_min_iterations": 2}
    result = run(world, "Oda Voss walnuts", knobs)
    assert result.metadata["coverage"] == 1
    assert result.stop.iteration >= 2 or result.stop.reason is StopReason.EXHAUSTED
    early = run(world, "Oda Voss walnuts", {**knobs, "early_stop_min_iterations": 1})
    assert (early.stop.reason, early.stop.iteration) == (StopReason.COVERED, 1)


def test_exhausted_when_no_query_is_left(world):
    """Proves: STOP-2, LOOP-4."""
    result = run(world, "Quenby?", {**PATIENT, "max_iterations": 100, "early_stop_min_iterations": 100})
    assert result.stop.reason is StopReason.EXHAUSTED
    assert result.stop.iteration >= 1


def test_exhausted_after_three_calls_without_results(world):
    """Proves: STOP-2."""
    knobs = {**PATIENT, "fallback_max_queries": 1}
    result = run(world, TWO_HOPS, knobs, filters={"min_similarity": 1})
    assert (result.stop.reason, result.stop.iteration) == (StopReason.EXHAUSTED, 3)
    assert result.stop.detail["zero_result_calls"] == 3
    assert result.facts == ()


def test_no_novelty(world):
    """Proves: STOP-1, STOP-2, STOP-3 (what is below the threshold is no gain; the floor of two iterations holds)."""
    knobs = {"novelty_min_similarity": 1, "fallback_max_queries": 2}
    for patience in (1, 2, 3):
        result = run(world, TWO_HOPS, {**knobs, "novelty_patience": patience})
        rounds = max(patience, 2)
        assert (result.stop.reason, result.stop.iteration) == (StopReason.NO_NOVELTY, rounds)
        assert result.stop.detail["iterations_without_gain"] == rounds
        assert result.metadata["new_facts_by_iteration"] == [0] * rounds


def test_enough_facts(world):
    """Proves: STOP-2, STOP-3 (past the floor only)."""
    knobs = {**PATIENT, "novelty_min_similarity": 0, "coverage_enough": 0, "fallback_max_queries": 2}
    for floor in (1, 2):
        result = run(world, TWO_HOPS, {**knobs, "early_stop_min_iterations": floor}, max_facts=2)
        assert (result.stop.reason, result.stop.iteration) == (StopReason.ENOUGH_FACTS, floor)
        assert result.stop.detail["new_facts"] >= 2


def test_iteration_limit(world):
    """Proves: STOP-2 (the request's limit wins over the settings')."""
    knobs = {**PATIENT, "early_stop_min_iterations": 100, "fallback_max_queries": 1, "max_iterations": 9}
    for most in (1, 2, 3):
        result = run(world, TWO_HOPS, knobs, max_iterations=most)
        assert (result.stop.reason, result.stop.iteration) == (StopReason.ITERATION_LIMIT, most)


def test_deadline(world):
    """Proves: STOP-2 (what was found until then is returned)."""
    result = run(world, TWO_HOPS, {**PATIENT, "deadline_seconds": 1e-6, "early_stop_min_iterations": 100})
    assert (result.stop.reason, result.stop.iteration) == (StopReason.DEADLINE, 1)
    assert result.facts


def test_step_limit(world):
    """Proves: STOP-2."""
    graph = build_graph(world, settings=Settings(**PATIENT, early_stop_min_iterations=100))
    output = graph.invoke(valley_request(TWO_HOPS), {"recursion_limit": 5})
    assert (output["stop"]["reason"], output["stop"]["iteration"]) == (StopReason.STEP_LIMIT, 1)


QUICK = {"tool_attempts": 3, "tool_backoff_seconds": 0}


def check_failed(result, facts_before=False):
    assert result.stop.reason is StopReason.TOOL_FAILURE
    assert result.degraded
    assert result.warnings
    assert result.stop.detail["failed_calls"] == 1
    if not facts_before:
        assert (result.facts, result.context) == ((), "")
        assert (result.confidence.label, result.confidence.score) == ("low", 0)


def test_tool_failure_after_all_attempts():
    """Proves: STOP-2, STOP-6, CONF-3."""
    embedder = FlakyEmbedder(failures=100)
    with filled_store(embedder) as store:
        result = run(store, DIRECT, {**QUICK, "search_mode": "vector"})  # words aren't wanted in its place
    check_failed(result)
    assert embedder.calls == 3
    call = result.metadata["trace"]["tool_calls"][0]
    assert (call["success"], call["attempts"], call["result_count"]) == (False, 3, 0)
    assert "does not answer" in call["error"]
    assert all(outcome["error"] for outcome in result.metadata["trace"]["query_results"])


def test_after_a_failure_no_output_says_that_memory_is_empty():
    """Proves: STOP-6, GRAPH-2, LOOP-10. Nor where a search before it found nothing relevant."""
    failing = FlakyEmbedder(failures=100)
    knobs = {**QUICK, "context_floor": 1, "search_mode": "vector"}
    settings = Settings(**knobs)
    with filled_store(failing) as store, ChatEndpoint(ScriptedPlanner()) as endpoint:
        said = build_graph(store, settings=settings).invoke(
            {"messages": [("user", DIRECT)]}, context={"tenant": VALLEY}
        )
        answer = retrieve(valley_request(DIRECT), store=store, settings=settings, llm=endpoint.model()).answer
        failing.failures, failing.calls = 0, 0
        failing.fails_from = 2
        later = run(store, TWO_HOPS, {**knobs, **PATIENT, "early_stop_min_iterations": 100})
    assert said["messages"][-1].content == NOT_SEARCHED_TEXT
    assert answer == NOT_SEARCHED
    assert later.stop.reason is StopReason.TOOL_FAILURE and later.facts
    assert "unknown" in later.context and "nothing in memory" not in later.context


def test_a_failure_that_passes_is_retried():
    """Proves: STOP-6 (retried with success: nothing degraded, and the retry is counted)."""
    with filled_store(FlakyEmbedder(failures=2)) as store:
        result = run(store, DIRECT, QUICK)
    assert result.stop.reason is not StopReason.TOOL_FAILURE
    assert not result.degraded
    assert result.facts
    assert result.metadata["trace"]["tool_calls"][0]["attempts"] == 3
    with filled_store() as store:
        calm = run(store, DIRECT, QUICK)
    assert calm.confidence.components["reliability"] > result.confidence.components["reliability"]


def test_the_wait_doubles():
    """Proves: STOP-6 (0.05 s, then 0.1 s)."""
    with filled_store(FlakyEmbedder(failures=2)) as store:
        result = run(store, DIRECT, {"tool_attempts": 3, "tool_backoff_seconds": 0.05})
    assert result.metadata["trace"]["tool_calls"][0]["duration_ms"] >= 150


@pytest.mark.parametrize("after", ["plan_queries", "evaluate_progress"])
def test_a_store_that_breaks_while_the_loop_runs(tmp_path, after):
    """Proves: STOP-2, STOP-6 (the search really raises; what was found before is kept)."""
    thread = {"configurable": {"thread_id": "one"}}
    with filled_store(path=tmp_path / "store") as store:
        knobs = {**QUICK, **PATIENT, "early_stop_min_iterations": 100}
        graph = build_graph(store, settings=Settings(**knobs), checkpointer=InMemorySaver())
        graph.invoke(valley_request(TWO_HOPS), thread, interrupt_after=[after])
        store.close()
        output = graph.invoke(None, thread)
    found_before = after == "evaluate_progress"
    check_failed(validated_result(output), facts_before=found_before)
    assert bool(output["facts"]) == found_before


def test_a_store_that_fails_from_the_start_ends_the_run_as_one_that_fails_later(tmp_path):
    """Proves: STOP-2, STOP-6 (the scope is counted before the first search: that meets the failure first)."""
    with filled_store(path=tmp_path / "store") as store:
        database = store._session.database
        with database.transaction() as connection:
            connection.execute("ALTER TABLE records RENAME TO elsewhere")
        result = run(store, DIRECT, QUICK)
        check_failed(result)
        assert result.metadata["trace"]["tool_calls"][0]["attempts"] == 3
        # Who sees only memories is told of it.
        with pytest.raises(StoreUnavailableError):
            RecallLoopRetriever(store, tenant="valley", settings=Settings(**QUICK)).invoke(DIRECT)
        tool = retrieve_tool(store, settings=Settings(**QUICK))
        call = {"name": tool.name, "args": {"question": DIRECT}, "id": "1", "type": "tool_call"}
        assert tool.invoke(call).status == "error"
        with database.transaction() as connection:
            connection.execute("ALTER TABLE elsewhere RENAME TO records")
        assert run(store, DIRECT, QUICK).facts


def test_a_store_that_was_closed_before_the_run_is_a_typed_error():
    """Proves: STORE-4, STOP-6 (no result is made up: the caller is told)."""
    with filled_store() as store:
        pass
    with pytest.raises(StoreError):
        run(store, DIRECT)


def test_a_run_that_refines(world):
    """Proves: LOOP-5, LOOP-6 (quality triggers it; it looks deeper and says what is missing)."""
    planned, routes = [], []
    for item in stream_retrieve(
        valley_request(NOTHING, debug=True), store=world, settings=Settings(novelty_patience=4)
    ):
        if isinstance(item, dict) and item["type"] == "queries_planned":
            planned.append(item)
        elif isinstance(item, dict) and item["type"] == "novelty":
            routes.append(item)
        elif not isinstance(item, dict):
            result = item
    assert "refine" in [event["route"] for event in routes]
    assert routes[0]["uncovered"]
    refined = next(event for event in planned if event["origin"] == "refine")
    assert refined["queries"]
    calls = result.metadata["trace"]["tool_calls"]
    assert calls[refined["iteration"] - 1]["input"]["limit"] > calls[0]["input"]["limit"]
    assert calls[refined["iteration"] - 1]["input"]["queries"] == [query["text"] for query in refined["queries"]]


def test_a_misspelt_question_finds_what_it_means(world):
    """Proves: LOOP-6, LOOP-5, STOP-1 (asked again as the memory spells it; what that finds is new, and traced)."""
    result = run(world, "What does Qiust count at the lihgthouse?")
    assert result.facts[0].text == "Quist counted forty-one seals near the lighthouse."
    assert result.facts[0].similarity >= 0.6
    first, second, *_ = result.metadata["new_facts_by_iteration"]
    assert first == 0 and second > 0
    call = result.metadata["trace"]["tool_calls"][1]["input"]
    assert call["corrected"] == "What does Quist count at the lighthouse?"
    assert call["fuzzy"] == 1 and "nothing_new" in call["reasons"]
    assert "Quist count" in " ".join(call["queries"]) or "quist count lighthouse" in call["queries"]


def test_no_correction_comes_from_records_that_the_request_may_not_read(world):
    """Proves: LOOP-6, STORE-3 (another user's words are no suggestions)."""
    result = run(world, "What does Qiust count at the lihgthouse?", user_id="u-joel")
    assert "quist" not in result.model_dump_json().lower()


def test_good_results_go_on_with_the_next_strategy(world):
    """Proves: LOOP-5, LOOP-7."""
    knobs = {**PATIENT, "refine_min_similarity": 0, "refine_min_confidence": 0, "refine_drop": 1}
    knobs |= {"novelty_min_similarity": 0, "search_limit": 1, "fallback_max_queries": 1}
    events = list(stream_retrieve(valley_request(TWO_HOPS), store=world, settings=Settings(**knobs)))
    routes = [event["route"] for event in events if isinstance(event, dict) and event["type"] == "novelty"]
    assert routes[0] == "continue"


def in_window(fact, start, end):
    return fact.created_at is not None and datetime.fromisoformat(start) <= fact.created_at < datetime.fromisoformat(
        end
    )


START, END = "2024-01-12T00:00:00+00:00", "2024-01-16T00:00:00+00:00"
SCOPES = [
    ({"conversation_id": "c-mara"}, lambda r, _: r["conversation_id"] == "c-mara"),
    ({"conversation_id": "c-joel"}, lambda r, _: r["conversation_id"] == "c-joel"),
    ({"agent_id": "lena"}, lambda r, _: r["agent_id"] == "lena"),
    ({"agent_id": "lena", "scope": "constellation"}, lambda r, _: r["group_id"] == "hill"),
    ({"agent_id": "oskar", "scope": "constellation"}, lambda r, _: r["group_id"] == "shore"),
    ({"user_id": "u-joel"}, lambda r, _: r["user_id"] == "u-joel"),
    ({"user_id": "u-joel", "conversation_id": "c-joel"}, lambda r, _: r["user_id"] == "u-joel"),
    ({"filters": {"conversation_id": "c-ines"}}, lambda r, _: r["conversation_id"] == "c-ines"),
    ({"filters": {"user_id": "u-mara"}}, lambda r, _: r["user_id"] == "u-mara"),
    ({"filters": {"agent_ids": ["lena", "oskar"]}}, lambda r, _: r["agent_id"] in ("lena", "oskar")),
    ({"filters": {"role": "assistant"}}, lambda r, _: r["role"] == "assistant"),
    ({"filters": {"tags": ["health"]}}, lambda r, _: "health" in r["tags"]),
    ({"filters": {"label": "Granary"}}, lambda r, _: r["label"] == "Granary"),
    ({"filters": {"min_similarity": 0.4}}, lambda _, f: f.similarity >= 0.4),
    ({"filters": {"start_time": START, "end_time": END}}, lambda _, f: in_window(f, START, END)),
    ({"content_types": ["archival"]}, lambda r, _: r["kind"] == "archival"),
    ({"content_types": ["message"]}, lambda r, _: r["kind"] == "message"),
    ({"content_types": ["trajectory", "fact"]}, lambda r, _: r["kind"] in ("trajectory", "fact")),
]


@pytest.mark.parametrize(("more", "holds"), SCOPES, ids=[str(more) for more, _ in SCOPES])
def test_scope_and_filters_hold_in_every_iteration(world, more, holds):
    """Proves: SEARCH-3, SEARCH-4, STORE-3, LOOP-6 (refinement drops no scope)."""
    found = 0
    for question in (TWO_HOPS, NOTHING, "Who counted seals near the lighthouse, and when?"):
        result = run(world, question, {**PATIENT, "early_stop_min_iterations": 3}, **more)
        for fact in result.facts:
            record = {name: None for name in ("agent_id", "group_id", "user_id", "conversation_id", "role", "label")}
            assert holds({**record, "tags": [], **BY_ID[fact.id]}, fact), (question, fact)
        found += len(result.facts)
    assert found


@pytest.mark.parametrize("question", [DIRECT, TWO_HOPS, "Ludo Brandt boathouse coast", "Who lives in Visby?"])
def test_another_tenants_memory_never_appears(world, question):
    """Proves: STORE-3 (not as a fact, not as evidence, not as a word of a query; equal ids are two records)."""
    result = run(world, question)
    assert {fact.id for fact in result.facts} <= VALLEY_IDS
    dumped = result.model_dump_json()
    assert not [text for text in COAST_TEXTS if text in dumped]
    if "Ludo" not in question:
        assert "Ludo" not in dumped
    other = run(world, question, tenant=COAST)
    assert {fact.text for fact in other.facts} <= COAST_TEXTS
    assert {fact.id for fact in other.facts} <= {record["id"] for record in COAST_RECORDS}


def test_the_default_tenant_is_a_tenant_like_any_other(world):
    """Proves: STORE-3 (no tenant stated: `default`, which is empty here; the settings may name another)."""
    request = {"messages": [{"content": DIRECT}]}
    assert retrieve(request, store=world).stop.reason is StopReason.NOTHING_IN_SCOPE
    graph = build_graph(world, settings=Settings(tenant=VALLEY))
    assert graph.invoke({"messages": [("user", DIRECT)]})["facts"]
    assert graph.invoke({"messages": [("user", DIRECT)]}, context={"tenant": "nobody"})["facts"] == []
    assert graph.invoke({"messages": [("user", DIRECT)], "tenant": VALLEY}, context={"tenant": "nobody"})["facts"]
