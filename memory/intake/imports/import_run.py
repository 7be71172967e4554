"""Memories of another system into the store: looked through first, then written, in batches and idempotent."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from recall_loop.memory.intake.files.export import export_line
from recall_loop.memory.intake.files.ingest import DEFAULT_BATCH_SIZE, check_batch_size
from recall_loop.memory.intake.files.rejects import RejectsFile
from recall_loop.memory.intake.imports.external_memory import ImportItem, ImportSource
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Record
from recall_loop.state.scope import DEFAULT_TENANT, Scope
from recall_loop.state.types import ContentType


@dataclass(frozen=True, slots=True)
class RejectedItem:
    """One item that can't be used: its number from 1, where it stands, and why."""

    number: int
    location: str
    reason: str
    raw: str


@dataclass(slots=True)
class ImportSummary:
    """What became of a source's items.

    Attributes:
        path: the source.
        words: what it is.
        rejects_path: where refused items went.
        found: items in the source.
        left_out: items that aren't wanted, by reason.
        repeated: items that a later one with the same id replaces.
        before: the tenant's records by kind, before.
        after: the same afterwards; as `before` where nothing was written.
        missing: ids that were written and can't be read back. Anything but 0 is a fault of the store.
    """

    path: Path
    description: str
    rejects_path: Path
    found: int = 0
    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    rejected: int = 0
    repeated: int = 0
    missing: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to write: for which tenant, and how many records (1–5000) are acknowledged at a time."""

    tenant: str = DEFAULT_TENANT
    batch_size: int = DEFAULT_BATCH_SIZE

    def __post_init__(self) -> None:
        """Check the batch size (InvalidInputError)."""
        check_batch_size(self.batch_size)


def default_import_rejects_path(path: Path) -> Path:
    """Return where refused items go: `NAME.rejects.jsonl` in the current folder, since a source is never touched."""
    return Path(f"{path.resolve().name}.rejects.jsonl")


def preview_import(
    source: ImportSource,
    store: MemoryStore | None,
    options: ImportOptions,
    *,
    on_refused: Callable[[RejectedItem], None] | None = None,
) -> ImportSummary:
    """Say what `move` would do; nothing is written. Without a store everything would be new.

    Raises:
        SourceError: the source can't be read to its end.
        StoreError: the store can't be read.
    """
    began = time.monotonic()
    summary = ImportSummary(source.path, source.description, default_import_rejects_path(source.path))
    scope = Scope(tenant=options.tenant)
    twice = _survey(source, summary, on_refused)
    for batch in _batches(_unique_records(source, twice), options.batch_size):
        there = (
            {record.id: record for record in store.get([record.id for record in batch], scope=scope)} if store else {}
        )
        for record in batch:
            known = there.get(record.id)
            summary.created += known is None
            same = known is not None and export_line(known) == export_line(record)
            summary.unchanged += same
            summary.replaced += known is not None and not same
    summary.before = summary.after = _counts(store, scope) if store else {}
    summary.seconds = time.monotonic() - began
    return summary


def import_source(
    source: ImportSource,
    store: MemoryStore,
    options: ImportOptions,
    *,
    rejects_path: Path | None = None,
    on_refused: Callable[[RejectedItem], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ImportSummary:
    """Write a source's items into the store.

    The source is read to its end before the first record is written, so that one that is damaged leaves nothing
    half done. Ids stay what they are: a run that was killed is run again, finds what is there unchanged and doesn't
    embed it again. `on_progress` is told (records written, records in all) after each acknowledged batch.

    Raises:
        SourceError: the source can't be read to its end.
        InvalidInputError: the rejects file can't be one.
        StoreError: the store can't be written.
        OSError: the rejects file can't be written.
    """
    began = time.monotonic()
    summary = ImportSummary(source.path, source.description, rejects_path or default_import_rejects_path(source.path))
    rejects = _open_rejects(summary.rejects_path, source.path)
    scope = Scope(tenant=options.tenant)
    refused: list[RejectedItem] = []

    def refuse(bad: RejectedItem) -> None:
        refused.append(bad)
        if on_refused:
            on_refused(bad)

    twice = _survey(source, summary, refuse)
    summary.before = _counts(store, scope)
    rejects.drop_after(0)
    rejects.add([(bad.number, f"{bad.location}: {bad.reason}", bad.raw) for bad in refused])
    total = summary.found - summary.rejected - summary.repeated - sum(summary.left_out.values())
    done = 0
    for batch in _batches(_unique_records(source, twice), options.batch_size):
        _write(batch, store, options.tenant, scope, summary)
        done += len(batch)
        if on_progress:
            on_progress(done, max(total, done))
    summary.after = _counts(store, scope)
    summary.seconds = time.monotonic() - began
    return summary


def _open_rejects(path: Path, source: Path) -> RejectsFile:
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InvalidInputError("rejects", str(path), "a file in a folder that can be written")
    if path.is_dir() or path.resolve() == source.resolve():
        raise InvalidInputError("rejects", str(path), "another file than the source")
    return RejectsFile(path, source)


def _write(batch: list[Record], store: MemoryStore, tenant: str, scope: Scope, summary: ImportSummary) -> None:
    statuses = Counter(outcome.status for outcome in store.upsert(batch, tenant=tenant))
    summary.created += statuses["created"]
    summary.replaced += statuses["replaced"]
    summary.unchanged += statuses["unchanged"]
    summary.missing += len(batch) - len(store.get([record.id for record in batch], scope=scope))


def _survey(
    source: ImportSource, summary: ImportSummary, on_refused: Callable[[RejectedItem], None] | None
) -> set[bytes]:
    """Read the source to its end and count; return the ids that it gives more than once."""
    seen: set[bytes] = set()
    twice: set[bytes] = set()
    for number, item in enumerate(source.items(), start=1):
        summary.found += 1
        if item.left_out is not None:
            summary.left_out[item.left_out] += 1
            continue
        made = _record(item)
        if isinstance(made, str):
            summary.rejected += 1
            if on_refused:
                on_refused(RejectedItem(number, item.location, made, item.raw))
            continue
        key = _key(made.id)
        if key in seen:
            summary.repeated += 1
            twice.add(key)
        seen.add(key)
    return twice


def _unique_records(source: ImportSource, twice: set[bytes]) -> Iterator[Record]:
    """Yield the records to write, each id once: of several items with one id the last counts."""
    held: dict[str, Record] = {}
    for item in source.items():
        made = None if item.left_out is not None else _record(item)
        if isinstance(made, Record):
            if _key(made.id) in twice:
                held[made.id] = made
            else:
                yield made
    yield from held.values()


def _record(item: ImportItem) -> Record | str:
    if item.fields is None:
        return item.reason or "not usable"
    try:
        return validate_model(Record, item.fields)
    except InvalidInputError as error:
        return str(error)


def _batches(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
    while batch := list(islice(records, size)):
        yield batch


def _counts(store: MemoryStore, scope: Scope) -> dict[str, int]:
    return {kind.value: store.count(scope, content_types=[kind]) for kind in ContentType}


def _key(record_id: str) -> bytes:
    return hashlib.blake2b(record_id.encode(), digest_size=12).digest()
