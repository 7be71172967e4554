"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def atomic_file(path: Path, *, mode: int = 0o666) -> Iterator[IO[str]]:
    """Give a text file that takes the place of `path` when the context is left without an error.

    A crash leaves either the old file or the new one; on the disk when the context is left.

    Args:
        path: the file.
        mode: permissions of a new file, less those that the process masks.

    Raises:
        OSError: the file can't be written.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(descriptor, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_atomically(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Replace the file with `text`; see `atomic_file`."""
    with atomic_file(path, mode=mode) as file:
        file.write(text)
