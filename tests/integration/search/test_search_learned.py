"""The learned order in a search over a real store."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from recall_loop.cli.core.common import model_from
from recall_loop.cli.search.search_verb import add_parser
from recall_loop.graph.run import retrieve
from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.search.rerank import learned
from recall_loop.memory.search.rerank.late_interaction import LateInteractionReranker
from recall_loop.memory.search.rerank.learned_order import MIN_POOL, ORDER_FEATURES
from recall_loop.memory.search.rerank.rerank import Candidate
from recall_loop.memory.store.embed.embedders import TokenEmbedder
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.embed.token_vectors import codec_for_embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.write.stored_tokens import StoredTokens
from recall_loop.service.models.search_models import SearchRequest
from recall_loop.state.records.records import ArchivalEntry, Message
from recall_loop.state.search import SearchParams
from recall_loop.state.settings.settings import Settings

QUESTION = "When does the ferry to the island leave?"
SUBJECTS = ("ferry", "garden", "telescope", "choir", "bakery", "harbour", "library", "orchard")


@pytest.fixture(scope="module")
def talk() -> Iterator[MemoryStore]:
    """A conversation of forty turns in which questions are answered."""
    turns = []
    for at in range(40):
        subject, asks = SUBJECTS[at // 2 % len(SUBJECTS)], at % 2 == 0
        text = f"Ana, what is new at the {subject} this week?" if asks else f"It opens at {at} past nine on Friday."
        if subject == "ferry" and asks:
            text = "When does the ferry to the island leave on Sundays?"
        turns.append(
            Message(
                id=f"t{at}", text=text, author="Ben" if asks else "Ana", conversation_id="c", session="1", position=at
            )
        )
    with MemoryStore.in_memory(embedder=MiniLmEmbedder()) as store:
        store.upsert(turns)
        yield store


def found(store: MemoryStore, **options: object) -> list[tuple[str, float]]:
    response = search(store, QUESTION, params=SearchParams(limit=20, **options))  # type: ignore[arg-type]
    return [(hit.record.id, hit.score) for hit in response.hits]


def test_it_changes_the_order_and_can_be_left_out(talk: MemoryStore) -> None:
    """Proves: RANK-2, SEARCH-6 (scores stay in [0,1], best first)."""
    with_it, without = found(talk), found(talk, rerank_learned=False)
    assert with_it != without
    assert {name for name, _ in with_it[:10]} & {name for name, _ in without[:10]}
    scores = [score for _, score in with_it]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert found(talk) == with_it


def test_a_small_pool_keeps_the_mixed_score(talk: MemoryStore) -> None:
    """Proves: RANK-2."""
    small = {"rerank_pool": MIN_POOL - 1}
    assert found(talk, **small) == found(talk, rerank_learned=False, **small)
    assert found(talk, rerank_pool=MIN_POOL) != found(talk, rerank_learned=False, rerank_pool=MIN_POOL)


def test_supporting_queries_go_without(talk: MemoryStore) -> None:
    """Proves: RANK-2 (what a query gets doesn't depend on the others of its call)."""
    options = SearchParams(limit=20)
    asked = [QUESTION, "choir news"]
    main, support = search_many(talk, asked, params=options, limits=[20, 6], reranked=[True, False])
    alone = search(talk, "choir news", params=SearchParams(limit=6, rerank=False))
    assert [hit.record.id for hit in main.hits] == [name for name, _ in found(talk)]
    # Texts that are embedded together differ from each alone in the last bits.
    assert [hit.score for hit in main.hits] == pytest.approx([score for _, score in found(talk)], abs=2e-6)
    assert [(hit.record.id, hit.score) for hit in support.hits] == [(hit.record.id, hit.score) for hit in alone.hits]


def test_what_stands_in_no_conversation_keeps_the_mixed_score() -> None:
    """Proves: RANK-2."""
    notes = [
        ArchivalEntry(id=f"n{at}", text=f"The {SUBJECTS[at % 8]} opens at {at} past nine; the ferry leaves later.")
        for at in range(40)
    ]
    with MemoryStore.in_memory(embedder=MiniLmEmbedder()) as store:
        store.upsert(notes)
        assert found(store) == found(store, rerank_learned=False)
        assert found(store) != found(store, rerank=False)


def test_features_say_what_they_are_named_for(talk: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: RANK-2."""
    seen = []
    whole = learned.order_features

    def watched(view: object, part: object, best: object, compared: object) -> object:
        values = whole(view, part, best, compared)  # type: ignore[arg-type]
        rows = part.rowids[best].tolist()  # type: ignore[attr-defined]
        records = view.rows(rows)  # type: ignore[attr-defined]
        seen.append((values, [records[row].record for row in rows]))
        return values

    monkeypatch.setattr(learned, "order_features", watched)
    search(talk, "What did Ana say of the ferry?", params=SearchParams(limit=20))
    ((values, records),) = seen
    assert values.shape == (len(records), len(ORDER_FEATURES))
    assert np.isfinite(values).all()
    column = {name: values[:, at] for at, name in enumerate(ORDER_FEATURES)}
    assert column["asks"].tolist() == [float(record.text.endswith("?")) for record in records]
    assert column["named"].tolist() == [float(record.author == "Ana") for record in records]
    assert column["before_named"].tolist() == [
        float(record.author == "Ben" and record.id != "t0") for record in records
    ]
    assert column["before_asks"].tolist() == [float(record.author == "Ana") for record in records]
    for name in ("own", "bm25_window", "length"):
        assert abs(column[name].mean()) < 1e-6


class Backwards(LateInteractionReranker):
    """Late interaction turned round: a reranker of the caller's own that builds on the product's."""

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> NDArray[np.float64] | None:
        self.asked = query
        scores = super().rerank(query, candidates)
        return None if scores is None else -scores


def test_a_reranker_of_ones_own_has_the_last_word(talk: MemoryStore) -> None:
    """Proves: RANK-2, SEARCH-5."""
    codec = codec_for_embedder(talk.embedder)
    assert codec is not None
    assert isinstance(talk.embedder, TokenEmbedder)
    own = Backwards(talk.embedder, StoredTokens(talk._session.database, "default", codec))
    turned = search(talk, QUESTION, reranker=own, params=SearchParams(limit=40))
    plain = search(talk, QUESTION, params=SearchParams(limit=40, rerank_learned=False))
    assert own.asked == QUESTION
    assert not turned.degraded
    assert turned.hits[0].record.id == plain.hits[-1].record.id


def test_the_setting_leaves_it_out_of_the_loop(talk: MemoryStore) -> None:
    """Proves: RANK-2, STOP-4."""
    facts = {}
    for learned_order in (True, False):
        settings = Settings(learned_order=learned_order, max_iterations=1)
        result = retrieve({"messages": [{"content": QUESTION}]}, store=talk, settings=settings)
        facts[learned_order] = [(fact.id, fact.score) for fact in result.facts]
    assert facts[True] != facts[False]


def test_a_search_over_http_and_in_the_command_line_leaves_it_out() -> None:
    """Proves: RANK-2, OPS-1, OPS-2."""
    assert SearchRequest(query="ferry").rerank_learned
    assert not SearchRequest(query="ferry", rerank_learned=False).rerank_learned
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    for words, wanted in (([], True), (["--no-rerank-learned"], False)):
        given = parser.parse_args(["search", "ferry", "--store", "x", *words])
        assert model_from(given, SearchParams).rerank_learned is wanted
