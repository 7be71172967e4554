"""How far a file of records is done: what an interrupted ingest continues from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.files.entries import NOBODY, FileOwner
from recall_loop.memory.store.store import MemoryStore

_CHUNK = 1024 * 1024
_VERSION = 1


@dataclass(frozen=True, slots=True)
class CheckpointPosition:
    """The first `offset` bytes of the file, ending with line `line`, are in the store."""

    offset: int = 0
    line: int = 0


class Checkpoint:
    """The checkpoint of one file, read in one way for one tenant and owner, in one store.

    It stands among the store's notes, so that a copy of the store has the one that fits. It holds the size and the
    SHA-256 of the part of the file that is done, so a file that has changed there is read from its start, and one that
    has only grown is read from its former end.
    """

    def __init__(
        self, store: MemoryStore, file: Path, tenant: str, format_name: str, owner: FileOwner = NOBODY
    ) -> None:
        key = json.dumps([str(file.resolve()), tenant, format_name, owner.fields()])
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._notes, self._name = store.maintenance, f"ingest-{name}"
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
        """Record that the file is done up to `position`; on disk when this returns."""
        self._hash_up_to(position.offset)
        sha256 = self._hash.hexdigest()
        fields = {"version": _VERSION, "offset": position.offset, "line": position.line, "sha256": sha256}
        self._notes.set_note(self._name, json.dumps(fields))

    def clear(self) -> None:
        """Forget the file, as after its last line."""
        self._notes.set_note(self._name, None)

    def _read(self) -> dict[str, Any]:
        try:
            saved = json.loads(self._notes.note(self._name) or "{}")
        except ValueError:  # from another version: starting over is always safe
            return {}
        return saved if isinstance(saved, dict) and saved.get("version") == _VERSION else {}

    def _hash_up_to(self, offset: int) -> None:
        with self._file.open("rb") as file:
            file.seek(self._hashed)
            while self._hashed < offset and (data := file.read(min(_CHUNK, offset - self._hashed))):
                self._hash.update(data)
                self._hashed += len(data)
