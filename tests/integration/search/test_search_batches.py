"""Several queries in one call find what each finds alone, where their number decides whether Chroma is asked."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.search.query.query_preparation import SearchResponse
from recall_loop.memory.store.index.caches import row_limits
from recall_loop.memory.store.index.vector_search import top_positions, top_positive_positions
from recall_loop.memory.store.index.vectors import dot_products
from recall_loop.memory.store.index.view import View
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashEmbedder

WORDS = ["ferry", "island", "bread", "window", "lamp", "north", "cat", "bicycle", "train", "office"]
QUERIES = [f"{word} {WORDS[number - 3]}" for number, word in enumerate(WORDS)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    chance = np.random.default_rng(5)
    with MemoryStore.open(tmp_path_factory.mktemp("batches"), embedder=WordHashEmbedder()) as store:
        texts = [" ".join(chance.choice(WORDS, 5)) for _ in range(120)]
        places = [{"conversation_id": f"c{at % 3}", "tags": ["odd"] * (at % 2)} for at in range(len(texts))]
        made = enumerate(zip(texts, places, strict=True))
        store.upsert({"id": f"r{at}", "kind": "message", "text": text, **place} for at, (text, place) in made)
        yield store


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("per_type", [True, False])
@pytest.mark.parametrize("mode", [SearchMode.VECTOR, SearchMode.HYBRID])
def test_a_batch_that_is_compared_finds_what_each_query_finds_in_the_index(stored, monkeypatch, mode, per_type, own):
    monkeypatch.setattr(row_limits, "SCANNED_ROWS", 30)
    monkeypatch.setattr(row_limits, "CACHED_ROWS", 1_000 if own else 0)
    stored._session.cache.clear()
    asked, real = [], View.nearest
    monkeypatch.setattr(View, "nearest", lambda *given: asked.append(len(given[1])) or real(*given))
    options = SearchParams(mode=mode, limit=5, limit_per_type=per_type)
    alone = [search(stored, query, params=options) for query in QUERIES]
    assert asked == [1] * len(QUERIES)
    together = search_many(stored, QUERIES, params=options)
    assert asked == [1] * len(QUERIES)
    assert [[hit.record.id for hit in found.hits] for found in together] == [
        [hit.record.id for hit in found.hits] for found in alone
    ]


@given(
    chosen=st.lists(st.sampled_from(QUERIES), min_size=2, max_size=12),
    limits=st.randoms(use_true_random=False),
    modes=st.lists(st.sampled_from([SearchMode.FTS, SearchMode.VECTOR, SearchMode.HYBRID]), min_size=12, max_size=12),
    filters=st.sampled_from([Filters(), Filters(tags=("odd",)), Filters(conversation_id="c1", tags=("odd",))]),
    held=st.booleans(),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_gives_exactly_what_its_queries_give_alone(
    stored: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
    chosen: list[str],
    limits: random.Random,
    modes: list[SearchMode],
    filters: Filters,
    held: bool,
) -> None:
    """Records, their order, scores, similarities and what each leg says. Proves: SEARCH-1, SEARCH-3."""
    with monkeypatch.context() as patch:
        patch.setattr(row_limits, "INDEXED_ROWS", 200_000 if held else 0)
        stored._session.cache.clear()
        each, options = [limits.randint(1, 20) for _ in chosen], SearchParams(filters=filters, debug=True)
        together = search_many(stored, chosen, params=options, limits=each, modes=modes[: len(chosen)])
        alone = [
            search(stored, query, params=options.model_copy(update={"limit": limit, "mode": mode}))
            for query, limit, mode in zip(chosen, each, modes, strict=False)
        ]
    assert [_told(found) for found in together] == [_told(found) for found in alone]
    assert any(found.hits for found in alone)
    stored._session.cache.clear()


def _told(found: SearchResponse) -> list[object]:
    hits = ((hit.record.id, round(hit.score, 4), round(hit.similarity, 4), _rounded(hit.debug)) for hit in found.hits)
    return [found.allowed, found.legs, *hits]


def _rounded(legs: dict[str, dict[str, float]] | None) -> dict[str, tuple[float, float]]:
    """Return what the legs say; a product of several vectors may differ from one vector's in its last digit."""
    return {name: (round(leg["score"], 4), leg["rank"]) for name, leg in (legs or {}).items()}


@pytest.mark.parametrize("size", [10, 500, 2_003, 20_003])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 1.0])
@pytest.mark.parametrize("kept", [0.1, 1.0])
def test_the_heaviest_are_those_of_a_whole_sort(size: int, share: float, kept: float) -> None:
    chance = np.random.default_rng(size)
    values = chance.integers(1, 40, size) * (chance.random(size) < share).astype(float)
    allowed, rowids = chance.random(size) < kept, chance.permutation(size)
    order = [place for place in np.lexsort((rowids, -values)).tolist() if allowed[place] and values[place] > 0]
    for wanted in (1, 7, 80):
        assert top_positive_positions(values, allowed, rowids, wanted).tolist() == order[:wanted]


def test_more_vectors_are_compared_with_more_rows_up_to_a_bound():
    bounds = [row_limits.scan_row_limit(count) for count in (1, 2, 3, 12, 100, 10_000)]
    assert bounds == sorted(bounds)
    assert bounds[0] == row_limits.SCANNED_ROWS
    assert bounds[3] > 100_000
    assert bounds[-1] < 15 * row_limits.SCANNED_ROWS


@pytest.mark.parametrize("queries", [1, 2, 12, 40, 100])
@pytest.mark.parametrize("rows", [0, 1, 47, 96, 1_000, 5_003])
def test_products_in_blocks_are_the_products(queries, rows):
    chance = np.random.default_rng(rows)
    left, right = (chance.standard_normal((count, 384)).astype(np.float32) for count in (queries, rows))
    assert np.allclose(dot_products(left, right), left.astype(float) @ right.T.astype(float), atol=1e-3)


@pytest.mark.parametrize("size", [10, 500, 2_003])
@pytest.mark.parametrize("different", [1, 3, 40, 10_000])
def test_the_best_of_many_values_are_those_of_a_whole_sort(size, different):
    chance = np.random.default_rng(size)
    values, rowids = chance.integers(0, different, size).astype(float), chance.permutation(size)
    for wanted in (1, 7, 50, size):
        assert top_positions(values, rowids, wanted).tolist() == np.lexsort((rowids, -values))[:wanted].tolist()


def test_words_find_the_same_rows_among_few_and_many(stored):
    view = stored.view(Scope())
    weights = [("lamp", 2.0), ("ferri", 1.0)]
    every = view.top_by_stems(weights, 120).tolist()
    assert 3 < len(every) < 120
    assert view.top_by_stems(weights, 3).tolist() == every[:3]
