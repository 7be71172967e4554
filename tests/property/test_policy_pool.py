"""Laws of coverage, merging and ranking over generated pools."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.policy.evidence.coverage import FacetMatcher, compute_coverage, extract_facets
from recall_loop.policy.evidence.evidence_folding import fold_messages
from recall_loop.policy.evidence.merging import QueryHits, merge_hits
from recall_loop.policy.evidence.pool_entries import fact_key
from recall_loop.policy.evidence.ranking import rank_entries
from recall_loop.policy.evidence.repeats import demote_duplicates
from recall_loop.policy.planning.query_forms import make_query
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.records.records import RECORD_ADAPTER, SearchHit
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import QuerySource

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
OPTIONS = Settings()
UNIT = st.floats(0.0, 1.0).map(lambda value: round(value, 3))
WORDS = st.sampled_from(
    ["Ruth", "Paul", "Meyer", "kettle", "bicycle", "bought", "3", "yesterday", "May 2023", "repaired"]
)
TEXT = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
QUESTIONS = st.sampled_from(
    [
        "Where did Ruth Meyer buy the bicycle?",
        "Who repaired the kettle of Paul in May 2023?",
        "How many kettles did Ruth buy?",
        "When was the bicycle repaired?",
    ]
)
KINDS = st.sampled_from(["fact", "archival", "message"])


@st.composite
def records(draw):
    """Draw a record; equal ids are equal records, and texts repeat often."""
    number = draw(st.integers(0, 12))
    kind = ("fact", "archival", "message")[number % 3]
    fields = {"id": f"r{number}", "kind": kind, "text": ["red kettle", "Red kettle!", "old bicycle", "bus"][number % 4]}
    if kind == "fact":
        fields["source_ids"] = [f"r{(number + 2) % 12}", f"s{number % 2}"]
    if number % 2:
        fields["created_at"] = NOW - timedelta(days=number)
    return RECORD_ADAPTER.validate_python(fields)


HITS = st.lists(st.builds(SearchHit, record=records(), similarity=UNIT, score=UNIT), max_size=8)
PARTS = st.lists(
    st.builds(
        lambda query, weight, hits: QueryHits(make_query(query, QuerySource.PHRASE, weight), hits),
        st.sampled_from(["kettle", "bicycle", "red", "old"]),
        st.sampled_from([1.0, 0.5, 0.3]),
        HITS,
    ),
    max_size=4,
)


@given(calls=st.lists(PARTS, min_size=1, max_size=4))
def test_merging_more_never_takes_anything_away(calls):
    """Proves: RANK-1, RANK-2."""
    pool = {}
    for iteration, parts in enumerate(calls, 1):
        before = copy.deepcopy(pool)
        result = merge_hits(pool, parts, iteration, frozenset({"kettl"}))
        assert pool == before
        hits = [hit for part in parts for hit in part.hits]
        assert set(result.pool) == set(pool) | {fact_key(hit.record) for hit in hits}
        assert result.duplicates == len(hits) - (len(result.pool) - len(pool))
        for key, entry in pool.items():
            after = result.pool[key]
            assert after["relevance"] >= entry["relevance"] and after["similarity"] >= entry["similarity"]
            assert after["first_iteration"] == entry["first_iteration"]
            assert set(entry["evidence_keys"]) <= set(after["evidence_keys"])
            assert after["matches"][: len(entry["matches"])] == entry["matches"]
        pool = result.pool
    for key, entry in pool.items():
        assert entry["key"] == key
        assert len(set(entry["evidence_keys"])) == len(entry["evidence_keys"]) > 0
        assert 0.0 <= entry["relevance"] <= 1.0 and 0.0 <= entry["similarity"] <= 1.0
        queries = [match["query"] for match in entry["matches"]]
        assert len(queries) == len(set(queries)) > 0


@given(parts=PARTS, most=st.integers(1, 12), data=st.data())
def test_the_result_does_not_depend_on_the_order_of_insertion(parts, most, data):
    """Proves: RANK-3, RANK-4, LOOP-9."""
    pool = merge_hits({}, parts, 1, frozenset()).pool
    shuffled = dict(data.draw(st.permutations(list(pool.items()))))

    def result(found):
        ranked = demote_duplicates(rank_entries(found.values(), OPTIONS, NOW), OPTIONS.duplicate_similarity)
        assert all(0.0 <= item.score <= 1.0 for item in ranked)
        assert sorted(item.entry["key"] for item in ranked) == sorted(found)
        return [item.entry for item in fold_messages(ranked, most, frozenset())]

    kept = result(pool)
    assert result(shuffled) == kept
    assert len(kept) == len({entry["key"] for entry in kept}) <= most
    sources = {
        source for entry in kept if entry["record"]["kind"] == "fact" for source in entry["record"]["source_ids"]
    }
    assert not any(entry["record"]["kind"] == "message" and entry["record"]["id"] in sources for entry in kept)
    assert len(kept) >= min(most, len(pool)) or any(entry["record"]["kind"] == "fact" for entry in kept)


@st.composite
def evidence(draw):
    """Draw one pool entry as far as coverage looks at it."""
    record = {"id": "x", "kind": draw(KINDS), "text": draw(TEXT)}
    if draw(st.booleans()):
        record["author"] = draw(st.sampled_from(["Ruth", "Paul"]))
    if draw(st.booleans()):
        record["created_at"] = draw(st.sampled_from(["2023-05-09T00:00:00+00:00", "2024-01-01T00:00:00+00:00"]))
    return {"key": "x", "record": record, "window": draw(st.one_of(st.just(""), TEXT))}


@given(text=QUESTIONS, entries=st.lists(evidence(), max_size=6))
def test_coverage_is_bounded_and_grows_with_the_evidence(text, entries):
    """Proves: STOP-5."""
    question = analyse_question(RetrieveRequest(messages=[{"content": text}]), NOW)
    facets = extract_facets(question)
    best = compute_coverage(facets, [])
    assert best.score == best.best_single == 0.0 and len(best.uncovered) == len(facets)
    for count in range(1, len(entries) + 1):
        now = compute_coverage(facets, map(FacetMatcher(facets, question), entries[:count]))
        assert 0.0 <= best.best_single <= now.best_single <= now.score <= 1.0
        assert best.score <= now.score
        assert set(now.uncovered) <= set(best.uncovered)
        assert (now.score == 1.0) == (not now.uncovered)
        best = now


@settings(max_examples=60)
@given(text=QUESTIONS, entry=evidence())
def test_a_record_without_the_anchor_supports_nothing(text, entry):
    """Proves: STOP-5."""
    question = analyse_question(RetrieveRequest(messages=[{"content": text}]), NOW)
    facets = extract_facets(question)
    found = FacetMatcher(facets, question)(entry)
    assert found <= set(range(len(facets)))
    if question.names and not any(facets[at]["kind"] == "name" for at in found):
        assert found == set()
