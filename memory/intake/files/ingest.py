"""Files into the memory store: streamed, in batches, idempotent and resumable."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from recall_loop.memory.intake.files.formats import FileEntry, iter_entries
from recall_loop.memory.intake.files.ingest_checkpoint import Checkpoint, CheckpointPosition
from recall_loop.memory.intake.files.lines import InvalidLine
from recall_loop.memory.intake.files.rejects import RejectsFile
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.scope import DEFAULT_TENANT

DEFAULT_BATCH_SIZE = 1000
MAX_BATCH_SIZE = 5000


@dataclass(frozen=True, slots=True)
class IngestProblem:
    """One line that was rejected, or (not `rejected`) one that replaces an earlier line's record."""

    path: Path
    line: int
    reason: str
    rejected: bool = True


@dataclass(slots=True)
class IngestSummary:
    """What became of one file. `skipped_lines` were in the store already when a run was resumed."""

    path: Path
    rejects_path: Path
    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    rejected: int = 0
    duplicates: int = 0
    skipped_lines: int = 0
    seconds: float = 0.0

    @property
    def stored(self) -> int:
        """Records that this run wrote or found unchanged."""
        return self.created + self.replaced + self.unchanged


def check_batch_size(size: int) -> None:
    """Refuse a number of records that can't be acknowledged at a time (InvalidInputError)."""
    if not 1 <= size <= MAX_BATCH_SIZE:
        raise InvalidInputError("batch_size", size, f"an integer from 1 to {MAX_BATCH_SIZE}")


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How to read: `batch_size` lines (1–5000) are acknowledged at a time."""

    tenant: str = DEFAULT_TENANT
    format_name: str = "records"
    batch_size: int = DEFAULT_BATCH_SIZE
    resume: bool = True

    def __post_init__(self) -> None:
        """Check the batch size (InvalidInputError)."""
        check_batch_size(self.batch_size)


def default_rejects_path(path: Path) -> Path:
    """Return where the rejected lines of `path` go: `FILE.rejects.jsonl` beside it."""
    return path.with_name(f"{path.name}.rejects.jsonl")


def ingest_file(
    path: Path,
    store: MemoryStore,
    options: IngestOptions | None = None,
    *,
    rejects_path: Path | None = None,
    on_problem: Callable[[IngestProblem], None] | None = None,
    on_progress: Callable[[int, int | None], None] | None = None,
) -> IngestSummary:
    """Write the records of a file into the store; lines that can't be used go to the rejects file.

    Running it again, after a kill or to the end, gives the same store: ids are stable and writes are
    upserts. `on_progress` is told (line number, byte offset or None) after each acknowledged batch.

    Raises:
        InvalidInputError: the format or an option is not allowed.
        StoreError: the store can't be written.
        OSError: a file can't be read or written.
    """
    chosen = options or IngestOptions()
    target = rejects_path or default_rejects_path(path)
    if target.resolve() == path.resolve():
        raise InvalidInputError("rejects", str(target), "another file than the input")
    run = _FileIngest(path, store, chosen, IngestSummary(path, target), on_problem or _ignore_problem)
    began = time.monotonic()
    start = run.start()
    for batch in _in_batches(run.remaining(start), chosen.batch_size):
        mark = run.write(batch)
        if on_progress:
            on_progress(mark.line, batch[-1].end)
    run.finish()
    run.summary.seconds = time.monotonic() - began
    return run.summary


@dataclass(slots=True)
class _FileIngest:
    """One file on its way into the store."""

    path: Path
    store: MemoryStore
    options: IngestOptions
    summary: IngestSummary
    on_problem: Callable[[IngestProblem], None]
    checkpoint: Checkpoint | None = field(init=False, default=None)
    rejects: RejectsFile = field(init=False)

    def __post_init__(self) -> None:
        self.rejects = RejectsFile(self.summary.rejects_path, self.path)
        place = self.store.path
        if place is not None and self.path.is_file():  # a pipe can't be read again from where it broke
            self.checkpoint = Checkpoint(Path(place), self.path, self.options.tenant, self.options.format_name)

    def start(self) -> CheckpointPosition:
        mark = self.checkpoint.load() if self.checkpoint and self.options.resume else CheckpointPosition()
        self.rejects.drop_after(mark.line)
        self.summary.skipped_lines = mark.line
        return mark

    def remaining(self, start: CheckpointPosition) -> Iterator[FileEntry]:
        """Yield what comes after `start`; earlier lines are read for their ids only."""
        for entry in iter_entries(self.path, self.options.format_name):
            if entry.end is None or entry.end > start.offset:
                yield entry

    def write(self, batch: list[FileEntry]) -> CheckpointPosition:
        """Store a batch, report its bad lines, and only then move the checkpoint."""
        good = [(entry, entry.outcome) for entry in batch if isinstance(entry.outcome, Record)]
        bad = [(entry, entry.outcome.reason) for entry in batch if isinstance(entry.outcome, InvalidLine)]
        outcomes = self.store.upsert([record for _, record in good], tenant=self.options.tenant) if good else []
        statuses = Counter(outcome.status for outcome in outcomes)
        bad += [(good[item.index][0], item.error or "") for item in outcomes if item.status == "rejected"]
        self.summary.created += statuses["created"]
        self.summary.replaced += statuses["replaced"]
        self.summary.unchanged += statuses["unchanged"]
        self._report(batch, sorted(bad, key=lambda pair: pair[0].line))
        mark = CheckpointPosition(batch[-1].end or 0, batch[-1].line)
        if self.checkpoint and batch[-1].end is not None:
            self.checkpoint.save(mark)
        return mark

    def finish(self) -> None:
        if self.checkpoint:
            self.checkpoint.clear()

    def _report(self, batch: list[FileEntry], bad: list[tuple[FileEntry, str]]) -> None:
        self.rejects.add([(entry.line, reason, entry.raw) for entry, reason in bad])
        self.summary.rejected += len(bad)
        for entry, reason in bad:
            self.on_problem(IngestProblem(self.path, entry.line, reason))
        for entry in batch:
            if entry.duplicate_of_line is not None and isinstance(entry.outcome, Record):
                self.summary.duplicates += 1
                reason = f"id {entry.outcome.id!r} stands on line {entry.duplicate_of_line} too; this later line wins"
                self.on_problem(IngestProblem(self.path, entry.line, reason, rejected=False))


def _in_batches(items: Iterable[FileEntry], size: int) -> Iterator[list[FileEntry]]:
    batch: list[FileEntry] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _ignore_problem(_: IngestProblem) -> None:
    """Report to nobody."""
