"""Embedders of LangChain as embedders of the store (GRAPH-3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from recall_loop.llm.endpoint.providers import NO_KEY, forget_openai_environment, is_foreign
from recall_loop.memory.store.embed.embedders import FloatMatrix, embedder_errors, validate_vectors
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.run.patience import patience
from recall_loop.state.types import DEFAULT_OPENAI_TIMEOUT

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_openai import OpenAIEmbeddings

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
        self.name = self._shown = type(embeddings).__name__
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
        return self._embed(texts, lambda client, given: client.embed_documents(given))

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors. Raises `EmbedderError` when the embedder fails."""
        return self._embed(texts, _embedded_queries)

    @property
    def _client(self) -> Embeddings:
        return self.embeddings

    def _embed(self, texts: Sequence[str], embed: Callable[[Embeddings, list[str]], list[list[float]]]) -> FloatMatrix:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        with embedder_errors(self.fingerprint, self._shown, retried=_tries(self._client) > 1):
            made = embed(self._client, list(texts))
        dimension = self._dimension or len(next(iter(made), ()))
        return validate_vectors(self, made, len(texts), dimension)


def _embedded_queries(embeddings: Embeddings, texts: list[str], usual: float | None = None) -> list[list[float]]:
    if _is_openai(embeddings):  # it embeds queries like documents, of which one request takes many
        return cast("OpenAIEmbeddings", embeddings).embed_documents(texts, **_time_limit(embeddings, usual))
    if len(texts) == 1:
        return [embeddings.embed_query(texts[0])]
    with ThreadPoolExecutor(min(len(texts), _PARALLEL_QUERIES)) as pool:
        return list(pool.map(embeddings.embed_query, texts))


def _time_limit(embeddings: object, usual: float | None) -> dict[str, Any]:
    """Return the maximum seconds of one try at OpenAI: all take no longer than is left, and pauses come on top."""
    own = usual or getattr(embeddings, "request_timeout", None)
    if own is not None and not isinstance(own, int | float):
        return {}  # limits of connecting and reading, each of its own
    seconds = min(own or math.inf, patience(math.inf) / _tries(embeddings))
    return {"timeout": seconds} if math.isfinite(seconds) else {}


def _tries(embeddings: object) -> int:
    """Return how often a client sends a request that fails."""
    more = getattr(embeddings, "max_retries", 0)
    return 1 + (more if isinstance(more, int) else 0)


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


class OpenAIEmbedder(LangChainEmbedder):
    """An OpenAI-compatible embeddings endpoint, through `langchain_openai`.

    Args:
        model: name of the embedding model.
        base_url: endpoint; absent = OpenAI's. With one, texts are sent as text: counting their
            tokens first would download an encoding.
        api_key: key of the endpoint; absent = for OpenAI's address that of `OPENAI_API_KEY`, for another none.
        dimension: length of the vectors; asked of the endpoint and checked. Absent = found out by
            embedding one word when first needed.
        query_seconds: maximum of one request for vectors of queries, which is tried up to three times: somebody waits
            for them. A run's deadline shortens it. What is stored has the ten minutes of OpenAI's own client.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        dimension: int | None = None,
        query_seconds: float = DEFAULT_OPENAI_TIMEOUT,
    ) -> None:
        if not model.strip():
            raise InvalidInputError("openai_model", model, "the name of an embedding model")
        self.name, self.model = "openai", model
        self.fingerprint = self._shown = f"openai:{model}" + (f":{dimension}" if dimension else "")
        self._base_url, self._api_key = base_url, api_key
        self._asked = self._dimension = dimension
        self._query_seconds = query_seconds

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return unit vectors. Raises `EmbedderError` when the endpoint fails, or doesn't answer in time."""
        return self._embed(texts, partial(_embedded_queries, usual=self._query_seconds))

    @cached_property
    def _client(self) -> OpenAIEmbeddings:
        from langchain_openai import OpenAIEmbeddings

        foreign = is_foreign(self._base_url)
        key = self._api_key or (NO_KEY if foreign else None)
        given: dict[str, Any] = {"model": self.model, "base_url": self._base_url}
        given |= {"api_key": key} if key else {}
        given |= {"dimensions": self._asked} if self._asked else {}
        client = OpenAIEmbeddings(check_embedding_ctx_length=self._base_url is None, **given)
        if foreign:
            forget_openai_environment(client.client._client)
        return client
