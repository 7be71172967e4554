"""The lines of a body that is still arriving, in batches."""

from __future__ import annotations

from collections.abc import Iterator

from recall_loop.memory.parsing.foreign_json import MAX_LINE_BYTES, RawLine

MAX_BATCH_LINES = 500
_MAX_BATCH_BYTES = 4 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class LineBatcher:
    """Holds the lines of one batch (up to 500, some 4 MiB) and the line that isn't complete (up to 16 MiB)."""

    def __init__(self) -> None:
        self._lines: list[RawLine] = []
        self._bytes = self._number = self._end = 0
        self._partial = bytearray()
        self._too_long = False

    @property
    def has_lines(self) -> bool:
        """Whether there are complete lines."""
        return bool(self._lines)

    def feed(self, piece: bytes) -> Iterator[list[RawLine]]:
        """Take a piece of the body, and yield the batches that it fills."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._extend(piece[start:end])
            self._close()
            start = end + 1
            if len(self._lines) >= MAX_BATCH_LINES or self._bytes >= _MAX_BATCH_BYTES:
                yield self.take()
        self._extend(piece[start:])

    def finish(self) -> list[RawLine]:
        """Return the remaining lines at the end of the body; the last line needs no line feed."""
        if self._partial or self._too_long:
            self._close()
        return self.take()

    def take(self) -> list[RawLine]:
        """Return the complete lines, and forget them."""
        taken, self._lines, self._bytes = self._lines, [], 0
        return taken

    def _extend(self, part: bytes) -> None:
        self._end += len(part)
        room = MAX_LINE_BYTES - len(self._partial)
        self._too_long = self._too_long or len(part) > room
        self._partial += part[:room]

    def _close(self) -> None:
        self._number += 1
        self._end += 1
        data = bytes(self._partial)
        data = (data.removeprefix(_BOM) if self._number == 1 else data).strip()
        if data:
            self._lines.append(RawLine(self._number, self._end, data, self._too_long))
            self._bytes += len(data)
        self._partial.clear()
        self._too_long = False
