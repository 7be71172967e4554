"""Try Chroma's files in a process of their own: `python -m recall_loop.memory.store.chroma.probe FOLDER`.

A damaged vector file ends the process that reads it, so that files which weren't closed cleanly, or which
have changed since, are tried here first. Exit status 0 means that every vector can be read and searched.

Files of different moments, as a copy has them that was taken while a writer was at work, may also have Chroma wait for
ever: the vector index then links to rows that it doesn't hold yet. Chroma gives their numbers to the rows that it adds
from its log when it is first asked, meets such a row while it adds it, and takes its lock a second time.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from recall_loop.memory.store.chroma.chroma_files import has_vectors, vector_files

# Header of the vector index, which is hnswlib's: version, first offset, capacity, rows, bytes per row, offsets of label
# and vector in it, highest level, entry point, maximum links of a row above the lowest level and on it.
_HEADER = "<iQQQQQQiIQQ"
_CHUNK = 10_000
# Measured on two busy processors: a million rows, 1.8 GB of vector files, take some four minutes.
TIMEOUT_SECONDS = 600
_SECONDS_PER_MB = 1.0
# A process that has used so little CPU time for so long is blocked. It can't detect that itself: while Chroma waits,
# no other Python thread runs.
_IDLE_SECONDS, _IDLE_CPU_SECONDS = 30.0, 0.05


def vector_files_readable(folder: Path) -> bool:
    """Return whether Chroma's vector files under `folder` can be opened, read and searched.

    Where they hold no rows (below about 1,000 rows) nothing can end a process, and nothing is tried.
    """
    try:
        if not has_vectors(folder):
            return True
        size = sum(file.stat().st_size for file in vector_files(folder))
    except OSError:
        return False
    patience = TIMEOUT_SECONDS + size / 1e6 * _SECONDS_PER_MB
    command = [sys.executable, "-P", "-m", __name__, str(folder)]
    return _exit_status(command, patience) == 0


def _exit_status(command: Sequence[str], patience: float) -> int | None:
    """Return how a process ends; None where it was ended, for taking longer than `patience` seconds or doing nothing.

    What a process does is known on Linux only.
    """
    end = time.monotonic() + patience
    used: float | None = None
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while (left := end - time.monotonic()) > 0:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(min(_IDLE_SECONDS, left))
            before, used = used, _cpu_seconds(process.pid)
            if before is not None and used is not None and used - before < _IDLE_CPU_SECONDS:
                break
        return None
    finally:
        process.kill()  # raises if the process has ended
        process.wait()


def _cpu_seconds(pid: int) -> float | None:
    """Return how long a process has run on a processor; None where the system doesn't say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def has_dangling_links(folder: Path) -> bool:
    """Return whether an index under `folder` links to rows beyond those it holds, on the lowest level.

    Its header is then older than its rows. An index of another layout is passed over. Reads the whole index.
    """
    return any(map(_dangles, folder.rglob("header.bin")))


def _dangles(header: Path) -> bool:
    found = header.read_bytes()
    data = header.with_name("data_level0.bin")
    if len(found) < struct.calcsize(_HEADER) or not data.is_file():
        return False
    _, _, _, rows, row_bytes, *_, most = struct.unpack_from(_HEADER, found)
    links = 4 * (1 + most)  # their number, then each
    if links > row_bytes or data.stat().st_size < rows * row_bytes:
        return False
    with data.open("rb") as stream:
        for start in range(0, rows, _CHUNK):
            part = min(_CHUNK, rows - start)
            table = np.frombuffer(stream.read(part * row_bytes), dtype=np.uint8).reshape(part, row_bytes)
            numbers = np.ascontiguousarray(table[:, :links]).view("<u4")
            linked = np.arange(most) < (numbers[:, :1] & 0xFFFF)
            if (numbers[:, 1:][linked] >= rows).any():
                return True
    return False


def main(folder: Path) -> None:
    """Open the collection, search it once and read it whole. Raises `ChromaError` where that fails."""
    from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex

    if has_dangling_links(folder):
        raise ChromaError("Chroma's vector index links to rows that it doesn't hold")
    chroma = ChromaIndex(folder, {}, create=False)
    count = chroma.count()
    if count:
        vector = np.ones((1, int(chroma.stored_marker()["dimension"])), dtype=np.float32)
        chroma.nearest(vector, min(count, 10))
    chroma.read_vectors()
    chroma.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
