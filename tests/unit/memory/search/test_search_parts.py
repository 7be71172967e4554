"""The pieces of a search by themselves: similarity, term statistics, fusion, content scoring, options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.memory.search.query.lexical import bm25, idf
from recall_loop.memory.search.query.parsed_queries import parse_queries
from recall_loop.memory.search.scoring.fusion import (
    Fusion,
    combine_similarities,
    content_factors,
    idf_weighted_coverage,
    semantic_similarity,
    session_prior,
    share_of_best,
)
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, UnsupportedOptionError, validate_model
from recall_loop.state.records.records import Message
from recall_loop.state.scope import Scope
from recall_loop.state.search import DEFAULT_RERANK_POOL, MAX_RERANK_POOL, MAX_RESULTS, SearchParams
from recall_loop.state.types import OrderBy, SearchMode
from tests.embedders import WordHashEmbedder

UNIT = st.floats(0.0, 1.0)


def array(*values):
    return np.array(values, dtype=np.float64)


# Similarity


def test_meaning_is_the_documented_curve():
    """Proves: SEARCH-6."""
    assert semantic_similarity(np.array([0.10, 0.35, 0.60], dtype=np.float32)) == pytest.approx(
        [0.12, 0.50, 0.88], abs=0.005
    )


def test_meaning_rises_and_stays_within_its_bounds():
    """Proves: SEARCH-6."""
    found = semantic_similarity(np.linspace(-1, 1, 101, dtype=np.float32))
    assert np.all(np.diff(found) > 0) and found[0] > 0.0 and found[-1] < 1.0


def test_word_share_is_weighted_by_rarity():
    """Proves: SEARCH-6."""
    own = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=float)
    rare_first = idf_weighted_coverage(own, own, array(9.0, 1.0))
    assert rare_first == pytest.approx([0.9, 0.1, 1.0, 0.0])


def test_a_word_of_the_neighbours_counts_less_than_an_own_one():
    """Proves: SEARCH-6, STORE-7."""
    none, weights = np.zeros((1, 1)), array(2.0)
    near = idf_weighted_coverage(none, np.ones((1, 1)), weights)[0]
    assert 0.0 < near < idf_weighted_coverage(np.ones((1, 1)), np.ones((1, 1)), weights)[0] == 1.0


def test_how_often_a_word_stands_there_does_not_matter_for_its_share():
    """Proves: SEARCH-6."""
    once, often = (
        idf_weighted_coverage(np.full((1, 1), count), np.full((1, 1), count), array(2.0))[0] for count in (1.0, 9.0)
    )
    assert once == often == 1.0


def test_a_part_that_was_not_looked_at_does_not_count():
    """Proves: SEARCH-6."""
    meant, shared = array(0.8), array(0.4)
    assert combine_similarities(meant, None)[0] == 0.8
    assert combine_similarities(None, shared)[0] == 0.4
    assert combine_similarities(meant, shared)[0] == pytest.approx(0.6)
    assert len(combine_similarities(None, None)) == 0


# Term statistics


def test_rare_words_weigh_more_and_none_weighs_nothing():
    """Proves: SEARCH-1."""
    weights = [idf(1000, frequency) for frequency in (0, 1, 10, 100, 1000)]
    assert weights == sorted(weights, reverse=True) and weights[-1] > 0.0
    assert idf(0, 0) > 0.0 and idf(5, 9) > 0.0


def test_bm25_rises_with_counts_and_falls_with_length():
    """Proves: SEARCH-1."""
    counts = np.array([[0.0], [1.0], [2.0], [50.0]])
    scores = bm25(counts, np.full(4, 10.0), 10.0, array(2.0))
    assert scores[0] == 0.0 and np.all(np.diff(scores) > 0)
    short, long = bm25(np.ones((2, 1)), array(5.0, 50.0), 10.0, array(2.0))
    assert short > long
    assert np.all(np.isfinite(bm25(np.ones((1, 1)), array(0.0), 0.0, array(1.0))))


# Fusion


def test_the_best_value_becomes_one_and_negative_ones_nothing():
    """Proves: SEARCH-6."""
    assert share_of_best(array(2.0, 1.0, -1.0)) == pytest.approx([1.0, 0.5, 0.0])
    assert share_of_best(array(0.0, 0.0)) == pytest.approx([0.0, 0.0])
    assert len(share_of_best(array())) == 0


def test_the_best_hit_scores_best():
    """The origin's formula gave the best hit 0. Proves: SEARCH-6."""
    scores = Fusion().fuse({"bm25": array(9.0, 3.0, 1.0)}, np.zeros(3), [-1] * 3)
    assert scores[0] > scores[1] > scores[2] > 0.0


def test_how_much_better_the_best_hit_is_is_not_forgotten():
    """Proves: SEARCH-1, SEARCH-6."""
    near = Fusion().fuse({"a": array(1.0, 0.99), "b": array(0.1, 1.0)}, np.zeros(2), [-1] * 2)
    far = Fusion().fuse({"a": array(1.0, 0.01), "b": array(0.9, 1.0)}, np.zeros(2), [-1] * 2)
    assert near[1] > near[0] and far[0] > far[1]


def test_a_named_speaker_is_preferred():
    """Proves: SEARCH-6."""
    scores = Fusion().fuse({"a": array(0.5, 0.5)}, array(0.0, 1.0), [-1, -1])
    assert scores[1] > scores[0]


def test_a_session_with_several_good_turns_is_preferred():
    """Proves: SEARCH-6."""
    scores = Fusion().fuse({"a": array(0.5, 0.5, 0.5)}, np.zeros(3), [7, 7, 2])
    assert scores[0] == scores[1] > scores[2]
    prior = session_prior(array(0.5, 0.5, 0.5), [7, 7, 2])
    assert prior == pytest.approx([1.0, 1.0, 0.5])


def test_records_without_a_session_do_not_form_one():
    """Proves: SEARCH-6, SEARCH-7."""
    assert session_prior(array(1.0, 0.5), [-1, -1]) == pytest.approx([1.0, 0.5])
    assert session_prior(array(0.0, 0.0), [0, -1]) == pytest.approx([0.0, 0.0])


@settings(max_examples=50)
@given(
    rows=st.lists(
        st.tuples(st.floats(-1, 50), st.floats(-1, 1), st.booleans(), st.sampled_from([0, 1, -1])),
        min_size=1,
        max_size=50,
    )
)
def test_fused_scores_are_bounded(rows):
    """Proves: SEARCH-6."""
    signals = {"x": array(*(row[0] for row in rows)), "y": array(*(row[1] for row in rows))}
    scores = Fusion().fuse(signals, array(*(float(row[2]) for row in rows)), [row[3] for row in rows])
    assert np.all(scores >= 0.0) and np.all(scores <= 1.0 + 1e-9)


# Content scoring


def message(*blocks, role=None):
    return Message(id="m", text="x", role=role, blocks=[{"type": kind, "text": text} for kind, text in blocks])


def content_factor(record):
    """What the index knows of a record decides how much its content counts."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert([record])
        view = store.view(Scope())
        columns = view.index_of(view.rowids()).columns
        return float(content_factors(columns.tool, columns.aside)[0])


def test_what_was_said_counts_in_full():
    """Proves: SEARCH-5."""
    assert content_factor(message()) == 1.0
    assert content_factor(message(("text", "hello"), role="assistant")) == 1.0


@pytest.mark.parametrize("kind", ["reasoning", "tool_use", "tool_result"])
def test_reasoning_and_tool_blocks_weigh_half_by_their_share(kind):
    """Proves: SEARCH-5."""
    assert content_factor(message((kind, "12345"))) == 0.5
    assert content_factor(message((kind, "12345"), ("text", "12345"))) == 0.75
    assert content_factor(message((kind, ""), ("text", ""))) == 1.0


def test_tool_responses_weigh_less():
    """Proves: SEARCH-5."""
    assert content_factor(message(role="tool")) == 0.7
    assert content_factor(message(("tool_result", "12345"), role="tool")) == pytest.approx(0.35)


# Options


@pytest.mark.parametrize("limit", [0, -1, MAX_RESULTS + 1])
def test_limits_out_of_range_are_refused(limit):
    """Proves: SEARCH-2, SEARCH-3."""
    with pytest.raises(InvalidInputError) as caught:
        validate_model(SearchParams, {"limit": limit})
    assert caught.value.field == "limit" and "1" in caught.value.allowed


@pytest.mark.parametrize("fuzzy", [1, 2, True])
def test_typo_tolerance_is_an_error_where_no_words_are_looked_up(fuzzy):
    """Proves: SEARCH-2."""
    with pytest.raises(UnsupportedOptionError) as caught:
        SearchParams(fuzzy=fuzzy, mode=SearchMode.VECTOR).check_supported()
    assert caught.value.field == "fuzzy"
    assert SearchParams(fuzzy=fuzzy).fuzzy == int(fuzzy) and type(SearchParams(fuzzy=fuzzy).fuzzy) is int


@pytest.mark.parametrize("fuzzy", [3, -1, "one", None, 0.5])
def test_unknown_levels_are_refused(fuzzy):
    """Proves: SEARCH-2."""
    with pytest.raises(InvalidInputError, match="0, 1, 2"):
        validate_model(SearchParams, {"fuzzy": fuzzy})


def test_modes_and_orders_may_be_given_by_name():
    """A name must not be accepted and then ignored. Proves: SEARCH-1, SEARCH-2."""
    chosen = SearchParams(mode="fts", order_by="created_at")
    assert chosen.mode is SearchMode.FTS and chosen.order_by is OrderBy.CREATED_AT


@pytest.mark.parametrize(("field", "value"), [("mode", "telepathy"), ("order_by", "charm")])
def test_unknown_modes_and_orders_are_refused(field, value):
    """Proves: SEARCH-2, SEARCH-3."""
    with pytest.raises(InvalidInputError) as caught:
        validate_model(SearchParams, {field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("pool", [0, -1, MAX_RERANK_POOL + 1, 1.5, True, None])
def test_pools_out_of_range_are_refused(pool):
    """Proves: SEARCH-5."""
    with pytest.raises(InvalidInputError, match=r"rerank_pool.*an integer from 1 to 100"):
        validate_model(SearchParams, {"rerank_pool": pool})


@pytest.mark.parametrize(
    ("pool", "expected"),
    [(MAX_RERANK_POOL, [100, 80, 50, 50]), (DEFAULT_RERANK_POOL, [50, 50, 50, 50]), (7, [7, 7, 7, 7])],
)
def test_a_large_pool_is_for_queries_that_want_many_results(pool, expected):
    """Proves: SEARCH-5. A search with several queries reranks what each would alone, up to the usual pool."""
    options = SearchParams(rerank_pool=pool)
    given_limits = [30, 20, 12, 1]
    asked = parse_queries(["a", "b", "c", "d"], options, spoken=None, limits=given_limits, filters=None)
    assert [query.options.rerank_pool for query in asked] == expected
