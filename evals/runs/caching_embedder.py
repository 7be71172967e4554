"""An embedder that keeps what it made of recent queries, for runs that ask the same ones again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

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
        self._vectors: OrderedDict[str, Any] = OrderedDict()
        self._lock = Lock()
        if isinstance(inner, ConversationalEmbedder):
            self.conversational = inner.conversational  # it embeds what is stored, which nothing remembers

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per stored text."""
        return self._inner.embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per query."""
        found = self._known(self._vectors, texts, self._inner.embed_queries)
        return self._matrix([found[text] for text in texts])

    def _matrix(self, rows: Sequence[Vectors]) -> Vectors:
        return np.stack(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)

    def _known(
        self, kept: OrderedDict[str, Any], texts: Sequence[str], make: Callable[[list[str]], Any]
    ) -> dict[str, Any]:
        """Return what was made of each text; what is missing is made at once, and the oldest goes."""
        with self._lock:
            found = {text: kept[text] for text in texts if text in kept}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            found |= zip(missing, make(missing), strict=True)
        with self._lock:
            for text in found:
                kept[text] = found[text]
                kept.move_to_end(text)
            while len(kept) > _MOST:
                kept.popitem(last=False)
        return found


class CachingTokenEmbedder(CachingEmbedder):
    """The same around an embedder that gives token vectors too."""

    def __init__(self, inner: TokenEmbedder) -> None:
        super().__init__(inner)
        self.token_dimension = inner.token_dimension
        self._tokens_of = inner
        self._both: OrderedDict[str, Any] = OrderedDict()

    def embed_documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
        """Return one unit vector and the token vectors of each stored text."""
        return self._tokens_of.embed_documents_with_tokens(texts)

    def embed_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
        """Return one unit vector and the token vectors of each query."""
        found = self._known(self._both, texts, self._made)
        return self._matrix([found[text][0] for text in texts]), [found[text][1] for text in texts]

    def _made(self, texts: list[str]) -> list[tuple[Vectors, Vectors]]:
        vectors, tokens = self._tokens_of.embed_queries_with_tokens(texts)
        return list(zip(vectors, tokens, strict=True))


def with_query_cache(inner: Embedder) -> CachingEmbedder:
    """Return `inner` with a memory for queries; with token vectors if it gives any."""
    return CachingTokenEmbedder(inner) if isinstance(inner, TokenEmbedder) else CachingEmbedder(inner)
