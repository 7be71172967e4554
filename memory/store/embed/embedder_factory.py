"""The embedder that settings name, and how many processors it may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from recall_loop.memory.store.embed.embedders import Embedder, OpenAIEmbedder
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from recall_loop.state.settings.settings import Settings


def make_embedder(settings: Settings | None = None) -> Embedder:
    """Return the embedder that `settings` names; without settings the embedded default.

    Raises:
        InvalidInputError: tuned weights that can't be read, or are given beside an embedder that has no use for them.
    """
    if settings is None:
        return MiniLmEmbedder()
    weights = settings.minilm_weights
    if weights is not None and settings.embedder != "minilm":
        raise InvalidInputError("minilm_weights", weights, f"nothing beside embedder={settings.embedder}")
    if settings.embedder == "openai":
        return OpenAIEmbedder(settings.openai_model, settings.openai_base_url, settings.openai_api_key)
    if settings.embedder == "minilm-plain":
        return MiniLmEmbedder(None)
    return MiniLmEmbedder() if weights is None else MiniLmEmbedder(Path(weights))


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
