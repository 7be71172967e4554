"""Stores filled from data sets, with embeddings kept between runs; questions of one collection asked of another."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from cachetools import LRUCache

from recall_loop.evals.datasets.dataset_parts import Dataset, LabelledQuestion
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.embed.embedders import ConversationalEmbedder, Embedder, TokenEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


_MAX_CACHED = 2000  # with token vectors some 25 kB each


class CachingEmbedder:
    """The given embedder; a query that was among the last 2,000 isn't embedded again."""

    def __init__(self, inner: Embedder) -> None:
        self.name, self.dimension, self.fingerprint = inner.name, inner.dimension, inner.fingerprint
        self._inner = inner
        self._vectors: LRUCache[str, Any] = LRUCache(_MAX_CACHED)
        self._lock = Lock()
        if isinstance(inner, ConversationalEmbedder):
            self.conversational = inner.conversational  # it embeds stored texts, which are not cached

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per stored text."""
        return self._inner.embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per query."""
        found = self._cached(self._vectors, texts, self._inner.embed_queries)
        return self._matrix([found[text] for text in texts])

    def _matrix(self, rows: Sequence[Vectors]) -> Vectors:
        return np.stack(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)

    def _cached(
        self, cache: LRUCache[str, Any], texts: Sequence[str], make: Callable[[list[str]], Iterable[Any]]
    ) -> dict[str, Any]:
        """Return the vector of each text; missing ones are computed in one call."""
        with self._lock:
            found = {text: cache[text] for text in texts if text in cache}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            made = dict(zip(missing, make(missing), strict=True))
            found |= made
            with self._lock:
                cache.update(made)
        return found


class CachingTokenEmbedder(CachingEmbedder):
    """The same around an embedder that gives token vectors too."""

    def __init__(self, inner: TokenEmbedder) -> None:
        super().__init__(inner)
        self.token_dimension = inner.token_dimension
        self._token_embedder = inner
        self._both: LRUCache[str, Any] = LRUCache(_MAX_CACHED)

    def embed_documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
        """Return one unit vector and the token vectors of each stored text."""
        return self._token_embedder.embed_documents_with_tokens(texts)

    def embed_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
        """Return one unit vector and the token vectors of each query."""
        found = self._cached(self._both, texts, self._embedded_with_tokens)
        return self._matrix([found[text][0] for text in texts]), [found[text][1] for text in texts]

    def _embedded_with_tokens(self, texts: list[str]) -> Iterable[tuple[Vectors, Vectors]]:
        return zip(*self._token_embedder.embed_queries_with_tokens(texts), strict=True)


def with_query_cache(inner: Embedder) -> CachingEmbedder:
    """Return `inner` with a memory for queries; with token vectors if it gives any."""
    return CachingTokenEmbedder(inner) if isinstance(inner, TokenEmbedder) else CachingEmbedder(inner)


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

    Raises:
        InvalidInputError: a record is rejected, or a tenant holds records of something else, which
            every question would search too.
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
    """Return a data set each of whose collections is also asked `count` questions of the next one.

    They are drawn with `seed` from those that can be scored, count as unanswerable, and have the category "foreign".

    Raises:
        InvalidInputError: there is only one collection, so that no question is foreign anywhere.
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
