"""JSON Lines, one raw line at a time: the one reader of records, runs, requests and exports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

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


def raw_lines(path: Path, max_bytes: int = MAX_LINE_BYTES) -> Iterator[RawLine]:
    """Yield the lines of `path` without loading the file; blank lines are counted and skipped.

    A line longer than `max_bytes` is yielded cut off, with `too_long`; -1 sets no bound. A byte order mark is dropped.

    Raises:
        OSError: the file can't be opened or read.
    """
    with path.open("rb") as file:
        number = 0
        end = 0
        while data := file.readline(max_bytes):
            number += 1
            end += len(data)
            too_long = len(data) == max_bytes and not data.endswith(b"\n")
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


def loads_strictly(text: str) -> Any:
    """Return the JSON value of a text.

    Raises:
        ValueError: it is no JSON, which has no NaN and no infinity.
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def parse_object(line: RawLine, loads: Callable[[str], Any] = loads_strictly) -> dict[str, Any] | InvalidLine:
    """Return the JSON object that the line holds, or why it holds none."""
    if line.too_long:
        return InvalidLine(f"longer than {MAX_LINE_BYTES // 1024 // 1024} MiB", to_printable(line.data))
    try:
        value = loads(line.data.decode("utf-8"))
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
