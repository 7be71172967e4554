"""Readers of files: each yields `(line number, record)`, or `(line number, InvalidLine)` where it can't.

`records` is our own format, one record per line (docs/records.md). `locomo` reads conversations in the
layout of the LoCoMo data set: the published JSON file, or one document per line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.files.documents import record_from_document
from recall_loop.memory.intake.files.identity import ABSENT_ID, FileIdTracker
from recall_loop.memory.intake.files.lines import InvalidLine, parse_object, raw_lines, to_printable
from recall_loop.memory.intake.files.locomo_file import load_samples, sample_documents
from recall_loop.state.errors import InvalidInputError, display_value, validate_model
from recall_loop.state.records.records import Record
from recall_loop.state.types import ContentType

FORMATS = ("records", "locomo")
_KINDS = ", ".join(ContentType)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One line's outcome. `end` is the byte offset after it, or None where the file has no lines."""

    line: int
    outcome: Record | InvalidLine
    raw: str
    end: int | None = None
    duplicate_of_line: int | None = None


def read_records(path: Path) -> Iterator[tuple[int, Record | InvalidLine]]:
    """Yield the records of a JSON Lines file; ids that are absent are derived (`FileIdTracker`).

    Raises:
        OSError: the file can't be read.
    """
    return ((entry.line, entry.outcome) for entry in iter_entries(path, "records"))


def read_locomo(path: Path) -> Iterator[tuple[int, Record | InvalidLine]]:
    """Yield turns, facts, summaries and events as records.

    `path` holds either the published list of samples (numbered by item) or one document per line.

    Raises:
        OSError: the file can't be read.
    """
    return ((entry.line, entry.outcome) for entry in iter_entries(path, "locomo"))


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
    """Return one line of our own format as a record; an absent id becomes a placeholder.

    Raises:
        InvalidInputError: names the field, its value and what is allowed.
    """
    if fields.get("kind") is None:
        raise InvalidInputError("kind", None, f"one of {_KINDS}")
    if fields.get("text") is None and fields.get("content") is None:
        raise InvalidInputError("text", None, "text that is not blank, as `text` or `content`")
    given = dict(fields)
    if given.get("id") is None:
        given["id"] = ABSENT_ID
    return validate_model(Record, given)


def _line_entries(path: Path, convert: Callable[[Mapping[str, Any]], Record]) -> Iterator[FileEntry]:
    ids = FileIdTracker()
    for line in raw_lines(path):
        fields = parse_object(line)
        raw = to_printable(line.data)
        outcome = fields if isinstance(fields, InvalidLine) else _convert(fields, raw, convert)
        if not isinstance(outcome, InvalidLine) and isinstance(fields, dict) and fields.get("id") is None:
            outcome = outcome.model_copy(update={"id": ids.derive(outcome)})
        earlier = None if isinstance(outcome, InvalidLine) else ids.earlier_line(outcome.id, line.number)
        yield FileEntry(line.number, outcome, raw, line.end, earlier)


def _sample_entries(samples: list[Any]) -> Iterator[FileEntry]:
    ids = FileIdTracker()
    for number, document in enumerate(sample_documents(samples), start=1):
        raw = display_value(document)
        outcome = _convert(document, raw, record_from_document)
        earlier = None if isinstance(outcome, InvalidLine) else ids.earlier_line(outcome.id, number)
        yield FileEntry(number, outcome, raw, None, earlier)


def _convert(fields: Any, raw: str, convert: Callable[[Mapping[str, Any]], Record]) -> Record | InvalidLine:
    try:
        return convert(fields)
    except InvalidInputError as error:
        return InvalidLine(str(error), raw)
