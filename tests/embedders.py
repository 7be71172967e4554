"""Embedders for tests: one for those in which meaning doesn't matter, and the real one, which remembers."""

from __future__ import annotations

import hashlib
import threading
from functools import lru_cache

import numpy as np
from cachetools import LRUCache

from recall_loop.memory.store.embed.minilm import MiniLmEmbedder, MiniLmModel


@lru_cache(maxsize=4096)
def word_direction(word, dimension):
    """Return a word's direction, as its hash draws it."""
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dimension)


class WordHashEmbedder:
    """A small real embedder: each word adds its hash's direction."""

    name, dimension, fingerprint = "word-hashes", 32, "word-hashes:1"

    def embed_documents(self, texts):
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row] += word_direction(word, self.dimension)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9).astype(np.float32)

    embed_queries = embed_documents


class RememberingModel(MiniLmModel):
    """The real model, run once for each text: eight of nine texts that the graph's tests write and ask come again.

    A text has the same vectors in any batch. The tests of the model itself, that one among them, ask one that
    remembers nothing.
    """

    def __init__(self, *given):
        super().__init__(*given)
        self._known = LRUCache(100_000_000, lambda made: made[0].nbytes + made[1].nbytes)
        self._lock = threading.Lock()

    def _embedded(self, texts, tokens, *, query):
        with self._lock:
            found = {text: self._known[text] for text in texts if text in self._known}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        matrices = []
        vectors = super()._embedded(new, matrices, query=query)
        made = {text: (vectors[at].copy(), matrices[at]) for at, text in enumerate(new)}
        with self._lock:
            self._known.update(made)
        found |= made
        if tokens is not None:
            tokens.extend(found[text][1].copy() for text in texts)
        return np.stack([found[text][0] for text in texts]) if texts else vectors


class RememberingEmbedder(RememberingModel, MiniLmEmbedder):
    """The embedded default of such models."""

    def __init__(self):
        super().__init__()
        self.conversational = RememberingModel(self.conversational._weights)
