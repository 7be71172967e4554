"""Reranking: the stage's rules, rerankers of a user's own, late interaction with the real model."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import BaseDocumentCompressor, Document

from recall_loop.memory.search.rerank.late_interaction import LateInteractionReranker, fill_unknown
from recall_loop.memory.search.rerank.rerank import (
    Candidate,
    Reranker,
    RerankError,
    as_reranker,
    run_reranker,
    z_scores,
)
from recall_loop.memory.search.rerank.rerank_stage import make_rerank_stage
from recall_loop.memory.store.embed.token_vectors import codec_for_embedder
from recall_loop.memory.store.index.vector_search import top_positions
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, UnsupportedOptionError, validate_model
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams
from tests.embedders import WordHashEmbedder

FINITE = st.floats(allow_nan=False, allow_infinity=False)
FIRST = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def pool_of(scores: Sequence[float]) -> list[Candidate]:
    return [Candidate(f"r{at}", f"text {at}", score, at) for at, score in enumerate(scores)]


class Texts:
    """A source that holds the texts of one conversation, and token vectors of some."""

    def __init__(self, embedder, texts: dict[int, str], stored: Sequence[int] = ()) -> None:
        self.given, self.asked = texts, []
        codec = codec_for_embedder(embedder)
        made = embedder.conversational.embed_documents_with_tokens([texts[row] for row in stored])[1] if stored else []
        self.packed = {row: codec.pack(tokens) for row, tokens in zip(stored, made, strict=True)}
        self.codec = codec

    def neighbours(self, rowids):
        return {
            row: (row - 1 if row - 1 in self.given else None, row + 1 if row + 1 in self.given else None)
            for row in rowids
        }

    def tokens(self, rowids):
        return {row: self.codec.unpack(self.packed[row]) for row in rowids if row in self.packed}

    def texts(self, rowids):
        self.asked.append(list(rowids))
        return {row: ("message", self.given[row]) for row in rowids if row in self.given}


class Alone(Texts):
    """The same without neighbours."""

    def neighbours(self, rowids):
        return {}


TALK = {
    1: "Ann: What a rainy week it has been here.",
    2: "Ben: My sister adopted a small brown puppy on Sunday.",
    3: "Ann: How lovely! What is it called?",
    4: "Ben: She named it Biscuit.",
    5: "Ann: The quarterly tax forms are due tomorrow.",
    6: "Ben: I still have to find my receipts.",
}


# The stage


@given(FIRST, st.data())
def test_new_scores_stay_in_the_range_of_the_first_and_in_the_rerankers_order(first, data):
    """Proves: SEARCH-5."""
    fresh = data.draw(st.lists(FINITE, min_size=len(first), max_size=len(first)))
    result = run_reranker(as_reranker(lambda query, texts: fresh), "q", pool_of(first))
    assert result.reason is None
    wider = 0.001 if max(first) - min(first) < 0.001 else 0.0
    assert result.scores.min() >= min(first) - wider - 1e-9 and result.scores.max() <= max(first) + wider + 1e-9
    assert result.scores.min() >= 0 and result.scores.max() <= 1
    order = np.argsort(fresh, kind="stable")
    assert (np.diff(result.scores[order]) >= 0).all()


@given(FIRST, st.randoms())
def test_the_order_of_the_pool_does_not_matter(first, random):
    """Proves: SEARCH-5."""
    pool = pool_of(first)
    mixed = list(pool)
    random.shuffle(mixed)
    reranker = as_reranker(lambda query, texts: [crc32(text.encode()) % 97 for text in texts])
    one = dict(zip([c.id for c in pool], run_reranker(reranker, "q", pool).scores, strict=True))
    other = dict(zip([c.id for c in mixed], run_reranker(reranker, "q", mixed).scores, strict=True))
    assert all(one[name] == pytest.approx(other[name], abs=1e-9) for name in one)


@pytest.mark.parametrize(
    ("given_back", "said"),
    [
        ([1.0], "shape"),
        ([1.0, float("nan"), 2.0], "NaN"),
        ([1.0, float("inf"), 2.0], "infinity"),
        (["a", "b", "c"], "not return a list of numbers"),
        (None, "finite|shape|NaN"),
    ],
)
def test_bad_scores_keep_the_first_order_and_are_reported(given_back, said):
    """Proves: SEARCH-5, SEARCH-9."""
    import re

    def mine(query, texts):
        return given_back

    first = [0.9, 0.5, 0.1]
    result = run_reranker(as_reranker(mine), "q", pool_of(first))
    assert result.scores.tolist() == first
    assert result.reason.startswith("reranker mine: ") and re.search(said, result.reason)


def test_a_reranker_that_raises_degrades_and_an_empty_pool_asks_nobody():
    """Proves: SEARCH-5, SEARCH-9."""

    def fails(query, texts):
        raise ConnectionError("nobody there")

    result = run_reranker(as_reranker(fails), "q", pool_of([0.4, 0.2]))
    assert result.reason == "reranker fails: ConnectionError: nobody there"
    assert result.scores.tolist() == [0.4, 0.2]
    assert run_reranker(as_reranker(fails), "q", []).reason is None


def test_the_pool_is_the_best_first_and_equal_scores_go_by_rowid():
    """Proves: SEARCH-5."""
    places = top_positions(np.array([0.1, 0.9, 0.9, 0.5]), np.array([4, 3, 1, 2]), 3)
    assert places.tolist() == [2, 1, 3]


@given(st.lists(FINITE, min_size=1, max_size=9))
def test_z_scores_are_finite_and_centred(values):
    """Proves: SEARCH-5."""
    scores = z_scores(np.array(values))
    assert np.isfinite(scores).all() and abs(float(scores.mean())) < 1e-6


# A user's own


def test_a_callable_gets_whole_texts_and_its_order_counts():
    """Proves: SEARCH-5."""
    seen: list[tuple[str, list[str]]] = []

    def longest(query: str, texts: list[str]) -> list[float]:
        seen.append((query, texts))
        return [float(len(text)) for text in texts]

    pool = [Candidate("a", "short", 0.9), Candidate("b", "long " * 2000, 0.2)]
    scores = run_reranker(as_reranker(longest), "which?", pool).scores
    assert seen == [("which?", ["short", "long " * 2000])]
    assert scores.tolist() == [0.2, 0.9]


class LastOnly(BaseDocumentCompressor):
    """Gives back the last document alone, rewritten."""

    def compress_documents(self, documents, query, callbacks=None):
        last = documents[-1]
        return [Document(page_content="cut", metadata={**last.metadata, "relevance_score": 0.3})]


class Forgetful(BaseDocumentCompressor):
    """Loses the metadata."""

    def compress_documents(self, documents, query, callbacks=None):
        return [Document(page_content=document.page_content) for document in documents]


def test_a_compressor_orders_and_what_it_leaves_out_follows_in_first_order():
    """Proves: SEARCH-5."""
    reranker = as_reranker(LastOnly())
    assert reranker.name == "LastOnly"
    scores = run_reranker(reranker, "q", pool_of([0.9, 0.5, 0.4, 0.1])).scores
    assert np.argsort(-scores).tolist() == [3, 0, 1, 2]


def test_a_compressor_that_loses_the_metadata_is_reported():
    """Proves: SEARCH-5, SEARCH-9."""
    result = run_reranker(as_reranker(Forgetful()), "q", pool_of([0.9, 0.5]))
    assert "without its original metadata" in result.reason and result.scores.tolist() == [0.9, 0.5]


@pytest.mark.parametrize("wrong", [None, 3, "rerank", [1], LastOnly, object()])
def test_anything_else_is_refused(wrong):
    """Proves: SEARCH-5, SEARCH-2."""
    with pytest.raises(InvalidInputError, match=r"reranker: got .*allowed: a Reranker, a LangChain"):
        as_reranker(wrong)


# Late interaction


def late(embedder, source, budget_ms=0.0) -> LateInteractionReranker:
    return LateInteractionReranker(embedder, source, budget_ms)


def test_late_interaction_finds_the_turn_and_its_window(embedder):
    """Proves: SEARCH-5."""
    source = Texts(embedder, TALK, stored=list(TALK))
    pool = [Candidate(f"t{row}", text, 0.5, row) for row, text in TALK.items()]
    reranker = late(embedder, source)
    assert isinstance(reranker, Reranker)
    scores = run_reranker(reranker, "puppy named Biscuit", pool).scores
    assert not source.asked
    flat = reranker.rerank("puppy named Biscuit", pool)
    assert set(np.argsort(-flat)[:2]) <= {1, 2, 3}
    assert flat[2] > flat[4], "row 3 names neither word; its neighbours do"
    assert np.array_equal(np.argsort(scores), np.argsort(flat)) and np.ptp(scores) == pytest.approx(0.001)


def test_given_query_tokens_and_any_order_of_the_pool_give_the_same_scores(embedder):
    """Proves: SEARCH-5."""
    source = Texts(embedder, TALK, stored=list(TALK))
    pool = [Candidate(f"t{row}", text, row / 10, row) for row, text in TALK.items()]
    tokens = {"tax receipts": embedder.embed_queries_with_tokens(["tax receipts"])[1][0]}
    given_tokens = LateInteractionReranker(embedder, source, query_tokens=tokens).rerank("tax receipts", pool)
    backwards = late(embedder, source).rerank("tax receipts", pool[::-1])
    assert np.allclose(given_tokens, backwards[::-1], atol=1e-5)


def test_without_stored_tokens_and_without_time_the_first_order_stays(embedder):
    """Proves: SEARCH-5, SEARCH-9."""
    source = Texts(embedder, TALK)
    pool = [Candidate(f"t{row}", text, row / 10, row) for row, text in TALK.items()]
    result = run_reranker(late(embedder, source), "puppy", pool)
    assert result.scores.tolist() == [row / 10 for row in TALK] and result.reason is None
    assert source.asked == []


def test_the_budget_makes_tokens_of_the_best_first_and_stored_equal_made(embedder):
    """Proves: SEARCH-5."""
    pool = [Candidate(f"t{row}", text, row / 10, row) for row, text in TALK.items()]
    fresh = Texts(embedder, TALK)
    reranker = late(embedder, fresh, budget_ms=60_000)
    made = reranker.rerank("puppy named Biscuit", pool)
    assert fresh.asked[0][0] == 6 and reranker.budget_ms < 60_000
    stored = late(embedder, Texts(embedder, TALK, stored=list(TALK))).rerank("puppy named Biscuit", pool)
    assert np.allclose(made, stored, atol=0.05)
    reranker.rerank("tax", pool)
    assert len(fresh.asked) == 1, "what one query made, the next one has"


def test_what_is_not_known_is_taken_as_average(embedder):
    """Proves: SEARCH-5."""
    source = Alone(embedder, TALK, stored=[2, 4, 5])
    pool = [Candidate(f"t{row}", TALK[row], 0.5, row) for row in (2, 4, 5, 6)] + [Candidate("loose", "x", 0.5)]
    scores = late(embedder, source).rerank("a small brown puppy", pool)
    assert scores[0] > 0 > scores[2]
    assert scores[3] == pytest.approx(0.0, abs=1e-9) and scores[4] == pytest.approx(0.0, abs=1e-9)
    assert fill_unknown(np.array([1.0, np.nan, 3.0])).tolist() == [1.0, 2.0, 3.0]


def test_texts_and_queries_without_words_do_no_harm(embedder):
    """Proves: SEARCH-5."""
    texts = {1: "…", 2: "Ben: a puppy", 3: "?!"}
    source = Alone(embedder, texts, stored=[1, 2, 3])
    pool = [Candidate(str(row), text, 0.5, row) for row, text in texts.items()]
    scores = late(embedder, source).rerank("puppy", pool)
    assert np.isfinite(scores).all() and np.argmax(scores) == 1
    assert late(embedder, source).rerank("?!", pool) is None


def test_an_embedder_without_token_vectors_is_refused_by_name():
    """Proves: SEARCH-5, SEARCH-2."""
    store = MemoryStore.in_memory(embedder=WordHashEmbedder())
    with store, pytest.raises(UnsupportedOptionError, match=r"rerank: got True.*word-hashes has no token vectors"):
        make_rerank_stage(store, Scope(), SearchParams(rerank=True), None, given=False)


@pytest.mark.parametrize("wrong", [-1, float("inf"), float("nan")])
def test_a_budget_is_a_length_of_time(wrong):
    """Proves: SEARCH-5."""
    with pytest.raises(InvalidInputError, match="rerank_budget_ms"):
        validate_model(SearchParams, {"rerank_budget_ms": wrong})


def test_rerank_error_is_the_projects_own():
    """Proves: SEARCH-9."""
    from recall_loop.state.errors import RecallError

    assert issubclass(RerankError, RecallError)
