"""Try Chroma's files in a process of their own: `python -m recall_loop.memory.store.probe FOLDER`.

A damaged vector file ends the process that reads it, so that a store which wasn't closed cleanly is
tried here first. Exit status 0 means that it can be opened and searched.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TIMEOUT_SECONDS = 120


def sound(folder: Path) -> bool:
    """Return whether Chroma's files under `folder` can be opened and searched."""
    command = [sys.executable, "-m", __name__, str(folder)]
    try:
        tried = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return tried.returncode == 0


def main(folder: Path) -> None:
    """Open the collection and search it once. Raises `ChromaError` where that fails."""
    import numpy as np

    from recall_loop.memory.store.chroma_side import ChromaSide

    chroma = ChromaSide(folder, {}, create=False)
    count = chroma.count()
    if count:
        vector = np.ones((1, int(chroma.noted()["dimension"])), dtype=np.float32)
        chroma.nearest(vector, min(count, 10))
    chroma.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
