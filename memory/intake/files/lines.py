"""JSON Lines, one raw line at a time: what both the records reader and the batch runner stand on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAX_LINE_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_SHOWN_RAW = 1_000_000


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line that isn't blank. `number` counts from 1; `end` is the byte offset just after it."""

    number: int
    end: int
    data: bytes
    too_long: bool = False


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """A line that can't be used: why, and the line itself as printable text."""

    reason: str
    raw: str


def raw_lines(path: Path) -> Iterator[RawLine]:
    """Yield the lines of `path` without loading the file; blank lines are counted and skipped.

    A line longer than 16 MiB is yielded cut off, with `too_long`. A byte order mark is dropped.

    Raises:
        OSError: the file can't be opened or read.
    """
    with path.open("rb") as file:
        number = 0
        end = 0
        while data := file.readline(MAX_LINE_BYTES):
            number += 1
            end += len(data)
            too_long = len(data) == MAX_LINE_BYTES and not data.endswith(b"\n")
            if too_long:
                end += _skip_rest(file)
            body = (data.removeprefix(_BOM) if number == 1 else data).strip()
            if body:
                yield RawLine(number, end, body, too_long)


def _skip_rest(file: BinaryIO) -> int:
    """Read on to the end of the line and return how many bytes that was."""
    skipped = 0
    while data := file.readline(MAX_LINE_BYTES):
        skipped += len(data)
        if data.endswith(b"\n"):
            break
    return skipped


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def parse_object(line: RawLine) -> dict[str, object] | InvalidLine:
    """Return the JSON object that the line holds, or why it holds none."""
    if line.too_long:
        return InvalidLine(f"longer than {MAX_LINE_BYTES // 1024 // 1024} MiB", to_printable(line.data))
    try:
        value = json.loads(line.data.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        return InvalidLine(f"not UTF-8: byte {error.start} of the line", to_printable(line.data))
    except (ValueError, RecursionError) as error:
        return InvalidLine(f"not JSON: {str(error) or 'nested too deeply'}", to_printable(line.data))
    if not isinstance(value, dict):
        return InvalidLine(f"not a JSON object but {type(value).__name__}", to_printable(line.data))
    return value


def to_printable(data: bytes) -> str:
    """Return raw bytes as text that UTF-8 can carry; foreign bytes are shown as escapes."""
    return data[:_SHOWN_RAW].decode("utf-8", "backslashreplace")
