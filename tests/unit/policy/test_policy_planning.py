"""Repeats, strategies and the next plan: what is asked next, and never twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recall_loop.policy.evidence.merging import QueryHits, merge_hits
from recall_loop.policy.planning.bridges import feedback_queries
from recall_loop.policy.planning.query_forms import RepeatFilter, make_query
from recall_loop.policy.planning.query_search import is_major, is_reranked, limit_parameter, query_mode
from recall_loop.policy.planning.refinement import likely_slips, may_be_misspelt, plan_refinement
from recall_loop.policy.planning.round_plan import (
    PLAN_ORIGIN,
    REFINE_ORIGIN,
    LlmAdvice,
    PlanningContext,
    QueryFingerprinter,
    plan_next,
    tool_for,
)
from recall_loop.policy.planning.strategies import order_strategies, strategy_queries
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.records.records import RECORD_ADAPTER, SearchHit
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.scope import DEFAULT_CONTENT_TYPES, Filters
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, QuerySource, SearchMode, Strategy, ToolName
from recall_loop.text.words.tokens import query_terms, stems

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
THRESHOLD = 0.9
SAME = QueryFingerprinter(ToolName.ALL.value, Filters())(make_query("q", QuerySource.PHRASE))
WORDS = ["amber", "brown", "crimson", "emerald", "golden", "indigo", "olive", "purple", "scarlet", "violet"]
TRIED = "red bicycle of Ruth"
TEXT = "Where does the doctor Ruth Meyer teach programming to children?"


def question(text=TEXT):
    return analyse_question(RetrieveRequest(messages=[{"content": text}]), NOW)


def outcome(query, results=3, new_facts=1, error=None, fingerprint=SAME, strategy="direct"):
    return {
        "query": query,
        "source": "phrase",
        "strategy": strategy,
        "iteration": 1,
        "tool": "search_all",
        "fingerprint": fingerprint,
        "results": results,
        "new_facts": new_facts,
        "error": error,
    }


def tried(*queries, **fields):
    return {query: outcome(query, **fields) for query in queries}


FAINT = 0.1


def entries(*texts, similarity=0.8, **fields):
    """Return pool entries of facts with these texts."""
    records = [
        RECORD_ADAPTER.validate_python({"id": f"f{at}", "kind": "fact", "text": text, **fields})
        for at, text in enumerate(texts)
    ]
    hits = [SearchHit(record=record, similarity=similarity, score=similarity) for record in records]
    return list(merge_hits({}, [QueryHits(make_query("q", QuerySource.PHRASE), hits)], 1, frozenset()).pool.values())


def known(text=TEXT, ranked=(), outcomes=None, used=(), bridges=()):
    return PlanningContext(question(text), ranked, outcomes or {}, used, bridges)


def plan(seen, origin=PLAN_ORIGIN, content_types=DEFAULT_CONTENT_TYPES, **settings):
    return plan_next(seen, content_types, Settings(**settings), origin)


@pytest.mark.parametrize(
    "variant",
    [
        TRIED,
        "RED BICYCLE OF RUTH",
        "  red\tbicycle  of Ruth ",
        "red, bicycle of Ruth?!",
        "the red bicycle of Ruth",
        "red bicycles Ruth",
        "Ruth's red bicycle",
        "Ruth bicycle red",
    ],
)
def test_variants_of_a_tried_query_are_repeats(variant):
    """Proves: LOOP-4."""
    assert not RepeatFilter(tried(TRIED), THRESHOLD).allows(variant)


@pytest.mark.parametrize("other", ["blue bicycle of Ruth", "Ruth", "red bicycle", "bicycle shop downtown"])
def test_a_query_that_only_contains_or_shares_words_is_no_repeat(other):
    """Proves: LOOP-4."""
    assert RepeatFilter(tried(TRIED), THRESHOLD).allows(other)


def test_near_duplicates_are_repeats_from_the_threshold_on():
    """Proves: LOOP-4."""
    before, after = "one red old city bicycle ruth berlin", "red old city bicycle ruth berlin shop"
    assert RepeatFilter(tried(before), 0.9).allows(after)
    assert not RepeatFilter(tried(before), 0.5).allows(after)


def test_a_query_that_failed_with_an_error_may_run_again():
    """Proves: LOOP-4, STOP-6."""
    seen = RepeatFilter(tried(TRIED, results=0, error="StoreUnavailableError: gone"), THRESHOLD)
    assert seen.allows(TRIED, SAME)


def test_an_empty_query_runs_again_only_in_another_context():
    """Proves: LOOP-4."""
    seen = RepeatFilter(tried(TRIED, results=0, fingerprint=SAME), THRESHOLD)
    assert not seen.allows(TRIED, SAME)
    assert not seen.allows("the red bicycles of Ruth", SAME)
    assert seen.allows(TRIED, "other filters")


def test_a_query_that_found_something_never_runs_again():
    """Proves: LOOP-4."""
    assert not RepeatFilter(tried(TRIED, results=1), THRESHOLD).allows(TRIED, "other filters")


def test_an_earlier_error_does_not_free_a_query_that_ran_since():
    """Proves: LOOP-4."""
    outcomes = tried(TRIED, error="timeout", results=0) | tried("Ruth's red bicycle", results=2)
    assert not RepeatFilter(outcomes, THRESHOLD).allows(TRIED, SAME)


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_query_is_never_allowed(blank):
    """Proves: LOOP-4."""
    assert not RepeatFilter({}, THRESHOLD).allows(blank)


def test_keep_ranks_cuts_and_counts_what_it_drops():
    """Proves: LOOP-4, OPS-3."""
    seen = RepeatFilter(tried(TRIED), THRESHOLD)
    texts = ["Ruth's bicycle, red", "cello", "Cellos!", "piano", "violin"]
    kept = seen.keep([make_query(text, QuerySource.KEYWORD) for text in texts], 2)
    assert [(query["text"], query["rank"]) for query in kept] == [("cello", 1), ("piano", 2)]
    assert len(seen.dropped) == 2
    assert seen.keep([make_query("the piano", QuerySource.KEYWORD)], 5) == []


def test_a_second_identical_request_starts_clean():
    """Two filters share nothing: the origin answered a repeated request with nothing. Proves: LOOP-4."""
    queries = [make_query("cello", QuerySource.KEYWORD)]
    assert RepeatFilter({}, THRESHOLD).keep(queries, 5) == RepeatFilter({}, THRESHOLD).keep(queries, 5) != []


def test_unused_strategies_come_first_in_their_order():
    """Proves: LOOP-7."""
    assert order_strategies([], []) == list(Strategy)
    rest = [strategy for strategy in Strategy if strategy not in (Strategy.DIRECT, Strategy.BROADER)]
    assert order_strategies(["direct", "broader"], [])[: len(rest)] == rest


def test_used_strategies_follow_by_new_facts_for_each_query():
    """Proves: LOOP-7."""
    outcomes = [
        outcome("a", new_facts=2, strategy="direct"),
        outcome("b", new_facts=0, strategy="direct"),
        outcome("c", new_facts=0, strategy="direct"),
        outcome("d", new_facts=1, strategy="temporal"),
        outcome("e", new_facts=0, strategy="people"),
    ]
    ranked = order_strategies([strategy.value for strategy in Strategy], outcomes)
    assert ranked[:2] == [Strategy.TEMPORAL, Strategy.DIRECT]
    assert ranked.index(Strategy.SYNONYMS) < ranked.index(Strategy.PEOPLE)
    assert set(ranked) == set(Strategy)


MET = "Ruth said that Paul Weber works at Acme Bank since May 2021."
NAMED = {"people": "paul weber", "organizations": "acme bank", "temporal": "2021"}


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_has_a_deterministic_way(strategy):
    """Proves: LOOP-7, LOOP-8."""
    ranked = entries(MET, created_at="2024-01-05T00:00:00Z")
    made = strategy_queries(strategy, question(), ranked, 12, 120)
    assert made
    assert made == strategy_queries(strategy, question(), ranked, 12, 120)
    if strategy.value in NAMED:
        assert any(NAMED[strategy.value] in query["text"].lower() for query in made)


def test_synonyms_replace_a_term_and_keep_the_others():
    """Proves: LOOP-7, QUERY-1."""
    made = strategy_queries(Strategy.SYNONYMS, question("Did Ruth repair the bicycle?"), [], 12, 120)
    assert any("fix" in query["text"] and "ruth" in query["text"] and "bicycle" in query["text"] for query in made)
    assert all(query["source"] == QuerySource.SYNONYM for query in made)


def test_broader_and_narrower_terms_differ_from_synonyms():
    """Proves: LOOP-7."""
    keys = {
        strategy: {query_terms(query["text"]) for query in strategy_queries(strategy, question(), [], 50, 120)}
        for strategy in (Strategy.SYNONYMS, Strategy.BROADER, Strategy.NARROWER)
    }
    assert all(keys.values())
    assert not keys[Strategy.BROADER] & keys[Strategy.NARROWER]
    assert not keys[Strategy.BROADER] & keys[Strategy.SYNONYMS]


def test_relative_times_of_a_fact_count_from_when_it_was_said():
    """Proves: LOOP-7, LOOP-9."""
    ranked = entries("Ruth sold the bicycle yesterday.", created_at="2021-03-10T08:00:00Z")
    made = strategy_queries(Strategy.TEMPORAL, question("What did Ruth sell?"), ranked, 12, 120)
    assert any("9 March 2021" in query["text"] for query in made)


def test_a_strategy_with_nothing_to_offer_gives_no_query():
    """Proves: LOOP-7."""
    for strategy in (Strategy.PEOPLE, Strategy.ORGANIZATIONS, Strategy.TEMPORAL):
        assert strategy_queries(strategy, question("green paint"), [], 12, 120) == []


MET_AGAIN = MET + " Ruth agreed."
PLAIN = " ".join(f"{word} gardens hidden" for word in WORDS)
LONG = " ".join(f"engineer{at} repair bicycle{at}" for at in range(60))


@pytest.mark.parametrize("origin", [PLAN_ORIGIN, REFINE_ORIGIN])
@pytest.mark.parametrize("used", [len(Strategy), 1, 3])
@pytest.mark.parametrize("text", [LONG, PLAIN])
def test_no_planned_query_is_longer_than_allowed(origin, used, text):
    """Proves: QUERY-2."""
    strategies = [strategy.value for strategy in list(Strategy)[:used]]
    seen = known(text, entries(MET, MET_AGAIN, similarity=FAINT), tried("something else"), strategies)
    made = plan(seen, origin, fallback_max_length=60).plan["queries"]
    assert made
    assert max(len(query["text"]) for query in made) <= 60


def test_feedback_takes_words_that_several_of_the_best_facts_share():
    """Proves: QUERY-4."""
    ranked = entries("Ruth tunes her cello in the workshop.", "The workshop for cello players opened.", "Rain again.")
    made = list(feedback_queries(question("What is the hobby of Ruth?"), ranked, 120))
    assert made
    used = {stem for query in made for stem in stems(query["text"])}
    assert set(stems("cello workshop")) <= used and not set(stems("rain")) & used
    assert all("Ruth" in query["text"] and query["source"] == QuerySource.FEEDBACK for query in made)
    assert list(feedback_queries(question(), [], 120)) == []


def test_the_first_plan_is_direct_with_the_whole_fallback_set():
    """Proves: LOOP-7, QUERY-5."""
    found = plan(known("Who knows Rust in the data team?"))
    assert found.plan["strategy"] == "direct" and found.plan["origin"] == PLAN_ORIGIN
    assert 6 <= len(found.plan["queries"]) <= 12
    assert [query["rank"] for query in found.plan["queries"]] == list(range(1, len(found.plan["queries"]) + 1))
    assert found.generated >= len(found.plan["queries"])


def test_the_plan_keeps_to_the_most_queries():
    """Proves: QUERY-2."""
    bridges = [make_query(f"bridge number{at}", QuerySource.FEEDBACK) for at in range(20)]
    for most in (1, 2, 5, 12):
        for seen in (known(), known(outcomes=tried("x"), used=["direct"], bridges=bridges)):
            assert 1 <= len(plan(seen, REFINE_ORIGIN, fallback_max_queries=most).plan["queries"]) <= most


def test_bridges_come_first_and_leave_room_for_the_next_strategy():
    """Proves: QUERY-4, LOOP-7."""
    bridges = [make_query(f"bridge number{at}", QuerySource.FEEDBACK) for at in range(20)]
    first = plan(known(outcomes={}), PLAN_ORIGIN).plan["queries"]
    seen = known(outcomes=tried(*(query["text"] for query in first)), used=["direct"], bridges=bridges)
    found = plan(seen).plan
    assert found["strategy"] == "synonyms"
    assert found["queries"][0]["text"] == "bridge number0"
    assert any(query["source"] == QuerySource.SYNONYM for query in found["queries"])


def test_other_wordings_make_no_round_of_their_own_once_something_relevant_was_found():
    """They fill up a round that has bridges, and a model may want them. Proves: STOP-2, LOOP-7, COST-1."""
    outcomes = tried(*(query["text"] for query in plan(known()).plan["queries"]))
    found, faint = entries(MET), entries(MET, similarity=FAINT)
    bridges = [make_query("red bicycle Aylesbury", QuerySource.FEEDBACK)]
    for origin in (PLAN_ORIGIN, REFINE_ORIGIN):
        assert plan(known(ranked=found, outcomes=outcomes, used=["direct"]), origin).plan["queries"] == []
        assert plan(known(ranked=faint, outcomes=outcomes, used=["direct"]), origin).plan["queries"]
        filled = plan(known(ranked=found, outcomes=outcomes, used=["direct"], bridges=bridges), origin).plan["queries"]
        assert filled[0]["text"] == bridges[0]["text"]
        assert len(filled) > 1
    seen = known(ranked=found, outcomes=outcomes, used=["direct"])
    advice = LlmAdvice(strategy=Strategy.BROADER)
    wanted = plan_next(seen, DEFAULT_CONTENT_TYPES, Settings(), REFINE_ORIGIN, advice=advice).plan
    assert wanted["strategy"] == "broader"
    assert wanted["queries"]
    for advice in (LlmAdvice(missing=["Aylesbury"]), LlmAdvice(wider=True), LlmAdvice(fuzzy=1)):
        assert plan_next(seen, DEFAULT_CONTENT_TYPES, Settings(), REFINE_ORIGIN, advice=advice).plan["queries"]
    assert plan(seen, early_stop_min_iterations=4).plan["queries"]


@pytest.mark.parametrize("results", [0, 3])
def test_no_plan_repeats_a_query_and_the_plans_end(results):
    """Rotates through everything there is to ask. Proves: LOOP-3, LOOP-4, LOOP-7, STOP-2."""
    ranked = entries(MET, created_at="2024-01-05T00:00:00Z", similarity=FAINT)
    outcomes, used, keys = {}, [], []
    for _ in range(40):
        found = plan(known(ranked=ranked, outcomes=outcomes, used=used)).plan
        if not found["queries"]:
            break
        keys += [query_terms(query["text"]) for query in found["queries"]]
        used.append(found["strategy"])
        outcomes |= tried(*(query["text"] for query in found["queries"]), results=results, strategy=used[-1])
    assert len(keys) == len(set(keys))
    assert set(used) == {strategy.value for strategy in Strategy}
    assert found["queries"] == []
    untried = [
        query
        for strategy in Strategy
        for query in strategy_queries(strategy, question(), ranked, 12, 120)
        if RepeatFilter(outcomes, THRESHOLD).allows(query["text"], SAME)
    ]
    assert untried == []


def test_a_failed_call_is_planned_again():
    """Proves: LOOP-4, STOP-6."""
    first = plan(known()).plan
    failed = tried(*(query["text"] for query in first["queries"]), results=0, error="StoreError: x")
    again = plan(known(outcomes=failed, used=["direct"])).plan
    assert again["queries"]


def test_a_refinement_looks_deeper_and_asks_with_what_was_found():
    """Proves: LOOP-6, QUERY-4."""
    told = ("Ruth tunes her cello in the workshop.", "The workshop for cello players opened.")
    ranked = entries(*told, similarity=FAINT)
    seen = known("What is the hobby of Ruth?", ranked, tried("something else"), ["direct"])
    direct, refined = plan(seen).plan, plan(seen, REFINE_ORIGIN).plan
    assert refined["origin"] == REFINE_ORIGIN
    assert refined["parameters"]["limit"] > direct["parameters"]["limit"]
    assert any(query["source"] == QuerySource.FEEDBACK for query in refined["queries"])
    assert not any(query["source"] == QuerySource.FEEDBACK for query in direct["queries"])


@pytest.mark.parametrize("limit", [1, 150, 1000])
def test_a_refinement_never_looks_less_deep(limit):
    """Proves: LOOP-6."""
    refined = plan(known(outcomes=tried("x")), REFINE_ORIGIN, search_limit=limit).plan["parameters"]["limit"]
    assert limit <= refined <= 1000


MISSPELT = "Where does the docter Ruth Meyer teach?"


def refined(reasons=("low_similarity", "nothing_new"), corrected=None, best=0.3, text=TEXT, **knobs):
    """Return the plan of a refinement after a first round."""
    asked = question(text)
    changes = plan_refinement(asked, reasons, corrected, best, Settings(**knobs))
    seen = PlanningContext(asked, [], tried("something else"), ["direct"], [], refinement=changes)
    return plan_next(seen, DEFAULT_CONTENT_TYPES, Settings(**knobs), REFINE_ORIGIN).plan


def test_a_refinement_asks_again_with_the_spelling_that_the_memory_knows():
    """Proves: LOOP-6 (the mended question comes first, the call tolerates slips, and the plan says so)."""
    made = refined(text=MISSPELT, corrected="Where does the doctor Ruth Meyer teach?")
    first = made["queries"][0]
    assert "doctor" in first["text"] and first["spoken"] == "Where does the doctor Ruth Meyer teach?"
    assert made["parameters"]["fuzzy"] == made["refinement"]["fuzzy"] == 1
    assert made["refinement"]["corrected"] == "Where does the doctor Ruth Meyer teach?"
    assert made["refinement"]["reasons"] == ["low_similarity", "nothing_new"]
    assert "fuzzy" not in refined(text=MISSPELT)["parameters"]


@pytest.mark.parametrize(
    ("mode", "reasons", "may"),
    [
        ("auto", ["nothing_new"], True),
        ("auto", ["fewer_results", "low_confidence"], False),
        ("vector", ["nothing_new"], False),
    ],
)
def test_misspellings_are_looked_for_where_words_are_searched_and_found_nothing(mode, reasons, may):
    """Proves: LOOP-6, SEARCH-2."""
    assert may_be_misspelt(reasons, Settings(search_mode=mode)) is may


@pytest.mark.parametrize(
    ("asked", "known", "mended"),
    [
        ("What does Qiust count?", "What does Quist count?", "What does Quist count?"),
        ("Who is the docter?", "Who is the doctor?", "Who is the doctor?"),
        ("What does it cost?", "What does it coat?", None),
        ("Wer hat unseren Nachbarn besucht?", "Wer hat unseren Nachbarin besucht?", None),
        ("Wie viele Leute arbeiten hier?", "Wie viele Leute arbeiter hier?", None),
        ("Wie viele Leute arbeiten hier?", "Wie viele heute arbeiten hier?", None),
        ("What does Qiust cost?", "What does Quist coat?", "What does Quist cost?"),
        ("Who is it?", None, None),
    ],
)
def test_only_slips_are_mended(asked, known, mended):
    """Proves: LOOP-6 (a common word that the memory lacks stays, and so does another form of a word)."""
    assert likely_slips(asked, known) == mended


def test_a_refinement_lowers_the_threshold_within_bounds_while_nothing_reaches_it():
    """Proves: LOOP-6."""
    assert (
        refined(best=0.3)["parameters"]["min_similarity"] == refined(best=0.3)["refinement"]["min_similarity"] == 0.28
    )
    assert "min_similarity" not in refined(best=0.5)["parameters"]
    assert "min_similarity" not in refined(best=0.3, refine_relaxation=1)["parameters"]
    assert refined(best=0.0, novelty_min_similarity=0.5, refine_relaxation=0.5)["parameters"]["min_similarity"] == 0.25


def test_a_refinement_drops_the_filters_that_the_question_implied():
    """Proves: LOOP-6 (records of all times are looked at, without the time's words; the request's filters stay)."""
    made = refined(text="What did Ruth Meyer teach in May 2023?", best=0.6)
    assert made["refinement"]["dropped_filters"] == ["start_time", "end_time"]
    anytime = next(query for query in made["queries"] if query["source"] == QuerySource.TEMPORAL)
    assert anytime["narrowed"] is None and "2023" not in anytime["text"] and "ruth" in anytime["text"]


def test_a_round_that_is_no_refinement_changes_nothing():
    """Proves: LOOP-6."""
    assert plan(known()).plan["refinement"] == {}
    assert not {"fuzzy", "min_similarity"} & plan(known()).plan["parameters"].keys()


def test_the_tool_follows_the_content_types():
    """Proves: LOOP-1, QUERY-5."""
    assert tool_for([ContentType.FACT]) is ToolName.FACTS
    assert tool_for([ContentType.MESSAGE]) is ToolName.MESSAGES
    assert tool_for([ContentType.ARCHIVAL]) is ToolName.ARCHIVAL
    assert tool_for([ContentType.TRAJECTORY]) is ToolName.TRAJECTORIES
    assert tool_for(DEFAULT_CONTENT_TYPES) is ToolName.ALL
    assert plan(known(), content_types=[ContentType.FACT]).plan["tool"] == ToolName.FACTS


def test_other_filters_or_another_tool_are_another_context():
    """Proves: LOOP-4."""
    query = make_query("q", QuerySource.LLM)
    marks = {
        QueryFingerprinter(tool, filters)(query) for tool in ToolName for filters in (Filters(), Filters(label="x"))
    }
    assert len(marks) == 2 * len(ToolName)
    assert QueryFingerprinter("search_all", Filters(label="x"))(query) == QueryFingerprinter(
        ToolName.ALL.value, Filters(label="x")
    )(query)
    narrowed = {**query, "narrowed": {"tool": "search_facts", "filters": {"role": "user"}}}
    assert QueryFingerprinter("search_all", Filters())(narrowed) == QueryFingerprinter(
        "search_facts", Filters(role="user")
    )(query)


def test_an_empty_query_is_planned_again_once_the_filters_changed():
    """Proves: LOOP-4."""
    first = plan(known()).plan["queries"]
    empty = tried(*(query["text"] for query in first), results=0)
    used = [strategy.value for strategy in Strategy]
    keys = {query_terms(query["text"]) for query in first}
    same = plan_next(known(outcomes=empty, used=used), DEFAULT_CONTENT_TYPES, Settings(), PLAN_ORIGIN, Filters()).plan
    other = plan_next(
        known(outcomes=empty, used=used), DEFAULT_CONTENT_TYPES, Settings(), PLAN_ORIGIN, Filters(role="user")
    ).plan
    assert not keys & {query_terms(query["text"]) for query in same["queries"]}
    assert keys & {query_terms(query["text"]) for query in other["queries"]}


@pytest.mark.parametrize("source", list(QuerySource))
def test_what_only_repeats_the_question_is_searched_by_words(source):
    """Proves: COST-1, QUERY-1. What brings words of its own is searched by meaning too."""
    minor = make_query("red boat", source, 0.5)
    told = {QuerySource.FEEDBACK, QuerySource.STATEMENT, QuerySource.MEMBER, QuerySource.PHRASE}
    embedded = source in told | {QuerySource.LLM}
    assert query_mode(minor, SearchMode.HYBRID) is (SearchMode.HYBRID if embedded else SearchMode.FTS)
    assert query_mode(minor, SearchMode.VECTOR) is SearchMode.VECTOR  # who wants no words gets none
    assert (is_major(minor), limit_parameter(minor)) == (False, "minor_limit")
    major = make_query("red boat", source, 0.8)
    assert query_mode(major, SearchMode.HYBRID) is SearchMode.HYBRID
    assert (is_major(major), limit_parameter(major)) == (True, "limit")
    assert (is_reranked(minor), is_reranked(major)) == (False, source is not QuerySource.MEMBER)
