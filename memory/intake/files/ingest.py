"""Ingesting files of records, resumably."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from recall_loop.memory.intake.files.batch_writes import RejectsFile, WriteOptions, WriteSummary
from recall_loop.memory.intake.files.checkpoints import Checkpoint, CheckpointPosition
from recall_loop.memory.intake.files.detection import DetectedFormat
from recall_loop.memory.intake.files.entries import NOBODY, FileEntry, FileOwner, iter_entries
from recall_loop.memory.intake.files.file_preview import examine_file
from recall_loop.memory.intake.files.folder_files import REJECTS_SUFFIX
from recall_loop.memory.intake.formats.source_items import LeftOut
from recall_loop.memory.parsing.foreign_json import InvalidLine
from recall_loop.memory.store.files.store_place import checked_file
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record


@dataclass(frozen=True, slots=True)
class IngestProblem:
    """One line that was rejected, or (not `rejected`) one that is kept otherwise than it says or replaces another."""

    path: Path
    line: int
    reason: str
    rejected: bool = True


@dataclass(slots=True)
class IngestSummary(WriteSummary):
    """The outcome of ingesting one file.

    `duplicates` counts ids that a later line gave again, `warnings` records that were kept otherwise than their items
    say, `skipped_lines` those that were in the store already when a run was resumed, and `left_out`, by the reason,
    items that aren't kept on purpose.
    """

    duplicates: int = 0
    warnings: int = 0
    skipped_lines: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    format_words: str = ""

    @property
    def stored(self) -> int:
        """Records that this run wrote or found unchanged."""
        return self.created + self.replaced + self.unchanged


@dataclass(frozen=True, slots=True)
class IngestOptions(WriteOptions):
    """How a file is read: its format, whether an interrupted run is resumed, and the owner of its records.

    `format_name` is one of `detection.FORMATS`, or `auto`: detected from the content. `owner` is for records that name
    none.
    """

    format_name: str = "records"
    resume: bool = True
    owner: FileOwner = NOBODY


# Folders in which standard input and open pipes have their names: not places for files.
_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))


def default_rejects_path(path: Path) -> Path:
    """Return where the rejected lines of `path` go: `FILE.rejects.jsonl` beside it, of a device's in this folder."""
    if path.parent in _DEVICES:
        return Path(f"{path.name}{REJECTS_SUFFIX}")
    whole = path.resolve() if not path.name else path  # "." stands for the folder's name
    return whole.with_name(f"{whole.name}{REJECTS_SUFFIX}")


def ingest_file(
    path: str | Path,
    store: MemoryStore,
    options: IngestOptions | None = None,
    *,
    rejects_path: str | Path | None = None,
    on_problem: Callable[[IngestProblem], None] | None = None,
    on_progress: Callable[[int, int | None], None] | None = None,
) -> IngestSummary:
    """Write the records of a file into the store; unusable lines go to the rejects file.

    Running it again, after a kill or to the end, gives the same store: ids are stable and writes are
    upserts. `on_progress` is called with (line number, byte offset or None) after each acknowledged batch.

    Raises:
        InvalidInputError: the format or an option is not allowed, or the whole file is of a kind that can't be read.
        StoreError: the store can't be written.
        OSError: a file can't be read or written.
    """
    chosen = options or IngestOptions()
    source = checked_file(path)
    target = default_rejects_path(source) if rejects_path is None else checked_file(rejects_path, "rejects_path")
    if target.resolve() == source.resolve():
        raise InvalidInputError("rejects", str(target), "a file other than the input")
    detected = examine_file(source, chosen.format_name, chosen.owner)
    summary = IngestSummary(source, target, format_words=detected.words)
    run = _FileIngest(source, store, chosen, detected, summary, on_problem)
    began = time.monotonic()
    remaining = run.remaining_entries()
    while batch := list(islice(remaining, chosen.batch_size)):
        run.write(batch)
        if on_progress:
            on_progress(batch[-1].line, batch[-1].end)
    if run.checkpoint:
        run.checkpoint.clear()
    run.summary.seconds = time.monotonic() - began
    return run.summary


@dataclass(slots=True)
class _FileIngest:
    """One file on its way into the store."""

    path: Path
    store: MemoryStore
    options: IngestOptions
    detected: DetectedFormat
    summary: IngestSummary
    on_problem: Callable[[IngestProblem], None] | None
    checkpoint: Checkpoint | None = field(init=False, default=None)
    rejects: RejectsFile = field(init=False)

    def __post_init__(self) -> None:
        self.rejects = RejectsFile(self.summary.rejects_path, self.path)
        if self.path.is_file():  # a pipe can't be reread after an interruption
            chosen = self.options
            self.checkpoint = Checkpoint(self.store, self.path, chosen.tenant, self.detected.name, chosen.owner)

    def remaining_entries(self) -> Iterator[FileEntry]:
        """Yield what an earlier run hasn't stored yet; lines before that are read for their ids only."""
        done = self.checkpoint.load() if self.checkpoint and self.options.resume else CheckpointPosition()
        self.rejects.drop_after(done.line)
        self.summary.skipped_lines = done.line
        for entry in iter_entries(self.path, self.detected, self.options.owner):
            if entry.end is None or entry.end > done.offset:
                yield entry

    def write(self, batch: list[FileEntry]) -> None:
        """Store a batch, report its bad lines, and only then move the checkpoint."""
        good = [(entry, entry.outcome) for entry in batch if isinstance(entry.outcome, Record)]
        bad = [(entry, entry.outcome.reason) for entry in batch if isinstance(entry.outcome, InvalidLine)]
        self.summary.left_out.update(entry.outcome.reason for entry in batch if isinstance(entry.outcome, LeftOut))
        outcomes = self.summary.write([record for _, record in good], self.store, self.options.tenant)
        bad += [(good[item.index][0], item.error or "") for item in outcomes if item.status == "rejected"]
        self._report_rejected(sorted(bad, key=lambda pair: pair[0].line))
        self._report_duplicates(good)
        self._report_warnings(good, {item.index: item.warning for item in outcomes if item.warning})
        if self.checkpoint and batch[-1].end is not None:
            self.checkpoint.save(CheckpointPosition(batch[-1].end, batch[-1].line))

    def _report_rejected(self, bad: list[tuple[FileEntry, str]]) -> None:
        self.rejects.add([(entry.line, reason, entry.raw) for entry, reason in bad])
        self.summary.rejected += len(bad)
        for entry, reason in bad:
            self._report(IngestProblem(self.path, entry.line, reason))

    def _report_duplicates(self, good: list[tuple[FileEntry, Record]]) -> None:
        for entry, record in good:
            if entry.duplicate_of_line is not None:
                self.summary.duplicates += 1
                reason = f"id {record.id!r} is also on line {entry.duplicate_of_line}; the later line wins"
                self._report(IngestProblem(self.path, entry.line, reason, rejected=False))

    def _report_warnings(self, good: list[tuple[FileEntry, Record]], of_store: dict[int, str]) -> None:
        for index, (entry, _) in enumerate(good):
            if reasons := [*filter(None, (entry.warning, of_store.get(index)))]:
                self.summary.warnings += 1
                self._report(IngestProblem(self.path, entry.line, "; ".join(reasons), rejected=False))

    def _report(self, problem: IngestProblem) -> None:
        if self.on_problem:
            self.on_problem(problem)
