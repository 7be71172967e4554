"""Try Chroma's files in a process of their own: `python -m recall_loop.memory.store.chroma.probe FOLDER`.

A damaged vector file ends the process that reads it, so that files which weren't closed cleanly, or which
have changed since, are tried here first. Exit status 0 means that every vector can be read and searched.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from recall_loop.memory.store.chroma.chroma_files import has_vectors, vector_files

# Measured on two busy processors: a million rows, 1.8 GB of vector files, take some four minutes.
TIMEOUT_SECONDS = 600
_SECONDS_PER_MB = 1.0


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
    try:
        tried = subprocess.run(command, capture_output=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return False
    return tried.returncode == 0


def main(folder: Path) -> None:
    """Open the collection, search it once and read it whole. Raises `ChromaError` where that fails."""
    import numpy as np

    from recall_loop.memory.store.chroma.chroma_index import ChromaIndex

    chroma = ChromaIndex(folder, {}, create=False)
    count = chroma.count()
    if count:
        vector = np.ones((1, int(chroma.stored_marker()["dimension"])), dtype=np.float32)
        chroma.nearest(vector, min(count, 10))
    chroma.read_vectors()
    chroma.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
