"""Embedders of one's own: vectors of any length, and what goes on without them while they fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import EmbedderError
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashEmbedder

TEXTS = {
    "n1": "The ferry Birk leaves at nine.",
    "n2": "Oda is allergic to walnuts.",
    "n3": "Quist counts the seals near the lighthouse every Sunday.",
}
NOTES = [{"id": name, "kind": "archival", "text": text} for name, text in TEXTS.items()]
BY_MEANING = SearchParams(mode=SearchMode.VECTOR)


class Scaled(WordHashEmbedder):
    """An embedder whose vectors are as long as a text is, times a factor."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def embed_documents(self, texts: Any) -> Any:
        lengths = np.array([[self.factor * len(text)] for text in texts], dtype=np.float32)
        return super().embed_documents(texts) * lengths

    embed_queries = embed_documents


class Blank(WordHashEmbedder):
    """An embedder that knows no direction for texts with a certain word."""

    def embed_documents(self, texts: Any) -> Any:
        vectors = super().embed_documents(texts)
        vectors[["nothing" in text for text in texts]] = 0.0
        return vectors

    embed_queries = embed_documents


@pytest.mark.parametrize("factor", [1e-25, 0.3, 7.0, 1e25])
def test_vectors_of_any_length_are_compared_by_their_direction(factor: float) -> None:
    """Proves: STORE-5, SEARCH-4. Of documents, queries and given vectors alike; half precision holds no long ones."""
    found = []
    for embedder in (WordHashEmbedder(), Scaled(factor)):
        with MemoryStore.in_memory(embedder=embedder) as store:
            store.upsert(NOTES)
            asked = ["ferry Birk", "seals near the lighthouse"]
            given = search_many(store, asked, vectors=embedder.embed_queries(asked), params=BY_MEANING)
            for response in (*given, *(search(store, query, params=BY_MEANING) for query in asked)):
                found.append([(hit.record.id, hit.similarity, hit.alignment.cosine) for hit in response.hits])
    usual, scaled = found[: len(found) // 2], found[len(found) // 2 :]
    for one, other in zip(usual, scaled, strict=True):
        assert [name for name, *_ in one] == [name for name, *_ in other]
        assert np.allclose([each[1:] for each in one], [each[1:] for each in other], atol=1e-3)
    assert len({similarity for _, similarity, _ in scaled[0]}) == len(NOTES)


def test_a_vector_without_a_direction_is_an_error() -> None:
    """Proves: STORE-5 (of a document and of a query; nothing is written)."""
    with MemoryStore.in_memory(embedder=Blank()) as store:
        store.upsert(NOTES)
        with pytest.raises(EmbedderError, match="word-hashes: a vector is all zeros"):
            store.upsert([{"id": "n4", "kind": "archival", "text": "There is nothing to say."}])
        assert store.count() == len(NOTES)
        with pytest.raises(EmbedderError, match="word-hashes: a vector is all zeros"):
            search(store, "nothing", params=BY_MEANING)
