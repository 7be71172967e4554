"""The embedder that settings name."""

from __future__ import annotations

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
