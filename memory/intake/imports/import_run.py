"""Memories of another system into the store: looked through first, then written, in batches and idempotent."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from recall_loop.memory.intake.files.batch_writes import RejectsFile, WriteOptions, WriteSummary
from recall_loop.memory.intake.files.documents import FileIdTracker
from recall_loop.memory.intake.files.record_lines import export_line
from recall_loop.memory.intake.imports.external_memory import ImportItem, ImportSource
from recall_loop.memory.store.files.store_place import checked_file
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record, parse_record
from recall_loop.state.scope import Scope
from recall_loop.state.types import ContentType


@dataclass(frozen=True, slots=True)
class RejectedItem:
    """One item that can't be used: its number from 1, its location, and the reason."""

    number: int
    location: str
    reason: str
    raw: str


RejectedCallback = Callable[[RejectedItem], None] | None


@dataclass(slots=True)
class ImportSummary(WriteSummary):
    """The outcome of importing a source, in which `found` items are.

    `left_out` counts, by the reason, those that aren't wanted, `repeated` those that a later one with the same id
    replaces. `before` and `after` are the tenant's records by kind; the same where nothing was written. `missing`
    counts ids that were written and can't be read back: anything but 0 is a fault of the store.
    """

    description: str = ""
    found: int = 0
    repeated: int = 0
    missing: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)


def default_import_rejects_path(path: Path) -> Path:
    """Return where refused items go: `NAME.rejects.jsonl` in the current folder, since a source is never touched."""
    return Path(f"{path.resolve().name}.rejects.jsonl")


def preview_import(
    source: ImportSource, store: MemoryStore | None, options: WriteOptions, *, on_rejected: RejectedCallback = None
) -> ImportSummary:
    """Say what `import_source` would do, raising as it does, and write nothing; without a store all would be new."""
    began = time.monotonic()
    summary = ImportSummary(source.path, default_import_rejects_path(source.path), description=source.description)
    scope = Scope(tenant=options.tenant)
    repeated_ids = _survey(source, summary, on_rejected)
    for batch in _batches(source, repeated_ids, options.batch_size):
        known = {record.id: record for record in store.get([one.id for one in batch], scope=scope)} if store else {}
        new = sum(record.id not in known for record in batch)
        same = sum(record.id in known and export_line(known[record.id]) == export_line(record) for record in batch)
        summary.created += new
        summary.unchanged += same
        summary.replaced += len(batch) - new - same
    summary.before = summary.after = _counts(store, scope) if store else {}
    summary.seconds = time.monotonic() - began
    return summary


def import_source(
    source: ImportSource,
    store: MemoryStore,
    options: WriteOptions,
    *,
    rejects_path: str | Path | None = None,
    on_rejected: RejectedCallback = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ImportSummary:
    """Write a source's items into the store.

    The source is read to its end before the first record is written, so that a damaged one leaves nothing half done.
    Ids are kept: a killed run can be run again, finds the written records unchanged and doesn't embed them again.
    `on_progress` is called with (records written, records in all) after each acknowledged batch.

    Raises:
        SourceError: the source can't be read to its end.
        InvalidInputError: the rejects file can't be one.
        StoreError: the store can't be written.
        OSError: the rejects file can't be written.
    """
    began = time.monotonic()
    target = checked_file(rejects_path or default_import_rejects_path(source.path), "rejects_path")
    summary = ImportSummary(source.path, target, description=source.description)
    rejects = _open_rejects(target, source.path)
    scope = Scope(tenant=options.tenant)
    rejected: list[tuple[int, str, str]] = []

    def reject(item: RejectedItem) -> None:
        rejected.append((item.number, f"{item.location}: {item.reason}", item.raw))
        if on_rejected:
            on_rejected(item)

    repeated_ids = _survey(source, summary, reject)
    summary.before = _counts(store, scope)
    rejects.drop_after(0)
    rejects.add(rejected)
    total = summary.found - summary.rejected - summary.repeated - summary.left_out.total()
    done = 0
    for batch in _batches(source, repeated_ids, options.batch_size):
        summary.write(batch, store, options.tenant)
        summary.missing += len(batch) - len(store.get([record.id for record in batch], scope=scope))
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
        raise InvalidInputError("rejects", str(path), "a file other than the source")
    return RejectsFile(path, source)


def _survey(source: ImportSource, summary: ImportSummary, on_rejected: RejectedCallback) -> set[str]:
    """Read the source to its end and count; return the ids that it gives more than once."""
    ids = FileIdTracker()
    repeated: set[str] = set()
    for number, item in enumerate(source.items(), start=1):
        summary.found += 1
        if item.left_out is not None:
            summary.left_out[item.left_out] += 1
            continue
        record = _record(item)
        if isinstance(record, str):
            summary.rejected += 1
            if on_rejected:
                on_rejected(RejectedItem(number, item.location, record, item.raw))
        elif ids.earlier_line(record.id, number) is not None:
            summary.repeated += 1
            repeated.add(record.id)
    return repeated


def _batches(source: ImportSource, repeated_ids: set[str], size: int) -> Iterator[list[Record]]:
    records = _unique_records(source, repeated_ids)
    return iter(lambda: list(islice(records, size)), [])


def _unique_records(source: ImportSource, repeated_ids: set[str]) -> Iterator[Record]:
    """Yield the records to write, each id once: of several items with one id the last counts."""
    last: dict[str, Record] = {}
    for item in source.items():
        record = None if item.left_out is not None else _record(item)
        if isinstance(record, Record):
            if record.id in repeated_ids:
                last[record.id] = record
            else:
                yield record
    yield from last.values()


def _record(item: ImportItem) -> Record | str:
    """Return an item as a record, or why it is none."""
    if item.fields is None:
        return item.reason or "not usable"
    try:
        return parse_record(item.fields)
    except InvalidInputError as error:
        return str(error)


def _counts(store: MemoryStore, scope: Scope) -> dict[str, int]:
    return {kind.value: store.count(scope, content_types=[kind]) for kind in ContentType}
