"""Laws of query making: bounded, distinct, never repeated."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.policy.planning.query_forms import RepeatFilter, fallback_queries, make_query, shorten_query
from recall_loop.policy.planning.round_plan import (
    PLAN_ORIGIN,
    REFINE_ORIGIN,
    PlanningContext,
    QueryFingerprinter,
    plan_next,
)
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.scope import DEFAULT_CONTENT_TYPES, Filters
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import QuerySource, Role
from recall_loop.text.words.tokens import content_words, jaccard, query_terms

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
MARK = QueryFingerprinter("search_all", Filters())
SAME = MARK(make_query("q", QuerySource.PHRASE))
OUTCOME = {"source": "phrase", "strategy": "direct", "iteration": 1, "tool": "search_all", "fingerprint": SAME}
WORDS = st.sampled_from(
    [
        "Ruth",
        "Paul Weber",
        "kettle",
        "kettles",
        "the",
        "who",
        "knows",
        "red",
        "bought",
        "she",
        "it",
        "May 2023",
        "?",
        "and",
    ]
)
SENTENCE = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
ANYTHING = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200)
QUESTION = st.one_of(SENTENCE, ANYTHING).filter(str.strip)
CHAT = st.lists(st.builds(ChatMessage, role=st.sampled_from(Role), content=QUESTION), min_size=1, max_size=4)
SHORT = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


@given(chat=CHAT, most=st.integers(1, 15), longest=st.integers(10, 130))
def test_queries_are_bounded_and_distinct_whatever_is_asked(chat, most, longest):
    """Proves: QUERY-2, QUERY-3."""
    question = analyse_question(RetrieveRequest(messages=chat), NOW)
    assert 0 < len(question.text) <= 1000 and question.parts
    made = fallback_queries(question, most, longest)
    assert len(made) <= most
    assert all(query["text"].strip() and len(query["text"]) <= longest for query in made)
    assert [query["rank"] for query in made] == list(range(1, len(made) + 1))
    texts = [query["text"] for query in made]
    assert len(set(texts)) == len(texts)
    if content_words(question.text):
        assert made


@given(
    queries=st.lists(SHORT, max_size=12),
    before=st.dictionaries(SHORT, st.tuples(st.integers(0, 2), st.booleans()), max_size=4),
    threshold=st.sampled_from([0.5, 0.9, 1.0]),
    most=st.integers(0, 12),
)
def test_what_is_kept_is_new_and_distinct(queries, before, threshold, most):
    """Proves: LOOP-4."""
    outcomes = {
        text: {**OUTCOME, "query": text, "results": results, "new_facts": 0, "error": "gone" if failed else None}
        for text, (results, failed) in before.items()
    }
    seen = RepeatFilter(outcomes, threshold, MARK)
    kept = [query["text"] for query in seen.keep([make_query(q, QuerySource.KEYWORD) for q in queries], most)]
    assert len(kept) <= most and len({query_terms(text) for text in kept}) == len(kept)
    assert len(kept) + len(seen.dropped) <= len(queries)
    for at, text in enumerate(kept):
        others = kept[:at] + [tried for tried, (_, failed) in before.items() if not failed]
        assert all(jaccard(query_terms(text), query_terms(other)) < threshold for other in others)
    again = RepeatFilter(outcomes | {text: {**OUTCOME, "results": 1, "error": None} for text in kept}, threshold, MARK)
    assert again.keep([make_query(text, QuerySource.KEYWORD) for text in kept], 12) == []


@settings(max_examples=25)
@given(chat=CHAT, origin=st.sampled_from([PLAN_ORIGIN, REFINE_ORIGIN]), results=st.integers(0, 2))
def test_plans_never_repeat_and_always_end(chat, origin, results):
    """Proves: LOOP-4, LOOP-7, QUERY-2."""
    question = analyse_question(RetrieveRequest(messages=chat), NOW)
    options, outcomes, used, keys = Settings(), {}, [], []
    for _ in range(30):
        plan = plan_next(PlanningContext(question, [], outcomes, used, []), DEFAULT_CONTENT_TYPES, options, origin).plan
        texts = [query["text"] for query in plan["queries"]]
        if not texts:
            break
        assert len(texts) <= options.fallback_max_queries
        assert max(map(len, texts)) <= options.fallback_max_length
        keys += map(query_terms, texts)
        used.append(plan["strategy"])
        came = {**OUTCOME, "results": results, "new_facts": 0, "error": None}
        outcomes |= {query["text"]: {**came, "fingerprint": MARK(query)} for query in plan["queries"]}
    assert texts == []
    assert len(keys) == len(set(keys))


@given(text=ANYTHING, most=st.integers(1, 50))
def test_shortened_text_is_a_head_of_the_text(text, most):
    """Proves: QUERY-2."""
    plain = " ".join(text.split())
    cut = shorten_query(text, most)
    assert len(cut) <= most and plain.startswith(cut)
    assert bool(cut) == bool(plain)
