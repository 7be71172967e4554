"""The single-writer lock of a store path (STORE-4)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from recall_loop.memory.store.files.file_names import LOCK_FILE
from recall_loop.state.errors import StoreLockedError

if sys.platform == "win32":
    import msvcrt

    def acquire(stream: BinaryIO) -> None:
        """Lock an open file for as long as it stays open; OSError at once where somebody else has it."""
        # Bytes far behind the holder's number, so that others can still read it.
        stream.seek(1 << 20)
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def acquire(stream: BinaryIO) -> None:
        """Lock an open file for as long as it stays open; OSError at once where somebody else has it."""
        # flock belongs to the open file: no other descriptor of this process can drop it.
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


class WriterLock:
    """Held from construction until `release`, or until the process ends, however it ends.

    Raises:
        StoreLockedError: somebody else writes this store; says which process, at once.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_FILE
        self._stream: BinaryIO = open(path, "a+b")  # noqa: SIM115  # held for the store's life
        try:
            acquire(self._stream)
        except OSError as error:
            self._stream.seek(0)
            holder = self._stream.read(20).decode("ascii", "replace").strip()
            self._stream.close()
            process = f" (process {holder})" if holder else ""
            raise StoreLockedError(
                f"{folder}: another writer{process} has this store open; "
                "wait until it closes, or open the store with read_only=True"
            ) from error
        self._stream.seek(0)
        self._stream.truncate()
        self._stream.write(str(os.getpid()).encode())
        self._stream.flush()

    def release(self) -> None:
        """Give the lock back; the file stays, since removing it would let two writers in."""
        self._stream.close()
