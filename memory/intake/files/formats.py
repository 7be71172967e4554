"""Readers of files: each yields `(line number, record)`, or `(line number, InvalidLine)` for a bad line.

`records` has one record per line (docs/records.md). `locomo` reads conversations in the
layout of the LoCoMo data set: the published JSON file, or one document per line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.files.documents import record_from_document
from recall_loop.memory.intake.files.identity import ABSENT_ID, FileIdTracker
from recall_loop.memory.intake.files.locomo_file import load_samples, sample_documents
from recall_loop.memory.parsing.json_lines import InvalidLine, parse_object, raw_lines, to_printable
from recall_loop.state.errors import InvalidInputError, display_value
from recall_loop.state.records.records import Fact, Record, parse_record
from recall_loop.state.types import ContentType

FORMATS = ("records", "locomo")
_KINDS = ", ".join(ContentType)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One line's outcome. `end` is the byte offset after it, or None if the file has no lines."""

    line: int
    outcome: Record | InvalidLine
    raw: str
    end: int | None = None
    duplicate_of_line: int | None = None


def read_records(path: Path, format_name: str = "records") -> Iterator[tuple[int, Record | InvalidLine]]:
    """Yield the records of a file; ids that are absent are derived (`FileIdTracker`).

    A file in the format `locomo` holds either the published list of samples (numbered by item), whose turns, facts,
    summaries and events become records, or one document per line.

    Raises:
        InvalidInputError: `format_name` is not one of `FORMATS`.
        OSError: the file can't be read.
    """
    return ((entry.line, entry.outcome) for entry in iter_entries(path, format_name))


def iter_entries(path: Path, format_name: str) -> Iterator[FileEntry]:
    """Yield every line's outcome with what a resumable, reporting reader needs.

    Raises:
        InvalidInputError: `format_name` is not one of `FORMATS`.
        OSError: the file can't be read.
    """
    if format_name not in FORMATS:
        raise InvalidInputError("format", format_name, " or ".join(FORMATS))
    if format_name == "records":
        yield from _line_entries(path, record_from_fields)
    elif (samples := load_samples(path)) is not None:
        yield from _sample_entries(samples)
    else:
        yield from _line_entries(path, record_from_document)


def record_from_fields(fields: Mapping[str, Any]) -> Record:
    """Return one line of the format `records` as a record; an absent id becomes a placeholder.

    Raises:
        InvalidInputError: names the field, its value and what is allowed.
    """
    if fields.get("kind") is None:
        raise InvalidInputError("kind", None, f"one of {_KINDS}")
    if fields.get("text") is None and fields.get("content") is None:
        raise InvalidInputError("text", None, "text that is not blank, as `text` or `content`")
    return parse_record(fields if fields.get("id") is not None else {**fields, "id": ABSENT_ID})


def _line_entries(path: Path, convert: Callable[[Mapping[str, Any]], Record]) -> Iterator[FileEntry]:
    ids = FileIdTracker()
    for line in raw_lines(path):
        fields = parse_object(line)
        raw = to_printable(line.data)
        outcome = fields if isinstance(fields, InvalidLine) else _convert(fields, raw, convert)
        if isinstance(outcome, Record) and isinstance(fields, dict) and fields.get("id") is None:
            outcome = _with_derived_id(outcome, ids, raw)
        earlier = ids.earlier_line(outcome.id, line.number) if isinstance(outcome, Record) else None
        yield FileEntry(line.number, outcome, raw, line.end, earlier)


def _sample_entries(samples: list[Any]) -> Iterator[FileEntry]:
    ids = FileIdTracker()
    for number, document in enumerate(sample_documents(samples), start=1):
        raw = display_value(document)
        outcome = _convert(document, raw, record_from_document)
        earlier = ids.earlier_line(outcome.id, number) if isinstance(outcome, Record) else None
        yield FileEntry(number, outcome, raw, None, earlier)


def _convert(fields: Any, raw: str, convert: Callable[[Mapping[str, Any]], Record]) -> Record | InvalidLine:
    try:
        return convert(fields)
    except InvalidInputError as error:
        return InvalidLine(str(error), raw)


def _with_derived_id(record: Record, ids: FileIdTracker, raw: str) -> Record | InvalidLine:
    derived = record.model_copy(update={"id": ids.derive(record)})
    # The one rule that looks at the id was checked with a placeholder in its place.
    if isinstance(derived, Fact) and derived.superseded_by == derived.id:
        return InvalidLine("superseded_by: the id of another fact", raw)
    return derived
