"""The output file of a batch: one line per request, each on disk before the next, readable after a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recall_loop.state.errors import InvalidInputError

DUPLICATE = "duplicate_id"
_CHUNK = 1024 * 1024

Line = dict[str, Any]
Key = tuple[str, str | int]


def id_key(request_id: str) -> Key:
    """Return the key of the request that first gave this id."""
    return ("id", request_id)


def line_key(line: int) -> Key:
    """Return the key of a request that is known by its line only: without an id, or with a repeated one."""
    return ("line", line)


class ResultsFile:
    """Appends result lines. Opened to resume, it knows which requests have theirs.

    Raises:
        InvalidInputError: the file exists and `resume` is off, or it holds something else.
        OSError: it can't be read or written.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        self.done: set[Key] = set()
        if resume and path.exists():
            self._cut_torn_line()
            self.done = set(self._keys())
            self._file = path.open("ab")
        else:
            self._file = self._create()

    def append(self, line: Line) -> None:
        """Write one line; it is on disk when this returns."""
        self._file.write(_dump(line) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create(self) -> Any:
        try:
            return self._path.open("xb")
        except FileExistsError as error:
            allowed = "a file that doesn't exist yet; or resume the run that wrote it"
            raise InvalidInputError("output", str(self._path), allowed) from error

    def _cut_torn_line(self) -> None:
        """Remove what follows the last line break: a line that a kill cut off, to be done again."""
        with self._path.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            keep = end
            while keep:
                start = max(0, keep - _CHUNK)
                file.seek(start)
                found = file.read(keep - start).rfind(b"\n")
                keep = start + found + 1 if found >= 0 else start
                if found >= 0:
                    break
            file.truncate(keep)

    def _keys(self) -> Iterator[Key]:
        with self._path.open("rb") as file:
            for number, data in enumerate(file, start=1):
                key = _key(data)
                if key is None:
                    allowed = "a file of this command's result lines"
                    raise InvalidInputError("output", f"{self._path}, line {number}", allowed)
                yield key


def _key(data: bytes) -> Key | None:
    try:
        line = json.loads(data)
    except ValueError:
        return None
    if not isinstance(line, dict) or not isinstance(line.get("line"), int):
        return None
    error = line.get("error")
    repeated = isinstance(error, dict) and error.get("type") == DUPLICATE
    request_id = line.get("id")
    return line_key(line["line"]) if repeated or not isinstance(request_id, str) else id_key(request_id)


def _dump(line: Line) -> bytes:
    try:
        return json.dumps(line, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:  # an id may hold a lone surrogate; JSON can name it, UTF-8 can't
        return json.dumps(line).encode("ascii")
