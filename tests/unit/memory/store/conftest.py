"""The tests of the embedders ask the model itself."""

from __future__ import annotations

import pytest

from recall_loop.memory.store.embed.minilm import MiniLmEmbedder


@pytest.fixture(scope="session")
def embedder() -> MiniLmEmbedder:
    """The real embedder, which remembers nothing."""
    return MiniLmEmbedder()
