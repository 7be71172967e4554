"""Checkpoints of ingest: how far a file is done, written only after the store acknowledged it.

Removing a checkpoint is always safe: the lines are read again and the store finds them unchanged.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recall_loop.memory.store.files.atomic_write import write_atomically

CHECKPOINT_FOLDER = "intake"
_CHUNK = 1024 * 1024
_VERSION = 1


@dataclass(frozen=True, slots=True)
class CheckpointPosition:
    """The first `offset` bytes of the file, ending with line `line`, are in the store."""

    offset: int = 0
    line: int = 0


class Checkpoint:
    """The checkpoint of one file, tenant and format in one store's folder.

    It holds the size and the SHA-256 of the part of the file that is done, so a file that has changed
    there is read from its start, and one that has only grown is read from its former end.
    """

    def __init__(self, store_path: Path, file: Path, tenant: str, format_name: str) -> None:
        key = json.dumps([str(file.resolve()), tenant, format_name])
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._path = store_path / CHECKPOINT_FOLDER / f"{name}.json"
        self._file = file
        self._hash = hashlib.sha256()
        self._hashed = 0

    def load(self) -> CheckpointPosition:
        """Return how far the file is done; the start where nothing usable is known."""
        saved = self._read()
        offset, line = saved.get("offset"), saved.get("line")
        if not isinstance(offset, int) or not isinstance(line, int) or offset > self._file.stat().st_size:
            return CheckpointPosition()
        self._hash_up_to(offset)
        if self._hash.hexdigest() == saved.get("sha256"):
            return CheckpointPosition(offset, line)
        self._hash, self._hashed = hashlib.sha256(), 0
        return CheckpointPosition()

    def save(self, position: CheckpointPosition) -> None:
        """Record that the file is done up to `position`; on disk when this returns.

        Raises:
            OSError: the checkpoint can't be written.
        """
        self._hash_up_to(position.offset)
        sha256 = self._hash.hexdigest()
        fields = {"version": _VERSION, "offset": position.offset, "line": position.line, "sha256": sha256}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps(fields))

    def clear(self) -> None:
        """Forget the file, as after its last line."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        try:
            saved = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # none yet, or cut off by a crash: starting again is always right
            return {}
        return saved if isinstance(saved, dict) and saved.get("version") == _VERSION else {}

    def _hash_up_to(self, offset: int) -> None:
        with self._file.open("rb") as file:
            file.seek(self._hashed)
            while self._hashed < offset and (data := file.read(min(_CHUNK, offset - self._hashed))):
                self._hash.update(data)
                self._hashed += len(data)
