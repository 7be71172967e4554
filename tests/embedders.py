"""An embedder for tests in which meaning doesn't matter."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np


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
