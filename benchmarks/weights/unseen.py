"""Stores of labelled sets whose messages are embedded by weights that never saw their conversation.

The embedder's weights for talk learned from LoCoMo's development part, so figures of it are taken with others:
`tune_embedder.py --without K` leaves every sixth conversation out, and these conversations are embedded with what it
wrote. Questions are embedded in the same way in all six, so one store can hold them all.
"""

from __future__ import annotations

from pathlib import Path

from tuning_examples import PARTS, fold_of

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.runs.dataset_ingest import ingest
from recall_loop.memory.store.embed.minilm import MINILM_FINGERPRINT, MiniLmEmbedder, MiniLmModel
from recall_loop.memory.store.embed.weight_patch import WeightPatch
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope

LEARNED_FROM = ("locomo",)


class UnseenEmbedder(MiniLmEmbedder):
    """The embedded default, with the weights for talk that a conversation calls for.

    Args:
        folder: holds `without-0.npz` … `without-5.npz`.
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


def open_unseen(place: Path, folder: Path | None) -> MemoryStore:
    """Open the store in `place`; without a folder of weights, with the ones that ship."""
    return MemoryStore.open(place, embedder=UnseenEmbedder(folder) if folder else MiniLmEmbedder())


def fill_store(store: MemoryStore, dataset: Dataset) -> None:
    """Write a set to a store that has nothing of it yet."""
    if store.count(Scope(tenant=next(iter(dataset.collections)))):
        return
    for name in dataset.collections:
        if isinstance(store.embedder, UnseenEmbedder):
            store.embedder.use_weights_for(dataset, name)
        ingest(store, dataset, [name])
