"""Embedders whose weights for talk never saw the conversation that they embed.

The embedder's weights for talk learned from the conversations that were written for this project, so what is fitted on
their searches uses others: `tune_embedder.py --without K` leaves every second conversation out, and these
conversations are embedded with what it wrote.
"""

from __future__ import annotations

from pathlib import Path

from tuning_examples import PARTS, fold_of

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.embed.minilm import MINILM_FINGERPRINT, MiniLmEmbedder, MiniLmModel
from recall_loop.memory.store.embed.weight_patch import WeightPatch

LEARNED_FROM = ("talk",)


class UnseenEmbedder(MiniLmEmbedder):
    """The embedded default, with the weights for talk that a conversation calls for.

    Args:
        folder: holds `without-0.npz` and `without-1.npz`.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.fingerprint = f"{MINILM_FINGERPRINT}+unseen"
        self._own = self.conversational
        self._parts = [MiniLmModel(WeightPatch.from_file(folder / f"without-{part}.npz")) for part in range(PARTS)]

    def use_weights_for(self, dataset: Dataset, name: str) -> None:
        """Embed messages from now on with weights that never saw this conversation."""
        learned = dataset.name in LEARNED_FROM
        self.conversational = self._parts[fold_of(list(dataset.collections), name)] if learned else self._own


def unseen_embedder(folder: Path | None) -> Embedder:
    """Return the embedder for figures and fits; without a folder of weights, the one that ships."""
    return UnseenEmbedder(folder) if folder else MiniLmEmbedder()
