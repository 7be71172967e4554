"""An embedder that keeps what it made of recent queries, for runs that ask the same ones again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from cachetools import LRUCache

from recall_loop.memory.store.embed.embedders import ConversationalEmbedder, Embedder, TokenEmbedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

_MOST = 2000  # with token vectors some 25 kB each


class CachingEmbedder:
    """The given embedder; a query that was among the last 2,000 isn't embedded again."""

    def __init__(self, inner: Embedder) -> None:
        self.name, self.dimension, self.fingerprint = inner.name, inner.dimension, inner.fingerprint
        self._inner = inner
        self._vectors: LRUCache[str, Any] = LRUCache(_MOST)
        self._lock = Lock()
        if isinstance(inner, ConversationalEmbedder):
            self.conversational = inner.conversational  # it embeds what is stored, which nothing remembers

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per stored text."""
        return self._inner.embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per query."""
        found = self._cached(self._vectors, texts, self._inner.embed_queries)
        return self._matrix([found[text] for text in texts])

    def _matrix(self, rows: Sequence[Vectors]) -> Vectors:
        return np.stack(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)

    def _cached(
        self, cache: LRUCache[str, Any], texts: Sequence[str], make: Callable[[list[str]], Iterable[Any]]
    ) -> dict[str, Any]:
        """Return what was made of each text; what is missing is made in one call."""
        with self._lock:
            found = {text: cache[text] for text in texts if text in cache}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            made = dict(zip(missing, make(missing), strict=True))
            found |= made
            with self._lock:
                cache.update(made)
        return found


class CachingTokenEmbedder(CachingEmbedder):
    """The same around an embedder that gives token vectors too."""

    def __init__(self, inner: TokenEmbedder) -> None:
        super().__init__(inner)
        self.token_dimension = inner.token_dimension
        self._token_embedder = inner
        self._both: LRUCache[str, Any] = LRUCache(_MOST)

    def embed_documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
        """Return one unit vector and the token vectors of each stored text."""
        return self._token_embedder.embed_documents_with_tokens(texts)

    def embed_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
        """Return one unit vector and the token vectors of each query."""
        found = self._cached(self._both, texts, self._embedded_with_tokens)
        return self._matrix([found[text][0] for text in texts]), [found[text][1] for text in texts]

    def _embedded_with_tokens(self, texts: list[str]) -> Iterable[tuple[Vectors, Vectors]]:
        return zip(*self._token_embedder.embed_queries_with_tokens(texts), strict=True)


def with_query_cache(inner: Embedder) -> CachingEmbedder:
    """Return `inner` with a memory for queries; with token vectors if it gives any."""
    return CachingTokenEmbedder(inner) if isinstance(inner, TokenEmbedder) else CachingEmbedder(inner)
