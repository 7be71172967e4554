"""What a search may see and what may move a score: tenants, sessions, neighbours, speakers, order of writing."""

from __future__ import annotations

import random

import pytest

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashEmbedder

MODES = list(SearchMode)
MINE = Scope(tenant="mine")


def store_of(*batches, embedder=None):
    """Return an open store; each batch is (records, tenant)."""
    store = MemoryStore.in_memory(embedder=embedder or WordHashEmbedder())
    for records, tenant in batches:
        store.upsert(records, tenant=tenant)
    return store


def values(store, query, mode=SearchMode.AUTO, scope=MINE, filters=None, **options):
    found = search(store, query, scope=scope, params=SearchParams(filters=filters or Filters(), mode=mode, **options))
    return [(hit.record.id, hit.score, hit.similarity, hit.window) for hit in found.hits]


def facts(count, words="coffee beans", prefix="f"):
    texts = (f"{words} " * (1 + at % 3) + f"lot{at} " * (at % 7) + "mill" * (at % 2) for at in range(count))
    return [{"id": f"{prefix}{at}", "kind": "fact", "text": text} for at, text in enumerate(texts)]


def turns(*texts, session="s1", conversation="c1", prefix="m", **fields):
    return [
        {"id": f"{prefix}{at}", "kind": "message", "text": text, "session": session, "conversation_id": conversation}
        | {"position": at}
        | fields
        for at, text in enumerate(texts)
    ]


# Tenants


@pytest.mark.parametrize("mode", MODES)
def test_another_tenants_data_moves_neither_results_nor_scores(mode):
    """Proves: STORE-3, SEARCH-3."""
    foreign = [*facts(60, "coffee", "x"), *turns("beans beans", "coffee beans", "mill", prefix="y")]
    with store_of((facts(20), "mine")) as alone, store_of((foreign, "theirs"), (facts(20), "mine")) as shared:
        for query in ("coffee beans", "beans mill"):
            expected = values(alone, query, mode)
            assert expected
            assert values(shared, query, mode) == expected
        assert values(shared, "coffee", mode, scope=Scope(tenant="nobody")) == []


def test_which_rows_a_leg_proposes_does_not_depend_on_another_tenant():
    """More rows match than a leg proposes, and another tenant makes one word common. Proves: STORE-3."""
    mine = [
        {"id": f"{word}{at}", "kind": "fact", "text": f"{word} lot{at}" + " and some more words" * (word == "beans")}
        for word in ("coffee", "beans")
        for at in range(200)
    ]
    with store_of((mine, "mine")) as alone, store_of((mine, "mine"), (facts(500, "coffee", "x"), "theirs")) as shared:
        for mode in MODES:
            assert values(shared, "coffee beans", mode, limit=5) == values(alone, "coffee beans", mode, limit=5)


@pytest.mark.parametrize("mode", MODES)
def test_what_another_tenant_writes_later_changes_nothing(mode):
    """Caches of one tenant aren't fed by another. Proves: STORE-3."""
    with store_of((facts(30), "mine")) as store:
        before = values(store, "coffee beans", mode)
        store.upsert(facts(50, "coffee", "x"), tenant="theirs")
        assert values(store, "coffee beans", mode) == before


@pytest.mark.parametrize("mode", MODES)
def test_the_same_ids_in_two_tenants_are_two_records(mode):
    """Proves: STORE-3."""
    mine = {"id": "a", "kind": "fact", "text": "coffee beans of mine"}
    theirs = {**mine, "text": "coffee beans of theirs"}
    with store_of(([mine], "mine"), ([theirs], "theirs")) as store:
        found = search(store, "coffee beans", scope=MINE, params=SearchParams(mode=mode))
        assert [hit.record.text for hit in found.hits] == ["coffee beans of mine"]


@pytest.mark.parametrize("mode", MODES)
def test_scope_holds_in_every_leg(mode):
    """Proves: STORE-3, SEARCH-4."""
    records = [
        {"id": f"{agent}{at}", "kind": "fact", "text": "coffee beans", "agent_id": agent, "group_id": group}
        for agent, group in (("a", "g"), ("b", "g"), ("c", "h"))
        for at in range(3)
    ]
    with store_of((records, "mine")) as store:
        local = values(store, "coffee", mode, Scope(tenant="mine", agent_id="a"))
        group = values(store, "coffee", mode, Scope(tenant="mine", agent_id="a", mode="constellation"))
        assert {record[0][0] for record in local} == {"a"} and len(local) == 3
        assert {record[0][0] for record in group} == {"a", "b"} and len(group) == 6


# Equal stores


@pytest.mark.parametrize("mode", MODES)
def test_equal_stores_give_equal_results(mode):
    """Proves: LOOP-9."""
    with store_of((facts(60), "mine")) as first, store_of((facts(60), "mine")) as second:
        assert values(first, "coffee beans mill", mode) == values(second, "coffee beans mill", mode)


@pytest.mark.parametrize("mode", MODES)
def test_scores_do_not_depend_on_the_order_of_writing(mode):
    """Proves: LOOP-9, SEARCH-6."""
    records = facts(60)
    shuffled = random.Random(7).sample(records, len(records))
    with store_of((records, "mine")) as first, store_of((shuffled, "mine")) as second:
        one, two = (values(store, "coffee beans mill", mode, limit=100) for store in (first, second))
        assert sorted(one) == sorted(two)


@pytest.mark.parametrize("mode", MODES)
def test_a_record_that_was_deleted_leaves_no_trace_in_the_scores(mode):
    """Proves: STORE-6, SEARCH-6."""
    with store_of((facts(30), "mine")) as plain, store_of((facts(30), "mine")) as other:
        other.upsert(turns("coffee coffee beans", "mill beans"), tenant="mine")
        other.delete(["m0", "m1"], tenant="mine")
        assert values(other, "coffee beans mill", mode) == values(plain, "coffee beans mill", mode)


# Neighbours


CAT = ("Did Ruth ever adopt the grey cat from the shelter?", "Yes, she calls her Miso.", "How sweet!")


@pytest.mark.parametrize("mode", MODES)
def test_a_turn_is_found_by_what_was_said_before_it(mode, embedder):
    """Proves: STORE-7, SEARCH-1."""
    filling = [text for at in range(8) for text in (f"The invoice {at} is late.", f"Parcel {at} arrived.")]
    for session, found in (("s1", True), ("other", False)):
        records = [
            *turns(CAT[0], prefix="q"),
            {**turns(CAT[1], session=session, prefix="answer")[0], "position": 1},
            *turns(*filling, session="s9", prefix="x"),
        ]
        with store_of((records, "mine"), embedder=embedder) as store:
            order = [record[0] for record in values(store, "grey cat from the shelter", mode, limit=3)]
            assert order[0] == "q0"
            assert ("answer0" in order[:2]) is found or (mode is SearchMode.VECTOR and not found)


@pytest.mark.parametrize("change", [{"session": "s2"}, {"conversation_id": "c2"}, {"user_id": "u2"}])
def test_context_never_crosses_sessions_conversations_or_users(change):
    """Proves: STORE-7."""
    first = turns("grey cat from the shelter", user_id="u1")
    second = {**turns("she calls her Miso", user_id="u1", prefix="n")[0], "position": 1}
    with store_of(([*first, second], "mine")) as store:
        joined = {record[0]: record for record in values(store, "grey cat shelter", SearchMode.FTS)}
        assert "cat" in joined["n0"][3]
    with store_of(([*first, second | change], "mine")) as store:
        assert [record[0] for record in values(store, "grey cat shelter", SearchMode.FTS)] == ["m0"]
        apart = {record[0]: record for record in values(store, "Miso", SearchMode.AUTO)}
        assert apart["n0"][3] == "she calls her Miso"


def test_an_own_match_outranks_a_neighbours(embedder):
    """Proves: STORE-7, SEARCH-6."""
    with store_of((turns(*CAT), "mine"), embedder=embedder) as store:
        for mode in MODES:
            own, *_ = values(store, "grey cat shelter", mode)
            assert own[0] == "m0"
            similarities = {record[0]: record[2] for record in values(store, "grey cat shelter", mode)}
            assert similarities["m0"] > similarities["m1"]


def test_a_filter_tests_the_record_and_not_its_neighbours():
    """Proves: STORE-7, SEARCH-3."""
    first, second = turns("grey cat from the shelter", "she calls her Miso")
    with store_of(([first | {"role": "user"}, second | {"role": "assistant"}], "mine")) as store:
        found = values(store, "grey cat shelter", SearchMode.FTS, filters=Filters(role="assistant"))
        assert [record[0] for record in found] == ["m1"]


# Priors


@pytest.mark.parametrize("mode", MODES)
def test_a_speaker_that_the_question_names_is_preferred(mode, embedder):
    """Proves: SEARCH-6."""
    said = "I would love to learn the cello one day."
    records = [
        {"id": name, "kind": "message", "author": name, "text": said, "conversation_id": name, "session": "s"}
        for name in ("Paul", "Ruth", "Igor")
    ]
    with store_of((records, "mine"), embedder=embedder) as store:
        for name in ("Ruth", "Igor"):
            best, *others = values(store, f"Does {name} want to learn the cello?", mode)
            assert best[0] == name and all(best[1] > other[1] for other in others)


@pytest.mark.parametrize("mode", MODES)
def test_a_session_with_several_good_turns_is_preferred(mode):
    """Proves: SEARCH-6."""
    gap = ["weather"] * 3
    busy = turns("coffee beans", *gap, "coffee beans", *gap, "coffee beans", session="busy", prefix="b")
    lonely = turns("weather", "coffee beans", *gap, session="lonely", prefix="a")
    with store_of(([*lonely, *busy], "mine")) as store:
        found = {record[0]: record[1] for record in values(store, "coffee beans", mode, limit=50)}
        assert found["b4"] > found["a1"]


def test_sessions_of_the_same_name_in_two_conversations_are_two():
    """Proves: STORE-7, SEARCH-6."""
    gap = ["weather"] * 3
    busy = turns("coffee beans", *gap, "coffee beans", *gap, "coffee beans", prefix="b")
    lonely = turns("weather", "coffee beans", *gap, conversation="c2", prefix="a")
    with store_of(([*lonely, *busy], "mine")) as store:
        found = {record[0]: record[1] for record in values(store, "coffee beans", limit=50)}
        assert found["b4"] > found["a1"]
