"""The embedder that settings name, and how many processors it may use."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from recall_loop.llm.endpoint.providers import OPENAI, make_by_provider
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.embed.langchain_embedder import LangChainEmbedder, OpenAIEmbedder
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.embed.multilingual import MultilingualEmbedder
from recall_loop.memory.store.embed.onnx_folder import OnnxEmbedder
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import DEFAULT_OPENAI_MODEL, DEFAULT_OPENAI_TIMEOUT, EMBEDDER_NAMES, validate_embedder_name

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from recall_loop.state.settings.settings import Settings

ONNX_PREFIX = "onnx:"


def make_embedder(settings: Settings | None = None) -> Embedder:
    """Return the embedder that `settings` name; without settings the embedded default.

    Raises:
        InvalidInputError: tuned weights that can't be read, or are given beside an embedder that has no use for them; a
            provider that isn't known, or a package or model folder that isn't there.
    """
    if settings is None:
        return MiniLmEmbedder()
    weights, name = settings.minilm_weights, settings.embedder
    if weights is not None:
        if name != "minilm":
            raise InvalidInputError("minilm_weights", weights, f"no value together with embedder={name}")
        return MiniLmEmbedder(Path(weights))
    given = (settings.openai_model, settings.openai_base_url, settings.openai_api_key, settings.openai_timeout_seconds)
    return _named_embedder(name, *given)


def as_embedder(given: Embedder | Embeddings | str | None, settings: Settings | None = None) -> Embedder:
    """Return what a caller gives as an embedder, as the store needs it.

    `given` is an `Embedder`, an object of LangChain's `Embeddings`, or a name as the setting `embedder` takes it;
    None = the embedder of `settings`.

    Raises:
        InvalidInputError: it is none of these, or a name that no embedder has.
    """
    if given is None:
        return make_embedder(settings)
    if isinstance(given, str):
        try:
            validate_embedder_name(given)
        except ValueError as error:
            raise InvalidInputError("embedder", given, str(error)) from error
        if settings is not None:
            return make_embedder(settings.model_copy(update={"embedder": given}))
        return _named_embedder(given)
    if callable(getattr(given, "embed_queries", None)):
        return cast("Embedder", given)
    if callable(getattr(given, "embed_query", None)):
        return LangChainEmbedder(cast("Embeddings", given))
    allowed = f"an Embedder, an object of LangChain's Embeddings, or a name: {EMBEDDER_NAMES}"
    raise InvalidInputError("embedder", type(given).__name__, allowed)


def _named_embedder(
    name: str,
    openai_model: str = DEFAULT_OPENAI_MODEL,
    openai_url: str | None = None,
    openai_key: str | None = None,
    openai_timeout: float = DEFAULT_OPENAI_TIMEOUT,
) -> Embedder:
    if name == "minilm":
        return MiniLmEmbedder()
    if name == "minilm-plain":
        return MiniLmEmbedder(None, glosses=0)
    if name == "multilingual":
        return MultilingualEmbedder()
    if name.startswith(ONNX_PREFIX):
        return OnnxEmbedder(Path(name.removeprefix(ONNX_PREFIX)).expanduser())
    provider, _, model = name.partition(":")
    if provider == OPENAI:
        return OpenAIEmbedder(model or openai_model, openai_url, openai_key, query_seconds=openai_timeout)
    from langchain.embeddings import init_embeddings

    return LangChainEmbedder(make_by_provider("embedder", name, partial(init_embeddings, name)))


# Matrix products take every processor too, unless these say otherwise before numpy is imported.
_BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def available_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processors_per_process(processes: int) -> int:
    """Return how many processors each of so many processes takes, at least 1."""
    return max(1, available_processors() // processes)


def thread_environment(count: int) -> dict[str, str]:
    """Return the variables that let a process which is started with them use `count` processors for matrix products."""
    return dict.fromkeys(_BLAS_THREADS, str(count))
