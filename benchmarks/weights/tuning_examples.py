"""What `tune_embedder.py` learns from: labelled questions of talk, and the facts that were taken from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.runs.dataset_ingest import ingest
from recall_loop.memory.search.engine import search_many
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.encoding.indexing import index_text
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType

PARTS = 2
POOL = 40  # results of the untuned search that negatives are drawn from


@dataclass(frozen=True)
class TuningExample:
    """A question or fact, the records that it should be near, and those that it should not."""

    group: str
    text: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


def fold_of(collections: Iterable[str], collection: str) -> int:
    """Return which part a conversation belongs to, in the order of their names; `fit_order.py` has the same ones."""
    return sorted(collections).index(collection) % PARTS


def tuning_examples(folders: Sequence[Path], without: int | None) -> tuple[list[TuningExample], dict[str, str]]:
    """Return what is learned from talk, and the texts of all messages by id."""
    found: list[TuningExample] = []
    texts: dict[str, str] = {}
    for folder in folders:
        dataset = load_dataset(folder, "messages")
        names = list(dataset.collections)
        texts |= {each.id: index_text(each.model_dump()) for key in names for each in dataset.collections[key]}
        with MemoryStore.in_memory(embedder=MiniLmEmbedder(None)) as store:
            ingest(store, dataset, names)
            for question in dataset.questions:
                if question.scored and fold_of(names, question.collection) != without:
                    near = neighbours(store, question.question, question.collection)
                    found.append(
                        example(f"{folder.name}:{question.collection}", question.question, question.gold, near)
                    )
        found += stated(folder, names, without)
    return [each for each in found if each.positives], texts


def stated(folder: Path, names: Sequence[str], without: int | None) -> Iterator[TuningExample]:
    """Yield the facts of conversations, where a set has some: they should be near the messages that they come from."""
    both = load_dataset(folder, "messages+facts")
    for name in names:
        if fold_of(names, name) == without:
            continue
        records = list(both.collections[name])
        held = [each.id for each in records if each.kind is ContentType.MESSAGE]
        for each in records:
            if each.kind is ContentType.FACT:
                wanted = [source for source in each.source_ids if source in held]
                yield example(f"{folder.name}:{name}", each.text, wanted, held)


def neighbours(store: MemoryStore, text: str, collection: str) -> list[str]:
    """Return the ids of what the untuned search finds."""
    options = SearchParams(limit=POOL, rerank_learned=False)
    found = search_many(store, [text], scope=Scope(tenant=collection), params=options)
    return [hit.record.id for each in found for hit in each.hits]


def example(group: str, text: str, wanted: Sequence[str], near: Sequence[str]) -> TuningExample:
    """Return one example; what is wanted is no negative."""
    return TuningExample(group, text, tuple(wanted), tuple(each for each in near if each not in wanted))
