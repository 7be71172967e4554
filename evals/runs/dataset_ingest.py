"""Stores filled from data sets, with embeddings kept between runs; questions of one collection asked of another."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from cachetools import LRUCache

from recall_loop.evals.datasets.dataset_parts import Dataset, LabelledQuestion
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.embed.embedders import Embedder, TokenEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


_MAX_CACHED = 2000  # with token vectors some 25 kB each


def with_query_cache(inner: Embedder) -> Embedder:
    """Return a copy of an embedder that doesn't embed a query again that was among its last 2,000."""
    kept: Any = copy(inner)
    vectors = _remembering(inner.embed_queries)

    def matrix(rows: Sequence[Vectors]) -> Vectors:
        return np.stack(rows) if rows else np.zeros((0, inner.dimension), dtype=np.float32)

    kept.embed_queries = lambda texts: matrix(vectors(texts))
    if isinstance(inner, TokenEmbedder):
        both = _remembering(lambda texts: zip(*inner.embed_queries_with_tokens(texts), strict=True))

        def embed_queries_with_tokens(texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
            found = both(texts)
            return matrix([row for row, _ in found]), [tokens for _, tokens in found]

        kept.embed_queries_with_tokens = embed_queries_with_tokens
    return cast("Embedder", kept)


def _remembering(make: Callable[[list[str]], Iterable[Any]]) -> Callable[[Sequence[str]], list[Any]]:
    """Return a function that gives what `make` makes of each text; what is missing is made in one call."""
    cache, lock = LRUCache[str, Any](_MAX_CACHED), Lock()

    def remembered(texts: Sequence[str]) -> list[Any]:
        with lock:
            found = {text: cache[text] for text in texts if text in cache}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            made = dict(zip(missing, make(missing), strict=True))
            found |= made
            with lock:
                cache.update(made)
        return [found[text] for text in texts]

    return remembered


StageProgress = Callable[[str, int, int], None]
"""Called with a stage (`ingest` or `ask`), its progress, and its total."""

_BATCH = 256


def open_eval_store(path: str | Path | None, settings: Settings, *, cache_queries: bool = False) -> MemoryStore:
    """Open the store at `path`, or one in memory, with the embedder that the settings name.

    With `cache_queries` a query that was asked before isn't embedded again.
    """
    embedder = with_query_cache(make_embedder(settings)) if cache_queries else make_embedder(settings)
    if path is None:
        return MemoryStore.in_memory(embedder=embedder)
    return MemoryStore.open(path, embedder=embedder)


def ingest(
    store: MemoryStore, dataset: Dataset, names: Sequence[str], progress: StageProgress | None = None
) -> dict[str, int]:
    """Write the named collections, and return how many records each has.

    Raises `InvalidInputError` where a record is rejected, or a tenant holds records of something else, which every
    question would search too.
    """
    total = sum(len(dataset.collections[name]) for name in names)
    done = 0
    written: dict[str, int] = {}
    for name in names:
        ids: set[str] = set()
        records = iter(dataset.collections[name])
        while batch := list(islice(records, _BATCH)):
            store.upsert(batch, tenant=name)
            ids.update(record.id for record in batch)
            done += len(batch)
            if progress:
                progress("ingest", done, total)
        _require_only(store, name, len(ids))
        written[name] = len(ids)
    return written


def _require_only(store: MemoryStore, tenant: str, records: int) -> None:
    held = store.count(Scope(tenant=tenant))
    if held != records:
        allowed = f"an empty store, or one where {tenant!r} holds only the {records} records of this run"
        raise InvalidInputError("store", f"{held} records in {tenant!r}", allowed)


CROSS_COLLECTION = "foreign"


def with_cross_collection_questions(dataset: Dataset, count: int, seed: int = 0) -> Dataset:
    """Return a data set of two collections or more, each of which is also asked `count` questions of the next one.

    They are drawn with `seed` from those that can be scored, count as unanswerable, and have the category "foreign".
    """
    names = list(dataset.collections)
    if len(names) < 2:
        raise InvalidInputError("foreign", count, "a data set of two collections or more")
    return replace(dataset, questions=[*dataset.questions, *_foreign(dataset, names, count, random.Random(seed))])


def _foreign(dataset: Dataset, names: list[str], count: int, draw: random.Random) -> Iterator[LabelledQuestion]:
    for asked, other in zip(names, [*names[1:], names[0]], strict=True):
        known = [question for question in dataset.questions if question.collection == other and question.scored]
        for question in draw.sample(known, min(count, len(known))):
            yield LabelledQuestion(
                id=f"{asked}:{CROSS_COLLECTION}:{question.id}",
                collection=asked,
                question=question.question,
                category=CROSS_COLLECTION,
                answerable=False,
            )
