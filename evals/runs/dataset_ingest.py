"""Write the collections of a data set into one store, each to a tenant of its own (OPS-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.runs.caching_embedder import with_query_cache
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings

StageProgress = Callable[[str, int, int], None]
"""Told a stage (`ingest` or `ask`), how much of it is done, and how much there is."""

_BATCH = 256


def open_eval_store(path: Path | None, settings: Settings, *, cache_queries: bool = False) -> MemoryStore:
    """Open the store in `path`, or one in memory, with the embedder that the settings name.

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
    total = sum(dataset.collections.size(name) for name in names)
    done = 0
    written: dict[str, int] = {}
    for name in names:
        ids: set[str] = set()
        for batch in _batches(dataset.collections.records(name)):
            _write(store, batch, name)
            ids.update(record.id for record in batch)
            done += len(batch)
            if progress:
                progress("ingest", done, total)
        _require_only(store, name, len(ids))
        written[name] = len(ids)
    return written


def _write(store: MemoryStore, batch: list[Record], tenant: str) -> None:
    for outcome in store.upsert(batch, tenant=tenant):
        if outcome.status == "rejected":
            raise InvalidInputError(f"{tenant}.{outcome.id}", outcome.error, "a record that the store takes")


def _require_only(store: MemoryStore, tenant: str, records: int) -> None:
    held = store.count(Scope(tenant=tenant))
    if held != records:
        allowed = f"an empty store, or one where {tenant!r} holds only the {records} records of this run"
        raise InvalidInputError("store", f"{held} records in {tenant!r}", allowed)


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    iterator = iter(records)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
