"""Embedders of LangChain as embedders of the store (GRAPH-3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.embed.embedders import normalise_vectors, remote_error, validate_vectors
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from recall_loop.memory.store.embed.embedders import FloatMatrix

# Attributes in which LangChain's classes keep the name of their model.
_NAMES = ("model", "model_name", "model_id", "deployment", "repo_id")
_PARALLEL_QUERIES = 8


class LangChainEmbedder:
    """Any LangChain `Embeddings` object as an embedder of the store.

    Args:
        embeddings: the object.
        fingerprint: name and version of the model; two whose vectors can't be compared must differ in it. Absent = the
            name of the class and of its model; for OpenAI's that of `OpenAIEmbedder`, so that a store can be opened
            with either.
        dimension: length of the vectors; absent = found out by embedding one word when first needed.

    Raises:
        InvalidInputError: `embeddings` is no `Embeddings`, or `fingerprint` is blank.
    """

    def __init__(self, embeddings: Embeddings, fingerprint: str | None = None, dimension: int | None = None) -> None:
        from langchain_core.embeddings import Embeddings as Interface

        given: object = embeddings
        if not isinstance(given, Interface):
            raise InvalidInputError("embeddings", type(given).__name__, "an object of LangChain's Embeddings")
        if fingerprint is not None and not fingerprint.strip():
            raise InvalidInputError("fingerprint", fingerprint, "a text that names the model and its version")
        self.embeddings = embeddings
        self.name = type(embeddings).__name__
        self.fingerprint = fingerprint or _fingerprint(embeddings)
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        """Length of a vector; the first use embeds one word."""
        if self._dimension is None:
            self._dimension = int(self.embed_queries(["dimension"]).shape[1])
        return self._dimension

    def embed_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors. Raises `EmbedderError` when the embedder fails."""
        return self._embed(texts, self.embeddings.embed_documents)

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors. Raises `EmbedderError` when the embedder fails."""
        # OpenAI's models embed queries like documents, of which one request takes many.
        return self._embed(texts, self.embeddings.embed_documents if _is_openai(self.embeddings) else self._one_by_one)

    def _one_by_one(self, texts: list[str]) -> list[list[float]]:
        if len(texts) == 1:
            return [self.embeddings.embed_query(texts[0])]
        with ThreadPoolExecutor(min(len(texts), _PARALLEL_QUERIES)) as pool:
            return list(pool.map(self.embeddings.embed_query, texts))

    def _embed(self, texts: Sequence[str], embed: Callable[[list[str]], list[list[float]]]) -> FloatMatrix:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        try:
            made = embed(list(texts))
        except Exception as error:
            raise remote_error(self.fingerprint, error, self.name) from error
        dimension = self._dimension or len(next(iter(made), ()))
        return normalise_vectors(validate_vectors(self, made, len(texts), dimension))


def _is_openai(embeddings: object) -> bool:
    return any(each.__module__.startswith("langchain_openai.") for each in type(embeddings).__mro__)


def _fingerprint(embeddings: Any) -> str:
    """Return the name of the class and of its model, as far as it has one."""
    kind = type(embeddings)
    named = [
        value for value in (getattr(embeddings, name, None) for name in _NAMES) if value and isinstance(value, str)
    ]
    if not named:
        return f"{kind.__module__}.{kind.__qualname__}"
    dimensions = getattr(embeddings, "dimensions", None)
    parts = ["openai" if _is_openai(embeddings) else kind.__name__, named[0], str(dimensions) if dimensions else ""]
    return ":".join(filter(None, parts))
