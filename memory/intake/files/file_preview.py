"""A preview of ingesting a file, before anything is written: its detected format, and the first records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from recall_loop.memory.intake.files.detection import AUTO, DetectedFormat, detect_format
from recall_loop.memory.intake.files.entries import NOBODY, FileOwner, iter_entries
from recall_loop.memory.intake.formats.source_items import LeftOut, UnreadableFileError
from recall_loop.memory.parsing.foreign_json import InvalidLine
from recall_loop.state.records.records import Record
from recall_loop.state.types import ContentType

_EXAMINED = 20
_SHOWN = 3


@dataclass(slots=True)
class FilePreview:
    """The contents of a file: its first records, as they would be written, and how many there are of each kind.

    `repeated` counts items whose id an earlier one has: the last of them is kept. `left_out` counts, by the reason,
    those that aren't kept on purpose. `rejected` and `warnings` have an item's number, and why it can't be kept, or
    deviates.
    """

    detected: DetectedFormat
    first: list[Record] = field(default_factory=list)
    kinds: Counter[ContentType] = field(default_factory=Counter)
    repeated: int = 0
    rejected: list[tuple[int, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    warnings: list[tuple[int, str]] = field(default_factory=list)


def examine_file(path: Path, format_name: str, owner: FileOwner = NOBODY) -> DetectedFormat:
    """Return a file's detected format; raises as `detect_format`.

    With `auto`, a file is refused, too, if none of its first 20 items can be stored.
    """
    detected = detect_format(path, format_name)
    if format_name != AUTO or not (path.is_file() or path.is_dir()):
        return detected
    first = [entry.outcome for entry in islice(iter_entries(path, detected, owner), _EXAMINED)]
    reasons = [outcome.reason for outcome in first if isinstance(outcome, InvalidLine)]
    if reasons and len(reasons) == len(first):
        items = "its only item can't" if len(first) == 1 else f"none of its first {len(first)} items can"
        what = f"detected as {detected.words}, but {items} be stored ({reasons[0]})"
        raise UnreadableFileError(path, what, "correct it, or set --format")
    return detected


def preview_file(path: Path, format_name: str = AUTO, owner: FileOwner = NOBODY) -> FilePreview:
    """Read a whole file as `ingest_file` would, and write nothing; raises as `examine_file` does."""
    preview = FilePreview(examine_file(path, format_name, owner))
    for entry in iter_entries(path, preview.detected, owner):
        outcome = entry.outcome
        if isinstance(outcome, Record):
            if entry.duplicate_of_line is None:
                preview.kinds[outcome.kind] += 1
            else:
                preview.repeated += 1
            if len(preview.first) < _SHOWN:
                preview.first.append(outcome)
            if entry.warning is not None:
                preview.warnings.append((entry.line, entry.warning))
        elif isinstance(outcome, LeftOut):
            preview.left_out[outcome.reason] += 1
        else:
            preview.rejected.append((entry.line, outcome.reason))
    return preview
