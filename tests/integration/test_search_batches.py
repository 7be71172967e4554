"""Several queries in one call find what each finds alone, where their number decides whether Chroma is asked."""

from __future__ import annotations

import numpy as np
import pytest

from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.search.options import SearchOptions
from recall_loop.memory.store import cache
from recall_loop.memory.store.nearest import best
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.vectors import products
from recall_loop.memory.store.view import View
from recall_loop.state.scope import Scope
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashes

WORDS = ["ferry", "island", "bread", "window", "lamp", "north", "cat", "bicycle", "train", "office"]
QUERIES = [f"{word} {WORDS[number - 3]}" for number, word in enumerate(WORDS)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    chance = np.random.default_rng(5)
    with MemoryStore.open(tmp_path_factory.mktemp("batches"), embedder=WordHashes()) as store:
        texts = [" ".join(chance.choice(WORDS, 5)) for _ in range(120)]
        store.upsert([{"id": f"r{at}", "kind": "message", "text": text} for at, text in enumerate(texts)])
        yield store


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("per_type", [True, False])
@pytest.mark.parametrize("mode", [SearchMode.VECTOR, SearchMode.HYBRID])
def test_a_batch_that_is_compared_finds_what_each_query_finds_in_the_index(stored, monkeypatch, mode, per_type, own):
    monkeypatch.setattr(cache, "SCANNED_ROWS", 30)
    monkeypatch.setattr(cache, "CACHED_ROWS", 1_000 if own else 0)
    stored.cache.clear()
    asked, real = [], View.nearest
    monkeypatch.setattr(View, "nearest", lambda *given: asked.append(len(given[1])) or real(*given))
    options = SearchOptions(mode=mode, limit=5, limit_per_type=per_type)
    alone = [search(stored, query, options=options) for query in QUERIES]
    assert asked == [1] * len(QUERIES)
    together = search_many(stored, QUERIES, options=options)
    assert asked == [1] * len(QUERIES)
    assert [[hit.record.id for hit in found.hits] for found in together] == [
        [hit.record.id for hit in found.hits] for found in alone
    ]


def test_more_vectors_are_compared_with_more_rows_up_to_a_bound():
    bounds = [cache.most_scanned(count) for count in (1, 2, 3, 12, 100, 10_000)]
    assert bounds == sorted(bounds)
    assert bounds[0] == cache.SCANNED_ROWS
    assert bounds[3] > 100_000
    assert bounds[-1] < 15 * cache.SCANNED_ROWS


@pytest.mark.parametrize("queries", [1, 2, 12, 40])
@pytest.mark.parametrize("rows", [0, 1, 47, 96, 1_000, 5_003])
def test_products_in_blocks_are_the_products(queries, rows):
    chance = np.random.default_rng(rows)
    left, right = (chance.standard_normal((count, 384)).astype(np.float32) for count in (queries, rows))
    assert np.allclose(products(left, right), left.astype(float) @ right.T.astype(float), atol=1e-3)


@pytest.mark.parametrize("size", [10, 500, 2_003])
@pytest.mark.parametrize("different", [1, 3, 40, 10_000])
def test_the_best_of_many_values_are_those_of_a_whole_sort(size, different):
    chance = np.random.default_rng(size)
    values, rowids = chance.integers(0, different, size).astype(float), chance.permutation(size)
    for wanted in (1, 7, 50, size):
        assert best(values, rowids, wanted).tolist() == np.lexsort((rowids, -values))[:wanted].tolist()


def test_words_find_the_same_rows_among_few_and_many(stored):
    view = stored.view(Scope())
    weights = [("lamp", 2.0), ("ferri", 1.0)]
    every = view.by_words(weights, 120).tolist()
    assert 3 < len(every) < 120
    assert view.by_words(weights, 3).tolist() == every[:3]
