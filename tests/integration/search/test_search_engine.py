"""Searches over a real store: modes, scores, limits, order, filters, responses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.search.rerank.rerank import as_reranker
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import EmbedderError, InvalidInputError, UnsupportedOptionError, validate_model
from recall_loop.state.scope import DEFAULT_CONTENT_TYPES, Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType, OrderBy, SearchMode
from tests.embedders import WordHashEmbedder

MODES = list(SearchMode)
DAY = datetime(2024, 1, 1, tzinfo=UTC)
TURNS = [
    ("Ruth", "I finally adopted a grey cat from the shelter on Elm Street."),
    ("Paul", "Lovely! What is it called?"),
    ("Ruth", "Her name is Miso, like the soup."),
    ("Paul", "I spent the weekend repairing my old bicycle."),
    ("Ruth", "Is the front wheel still wobbling?"),
    ("Paul", "No, but the brakes need new cables."),
]
NOTES = [
    ("Sourdough", "Feed the starter twice a day with rye flour and lukewarm water."),
    ("Tax", "The declaration is due at the end of July; keep the receipts of the office chair."),
    ("Travel", "The night train to Vienna leaves from platform nine and has a restaurant car."),
]


def records():
    """Return a conversation, notes and facts."""
    turns = [
        {"id": f"m{at}", "kind": "message", "author": author, "text": text, "role": "user" if at % 2 else "assistant"}
        | {"conversation_id": "c1", "session": "s1", "position": at, "created_at": DAY + timedelta(hours=at)}
        for at, (author, text) in enumerate(TURNS)
    ]
    notes = [
        {"id": f"n{at}", "kind": "archival", "label": label, "text": text, "created_at": DAY + timedelta(days=at)}
        for at, (label, text) in enumerate(NOTES)
    ]
    facts = [
        {
            "id": "f0",
            "kind": "fact",
            "subject": "Ruth",
            "fact_type": "owns",
            "object": "cat",
            "text": "Ruth owns a cat.",
            "created_at": None,
        },
        {"id": "f1", "kind": "fact", "subject": "Paul", "fact_type": "rides", "text": "Paul rides an old bicycle."}
        | {"created_at": None},
    ]
    return [*turns, *notes, *facts]


@pytest.fixture(scope="module")
def filled(embedder):
    with MemoryStore.in_memory(embedder=embedder) as opened:
        opened.upsert(records())
        yield opened


def ids(response):
    return [hit.record.id for hit in response.hits]


def values(response):
    """Return everything about the hits that a caller can see."""
    return [(hit.record.id, hit.score, hit.similarity, hit.window) for hit in response.hits]


def asked(store, query, *, scope=None, filters=None, content_types=DEFAULT_CONTENT_TYPES, **options):
    params = SearchParams(filters=filters or Filters(), content_types=content_types, **options)
    return search(store, query, scope=scope, params=params)


# Modes and scores


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("night train to Vienna", "n2"),
        ("declaration receipts office chair", "n1"),
        ("sourdough starter rye flour", "n0"),
        ("grey cat from the shelter", "m0"),
    ],
)
def test_every_mode_finds_what_is_asked(filled, mode, query, best):
    """Proves: SEARCH-1."""
    assert ids(asked(filled, query, mode=mode))[0] == best


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "query", ["bicycle brakes", "cat", "Vienna", "quantum chromodynamics", "purple giraffe", "zzz"]
)
def test_scores_are_ordered_and_the_best_hit_is_never_zero(filled, mode, query):
    """The origin's formula gave the best hit 0. Proves: SEARCH-6."""
    scores = [hit.score for hit in asked(filled, query, mode=mode).hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    if scores:
        assert scores[0] > 0.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", ["purple giraffe", "tax law appeal", "zzz", "bicycle"])
def test_a_lone_hit_is_never_zero_however_unlike_it_is(embedder, mode, query):
    """Proves: SEARCH-6."""
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert([{"id": "a", "kind": "fact", "text": "The bicycle shop opens at nine."}])
        for hit in asked(store, query, mode=mode).hits:
            assert hit.score > 0.0 and hit.similarity > 0.0


def test_the_legs_that_ran_are_told(filled):
    """Proves: SEARCH-1, SEARCH-6."""
    legs = {mode: set(asked(filled, "cat", mode=mode).legs) for mode in MODES}
    assert legs[SearchMode.VECTOR] == {"vector"} and legs[SearchMode.FTS] == {"fts"}
    assert legs[SearchMode.HYBRID] == legs[SearchMode.AUTO] == {"fts", "vector"}


def test_auto_leaves_out_the_leg_that_a_query_without_words_has_no_use_for(filled):
    """Proves: SEARCH-1, SEARCH-6."""
    response = asked(filled, "???", mode=SearchMode.AUTO)
    assert response.legs == ("vector",) and response.hits


def test_words_alone_find_only_records_that_have_them(filled):
    """Proves: SEARCH-1."""
    assert set(ids(asked(filled, "Vienna", mode=SearchMode.FTS))) == {"n2"}
    assert ids(asked(filled, "giraffe", mode=SearchMode.FTS)) == []
    assert ids(asked(filled, "who is it", mode=SearchMode.FTS)) == []


def test_meaning_alone_finds_what_shares_no_word(filled):
    """Proves: SEARCH-1."""
    assert "n2" in ids(asked(filled, "railway journey", mode=SearchMode.VECTOR, limit=2))


def test_a_relevant_record_is_more_similar_than_an_irrelevant_one_in_every_mode(filled):
    """Proves: SEARCH-6."""
    for mode in (SearchMode.VECTOR, SearchMode.HYBRID):
        found = {hit.record.id: hit.similarity for hit in asked(filled, "night train to Vienna", mode=mode).hits}
        assert found["n2"] > 0.7 > 0.35 > found["n0"]


def test_similarity_is_the_same_in_every_mode_with_vectors(filled):
    """Proves: SEARCH-6."""
    first, *others = (
        {hit.record.id: hit.similarity for hit in asked(filled, "bicycle brakes", mode=mode).hits}
        for mode in (SearchMode.HYBRID, SearchMode.AUTO, SearchMode.VECTOR)
    )
    for other in others:
        assert all(first[record] == similarity for record, similarity in other.items())


def test_similarity_does_not_depend_on_what_else_is_found(filled):
    """It isn't normalised by the best hit of a query. Proves: SEARCH-6."""
    everything = {hit.record.id: hit.similarity for hit in asked(filled, "bicycle brakes").hits}
    narrow = asked(filled, "bicycle brakes", filters=Filters(label="Tax"))
    (only,) = narrow.hits
    assert only.similarity == everything["n1"] < 0.35
    alone = asked(filled, "bicycle brakes", content_types=[ContentType.FACT])
    assert all(hit.similarity == everything[hit.record.id] for hit in alone.hits)


def test_meaning_does_not_depend_on_other_records_at_all(embedder):
    """Proves: SEARCH-6."""
    found = []
    for others in (0, 30):
        with MemoryStore.in_memory(embedder=embedder) as store:
            store.upsert([{"id": "a", "kind": "fact", "text": "The night train to Vienna leaves at nine."}])
            store.upsert(
                {"id": f"x{at}", "kind": "fact", "text": f"Potatoes and carrots, lot {at}"} for at in range(others)
            )
            hits = {hit.record.id: hit for hit in asked(store, "!?", mode=SearchMode.VECTOR, limit=100).hits}
            words = {hit.record.id: hit for hit in asked(store, "Vienna train", limit=100).hits}
            found.append((hits["a"].similarity, words["a"].similarity))
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_match_outranks_a_partial_one(filled, mode):
    """Proves: SEARCH-1, SEARCH-6."""
    hits = asked(filled, "old bicycle", mode=mode, content_types=[ContentType.FACT]).hits
    assert hits[0].record.id == "f1"
    assert all(hits[0].similarity > hit.similarity for hit in hits[1:])


# Limits and order


def many(count, kind="message", text="coffee beans"):
    return [{"id": f"{kind}{at}", "kind": kind, "text": f"{text} number {at}"} for at in range(count)]


@pytest.fixture(scope="module")
def crowded(embedder):
    """Many messages that match best, and one fact and one note that match less."""
    with MemoryStore.in_memory(embedder=embedder) as opened:
        opened.upsert(many(400))
        opened.upsert([{"id": "fact", "kind": "fact", "text": "Ruth from the village drinks coffee after lunch."}])
        opened.upsert([{"id": "note", "kind": "archival", "text": "A mill grinds coffee, pepper and grain."}])
        yield opened


@pytest.mark.parametrize("mode", MODES)
def test_no_content_type_starves_another(crowded, mode):
    """Proves: SEARCH-7."""
    found = ids(asked(crowded, "coffee beans", mode=mode, limit=5))
    assert {"fact", "note"} <= set(found) and len(found) == 7


def test_a_shared_limit_counts_all_content_types_together(crowded):
    """Proves: SEARCH-7."""
    found = ids(asked(crowded, "coffee beans", limit=5, limit_per_type=False))
    assert len(found) == 5


def test_each_content_type_has_its_own_limit(filled):
    """Proves: SEARCH-7."""
    hits = asked(filled, "the old bicycle of Paul", limit=2).hits
    kinds = [hit.record.kind for hit in hits]
    assert {kind: kinds.count(kind) for kind in DEFAULT_CONTENT_TYPES} == dict.fromkeys(DEFAULT_CONTENT_TYPES, 2)


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_a_shorter_list_is_the_head_of_a_longer_one(filled, limit):
    """Proves: SEARCH-6."""
    short = ids(asked(filled, "bicycle", limit=limit, limit_per_type=False))
    assert short == ids(asked(filled, "bicycle", limit=11, limit_per_type=False))[:limit]


def test_newest_first_orders_what_relevance_chose(filled):
    """Proves: SEARCH-1."""
    response = asked(
        filled, "bicycle brakes", order_by=OrderBy.CREATED_AT, limit=3, content_types=[ContentType.MESSAGE]
    )
    times = [hit.record.created_at for hit in response.hits]
    assert times == sorted(times, reverse=True)
    best = asked(filled, "bicycle brakes", limit=3, content_types=[ContentType.MESSAGE])
    assert set(ids(response)) == set(ids(best))


def test_records_without_a_time_come_last_when_ordered_by_time(embedder):
    """Proves: SEARCH-1."""
    years = {"recent": 2024, "old": 1950}
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert([{"id": "none", "kind": "fact", "text": "coffee beans", "created_at": None}])
        store.upsert(
            {"id": name, "kind": "fact", "text": "coffee beans", "created_at": datetime(year, 1, 1, tzinfo=UTC)}
            for name, year in years.items()
        )
        assert ids(asked(store, "coffee", order_by=OrderBy.CREATED_AT)) == ["recent", "old", "none"]


# Content scoring


SAID = "The gearbox of the lathe makes a grinding noise."


def scored(embedder, *extra, count=1, **options):
    """Return ids for one plain message among `count` equal ones with what makes them weigh less."""
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert({"id": f"aside{at}", "kind": "message", "text": SAID, **dict(extra)} for at in range(count))
        store.upsert([{"id": "said", "kind": "message", "text": SAID}])
        return asked(store, "gearbox noise", **options)


ASIDES = [("role", "tool")], [("blocks", [{"type": "reasoning", "text": SAID}])]


@pytest.mark.parametrize("aside", ASIDES)
@pytest.mark.parametrize("mode", MODES)
def test_tool_output_and_reasoning_weigh_less(embedder, aside, mode):
    """Proves: SEARCH-5."""
    best, other = scored(embedder, *aside, mode=mode).hits
    assert best.record.id == "said"
    factor = 0.7 if aside[0][0] == "role" else 0.5
    assert other.score == pytest.approx(best.score * factor, abs=1e-5)
    assert other.similarity == pytest.approx(best.similarity * factor, abs=1e-5)


@pytest.mark.parametrize("aside", ASIDES)
def test_they_weigh_less_before_the_cut(embedder, aside):
    """A cut before scoring would only reorder. Proves: SEARCH-5."""
    assert ids(scored(embedder, *aside, count=6, limit=1)) == ["said"]


def test_content_scoring_can_be_switched_off(embedder):
    """Proves: SEARCH-5."""
    first, second = scored(embedder, ("role", "tool"), apply_content_scoring=False).hits
    assert first.score == second.score and first.similarity == second.similarity


# Filters


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"role": "assistant"}, {"m0", "m2", "m4"}),
        ({"label": "Tax"}, {"n1"}),
        ({"fact_type": "owns"}, {"f0"}),
        ({"conversation_id": "c1", "role": "user"}, {"m1", "m3", "m5"}),
        ({"start_time": DAY + timedelta(hours=5), "end_time": DAY + timedelta(days=1)}, {"m5"}),
        ({"start_time": DAY + timedelta(days=1)}, {"n1", "n2"}),
    ],
)
def test_filters_hold_in_every_leg(filled, mode, filters, expected):
    """Proves: SEARCH-3."""
    query = "Ruth and Paul talk about a cat, a bicycle, tax, a train and bread: brakes, name, soup, wheel, Vienna"
    response = asked(filled, query, mode=mode, filters=Filters(**filters))
    assert set(ids(response)) <= expected and response.allowed == len(expected)
    if mode is not SearchMode.FTS:
        assert set(ids(response)) == expected


def test_a_filtered_search_still_fills_its_limit(embedder):
    """Filters aren't applied to a list that was cut already. Proves: SEARCH-3."""
    rare = [{**record, "id": f"rare{at}", "tags": ["rare"]} for at, record in enumerate(many(8, text="bean mill"))]
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert([*many(300), *rare])
        for mode in MODES:
            assert len(ids(asked(store, "coffee beans", mode=mode, limit=5, filters=Filters(tags=["rare"])))) == 5


@pytest.mark.parametrize("mode", MODES)
def test_nothing_below_the_least_similarity_is_given(filled, mode):
    """Proves: SEARCH-3."""
    query = "old bicycle brakes"
    everything = asked(filled, query, mode=mode).hits
    least = sorted(hit.similarity for hit in everything)[len(everything) // 2]
    found = asked(filled, query, mode=mode, filters=Filters(min_similarity=least)).hits
    assert [hit.record.id for hit in found] == [hit.record.id for hit in everything if hit.similarity >= least]
    assert asked(filled, query, mode=mode, filters=Filters(min_similarity=1.0)).hits == ()


def test_what_is_similar_enough_is_found_behind_what_is_not(embedder):
    """The best fused hits may be less similar than what the limit would cut. Proves: SEARCH-3."""
    with MemoryStore.in_memory(embedder=embedder) as store:
        tool = {"kind": "message", "role": "tool", "text": "coffee beans price list"}
        store.upsert({**tool, "id": f"t{at}", "session": "s", "conversation_id": "c"} for at in range(20))
        store.upsert([{"id": "said", "kind": "message", "text": "We ran out of coffee beans."}])
        everything = {hit.record.id: hit.similarity for hit in asked(store, "coffee beans", limit=30).hits}
        least = everything["said"]
        found = asked(store, "coffee beans", limit=1, filters=Filters(min_similarity=least))
        assert found.hits and found.hits[0].similarity >= least


# Input and response


@pytest.mark.parametrize("query", ["cat \ud83d", "cat\x00"])
def test_a_query_that_cannot_be_searched_is_shown_as_it_is(query):
    """Proves: SEARCH-1."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store, pytest.raises(InvalidInputError) as caught:
        search(store, query, scope=Scope())
    assert (caught.value.field, caught.value.value) == ("query", ascii(query))


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "cat \ud83d", "\udc00", "cat\x00"])
def test_bad_queries_are_refused(filled, query):
    """Proves: SEARCH-3."""
    with pytest.raises(InvalidInputError) as caught:
        asked(filled, query)
    assert caught.value.field == "query"
    with pytest.raises(InvalidInputError):
        search_many(filled, ["cat", query])


@pytest.mark.parametrize(
    "query", ["NEAR(", '"cat', "cat AND OR NOT", "col:cat*", "^cat", "a' OR 1=1 --", "😀", "-cat", "猫"]
)
@pytest.mark.parametrize("mode", MODES)
def test_signs_of_a_query_language_are_plain_text(filled, query, mode):
    """Proves: SEARCH-1."""
    response = asked(filled, query, mode=mode)
    assert response.query == query


def test_a_very_long_query_is_searched(filled):
    """Proves: SEARCH-1."""
    assert ids(asked(filled, "night train to Vienna " * 500))[0] == "n2"


@pytest.mark.parametrize("mode", MODES)
def test_a_query_of_thousands_of_different_words_is_searched(filled, mode):
    """Proves: SEARCH-1."""
    words = " ".join(f"word{at}" for at in range(4000))
    assert "n2" in ids(asked(filled, f"night train to Vienna {words}", mode=mode))


def test_no_content_type_is_refused(filled):
    """Proves: SEARCH-3."""
    with pytest.raises(ValueError, match="content_types"):
        asked(filled, "cat", content_types=())


def test_an_empty_response_says_where_was_looked(filled):
    """Nothing there differs from looked in the wrong place. Proves: SEARCH-6."""
    scope, filters = Scope(tenant="nobody", agent_id="a"), Filters(label="x")
    response = asked(filled, "cat", scope=scope, filters=filters, content_types=[ContentType.FACT])
    assert response.hits == () and response.allowed == 0
    assert (response.scope, response.filters, response.content_types) == (scope, filters, (ContentType.FACT,))
    assert response.generation == filled.generation and response.legs and response.query == "cat"
    nothing = asked(filled, "giraffe", mode=SearchMode.FTS)
    assert nothing.hits == () and nothing.allowed == filled.count()


def test_hits_carry_the_whole_record_and_a_messages_window(filled):
    """Proves: SEARCH-6, SEARCH-8."""
    (hit,) = asked(filled, "What is her name?", limit=1, limit_per_type=False, content_types=[ContentType.MESSAGE]).hits
    assert hit.record == filled.get([hit.record.id], scope=Scope())[0]
    assert hit.record.text in hit.window
    assert all(hit.window == "" for hit in asked(filled, "tax", content_types=[ContentType.ARCHIVAL]).hits)


@pytest.mark.parametrize("mode", MODES)
def test_debug_gives_scores_and_ranks_of_each_leg(filled, mode):
    """Proves: SEARCH-6."""
    response = asked(filled, "old bicycle brakes", mode=mode, debug=True)
    for hit in response.hits:
        assert hit.debug
        assert all(set(leg) == {"score", "rank"} and leg["rank"] >= 1 for leg in hit.debug.values())
    names = set(response.hits[0].debug)
    assert ("bm25" in names) == (mode is not SearchMode.VECTOR) and ("cosine" in names) == (mode is not SearchMode.FTS)
    for name in names:
        assert min(hit.debug[name]["rank"] for hit in response.hits) >= 1
    assert all(hit.debug is None for hit in asked(filled, "old bicycle brakes", mode=mode).hits)


# Several queries at once

QUERIES = ["cat name", "Which platform does the night train to Vienna leave from, and is there food?", "brakes", "???"]


@pytest.mark.parametrize("mode", MODES)
def test_several_queries_at_once_give_what_each_gives_alone(filled, mode):
    """Proves: SEARCH-1, LOOP-9."""
    options = SearchParams(mode=mode, debug=True, rerank=False)
    together = search_many(filled, QUERIES, params=options)
    assert [response.query for response in together] == QUERIES
    for query, response in zip(QUERIES, together, strict=True):
        assert response == search(filled, query, params=options)


@pytest.mark.parametrize("mode", [SearchMode.VECTOR, SearchMode.HYBRID, SearchMode.AUTO])
def test_queries_that_are_reranked_together_get_the_same_order(filled, mode):
    """One product of matrices serves all their tokens, so the last digits may differ. Proves: SEARCH-1."""
    options = SearchParams(mode=mode)
    for query, response in zip(QUERIES, search_many(filled, QUERIES, params=options), strict=True):
        alone = search(filled, query, params=options)
        assert [hit.record.id for hit in response.hits] == [hit.record.id for hit in alone.hits]
        pairs = zip(response.hits, alone.hits, strict=True)
        assert all(together.score == pytest.approx(single.score, abs=1e-5) for together, single in pairs)


def test_each_query_may_have_a_limit_of_its_own(filled):
    """Queries embedded together differ in the last digits from each one alone. Proves: SEARCH-1."""
    together = search_many(filled, QUERIES[:2], limits=[1, 3], params=SearchParams(limit=9))
    for query, limit, response in zip(QUERIES[:2], (1, 3), together, strict=True):
        alone = search(filled, query, params=SearchParams(limit=limit))
        assert [hit.record for hit in response.hits] == [hit.record for hit in alone.hits]
        assert [hit.score for hit in response.hits] == pytest.approx([hit.score for hit in alone.hits], abs=1e-5)


@pytest.mark.parametrize("limits", [[1], [1, 2, 3], [0, 1], [1, 1001]])
def test_limits_that_do_not_fit_are_refused(filled, limits):
    """Proves: SEARCH-2, SEARCH-3."""
    with pytest.raises(InvalidInputError, match="limit"):
        search_many(filled, QUERIES[:2], limits=limits)


def test_no_queries_give_no_responses(filled):
    """Proves: SEARCH-1."""
    assert search_many(filled, []) == []


def test_the_same_search_twice_gives_the_same(filled):
    """Proves: LOOP-9."""
    assert asked(filled, "cat") == asked(filled, "cat")


# Typos


@pytest.mark.parametrize("mode", [SearchMode.FTS, SearchMode.HYBRID, SearchMode.AUTO])
@pytest.mark.parametrize("typed", ["telescpoe", "telesope", "teleskope", "Telescoppe"])
def test_a_typo_is_forgiven_where_that_is_asked_for(embedder, typed, mode):
    """Proves: SEARCH-2."""
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert(
            [
                {"id": "a", "kind": "archival", "text": "The telescope stands on the roof."},
                {"id": "b", "kind": "archival", "text": "A casserole of beans."},
            ]
        )
        exact = search(store, "telescope", params=SearchParams(mode=mode))
        for level in (1, 2):
            found = search(store, typed, params=SearchParams(mode=mode, fuzzy=level))
            assert found.hits[0].record.id == "a"
            assert found.corrected is not None and found.corrected.lower() in ("telescope", "telescoped")
            assert found.hits[0].similarity < exact.hits[0].similarity
        strict = search(store, typed, params=SearchParams(mode=mode))
        assert strict.corrected is None
        if mode is SearchMode.FTS:
            assert strict.hits == ()


def test_an_exact_match_outranks_a_corrected_one(embedder):
    """Proves: SEARCH-2."""
    with MemoryStore.in_memory(embedder=embedder) as store:
        texts = {"a": "We met a bather by the lake.", "b": "We met a baker by the lake."}
        store.upsert([{"id": key, "kind": "archival", "text": text} for key, text in texts.items()])
        for level in (0, 1, 2):
            options = SearchParams(mode=SearchMode.FTS, fuzzy=level)
            assert search(store, "bather lake", params=options).hits[0].record.id == "a"


# Times in queries


def dated(store):
    store.upsert(
        [
            {
                "id": f"d{day}",
                "kind": "message",
                "text": f"the ferry of day {day}",
                "created_at": f"2026-03-{day:02}T12:00:00Z",
            }
            for day in range(1, 29)
        ]
    )


def test_a_time_at_the_end_of_a_query_is_a_filter(embedder):
    """Proves: SEARCH-10."""
    now = datetime(2026, 3, 28, 18, tzinfo=UTC)
    with MemoryStore.in_memory(embedder=embedder) as store:
        dated(store)
        found = search(store, "ferry < 3 days", params=SearchParams(reference_time=now))
        assert {hit.record.id for hit in found.hits} == {"d26", "d27", "d28"}
        assert found.query == "ferry < 3 days" and found.time_range is not None
        assert found.filters.start_time == found.time_range.start
        explicit = search(
            store,
            "ferry < 3 days",
            params=SearchParams(filters=Filters(start_time="2026-03-27T00:00:00Z"), reference_time=now),
        )
        assert {hit.record.id for hit in explicit.hits} == {"d27", "d28"}
        plain = search(store, "ferry < 3 days", params=SearchParams(reference_time=now, time_suffixes=False))
        assert plain.time_range is None and len(plain.hits) == 28
        assert search(store, '"ferry < 3 days"', params=SearchParams(reference_time=now)).time_range is None


def test_queries_with_different_times_are_searched_at_once(embedder):
    """Proves: SEARCH-10."""
    now = datetime(2026, 3, 28, 18, tzinfo=UTC)
    with MemoryStore.in_memory(embedder=embedder) as store:
        dated(store)
        queries = ["ferry < 3 days", "ferry", "ferry > 3 weeks", "< 2 days"]
        options = SearchParams(rerank=False, reference_time=now)
        together = search_many(store, queries, params=options)
        assert [response.query for response in together] == queries
        for query, response in zip(queries, together, strict=True):
            assert response == search(store, query, params=options)
        assert [hit.record.id for hit in together[3].hits] == ["d28", "d27"]
        assert together[3].legs == ("time",)


def test_vectors_that_are_given_are_not_embedded_again(filled, embedder):
    """Proves: SEARCH-1."""
    queries = ["who mends roofs", "ferry times"]
    given = embedder.embed_queries(queries)
    unranked = search_many(filled, queries, params=SearchParams(rerank=False))
    assert search_many(filled, queries, vectors=given) == unranked  # late interaction would embed the queries
    wanted = search_many(filled, queries, vectors=given, params=SearchParams(rerank=True))
    ranked = search_many(filled, queries, params=SearchParams(rerank=True))
    for one, other in zip(wanted, ranked, strict=True):
        assert [hit.record.id for hit in one.hits] == [hit.record.id for hit in other.hits]
    with pytest.raises(EmbedderError):
        search_many(filled, queries, vectors=given[:1])
    with pytest.raises(UnsupportedOptionError):
        search_many(filled, queries, vectors=given, params=SearchParams(mode=SearchMode.FTS))


# Reranking


def preferring(word):
    """Return a reranker of one's own that likes one word."""
    return as_reranker(lambda query, texts: [float(word in text) for text in texts])


def test_a_reranker_of_ones_own_decides_the_order(filled):
    """Proves: SEARCH-5, SEARCH-6."""
    plain = search(filled, "what is the cat called")
    for word in ("platform", "brakes", "rye"):
        found = search(filled, "what is the cat called", reranker=preferring(word))
        assert word in found.hits[0].record.text
        assert {hit.record.id for hit in found.hits} == {hit.record.id for hit in plain.hits}
        assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
        by_id = {hit.record.id: hit.similarity for hit in plain.hits}
        assert all(hit.similarity == by_id[hit.record.id] for hit in found.hits)


def test_a_reranker_that_fails_leaves_the_first_order_and_says_why(filled):
    """Proves: SEARCH-9."""

    def broken(query, texts):
        raise RuntimeError("out of order")

    plain = search(filled, "what is the cat called", params=SearchParams(rerank=False))
    for reranker in (as_reranker(broken), as_reranker(lambda query, texts: [float("nan")] * len(texts))):
        found = search(filled, "what is the cat called", reranker=reranker)
        assert found.hits == plain.hits
        assert found.degraded and found.degraded_reason is not None and "reranker" in found.degraded_reason


def test_late_interaction_runs_where_token_vectors_are_stored(filled):
    """Proves: SEARCH-5, SEARCH-9."""
    query = "what is the cat called"
    plain = search(filled, query, params=SearchParams(rerank=False))
    left_alone, wanted = search(filled, query), search(filled, query, params=SearchParams(rerank=True))
    assert left_alone == wanted and not wanted.degraded
    assert [hit.score for hit in wanted.hits] != [hit.score for hit in plain.hits]
    assert {hit.record.id: hit.similarity for hit in wanted.hits} == {
        hit.record.id: hit.similarity for hit in plain.hits
    }


def test_reranking_that_cannot_be_had_is_an_error_and_not_ignored():
    """Proves: SEARCH-2."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert([{"id": "a", "kind": "archival", "text": "a ferry"}])
        assert len(search(store, "ferry").hits) == 1
        with pytest.raises(UnsupportedOptionError) as caught:
            search(store, "ferry", params=SearchParams(rerank=True))
        assert caught.value.field == "rerank"
        with pytest.raises(UnsupportedOptionError):
            search(store, "ferry", reranker=preferring("ferry"), params=SearchParams(rerank=False))
    with pytest.raises(InvalidInputError):
        validate_model(SearchParams, {"rerank_budget_ms": -1})
