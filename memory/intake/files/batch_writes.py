"""Records written in batches, with counts and a file of rejects."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.memory.intake.files.batch_size import BATCH_SIZE, MAX_BATCH_SIZE
from recall_loop.memory.store.files.store_files import write_atomically
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import DEFAULT_TENANT

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.memory.store.tables.prepared_records import WriteOutcome
    from recall_loop.state.records.records import Record


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The tenant that records are written for, and how many (1–5000) are acknowledged at a time.

    Raises:
        InvalidInputError: the batch size is out of range.
    """

    tenant: str = DEFAULT_TENANT
    batch_size: int = BATCH_SIZE

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= MAX_BATCH_SIZE:
            raise InvalidInputError("batch_size", self.batch_size, f"an integer from 1 to {MAX_BATCH_SIZE}")


@dataclass(slots=True)
class WriteSummary:
    """The outcome of writing the records of a file or source at `path`; `rejects_path` is the file of rejected ones."""

    path: Path
    rejects_path: Path
    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    rejected: int = 0
    seconds: float = 0.0

    def write(self, batch: Sequence[Record], store: MemoryStore, tenant: str) -> list[WriteOutcome]:
        """Write a batch and count its outcomes; those that the store rejects are left for the caller to report."""
        outcomes = store.upsert(batch, tenant=tenant, on_reject="report") if batch else []
        statuses = Counter(outcome.status for outcome in outcomes)
        self.created += statuses["created"]
        self.replaced += statuses["replaced"]
        self.unchanged += statuses["unchanged"]
        return outcomes


class RejectsFile:
    """Rejected lines of one input file: `{"file", "line", "reason", "raw"}`, one a line.

    Several inputs may share one rejects file: each replaces only its own entries. `file` is the
    input's path as seen from the folder of the rejects file. A file left empty is removed.
    """

    def __init__(self, path: Path, source: Path) -> None:
        self._path = path
        relative = os.path.relpath(source.resolve(), path.resolve().parent)
        self._source = os.fsencode(relative).decode("utf-8", "backslashreplace")

    def drop_after(self, line: int) -> None:
        """Drop this input's entries after `line`; raise `InvalidInputError` where the file is no rejects file."""
        if not self._path.exists():
            return
        kept = [entry for entry in self._entries() if entry["file"] != self._source or entry["line"] <= line]
        if not kept:
            self._path.unlink()
        else:
            write_atomically(self._path, "".join(f"{_dump(entry)}\n" for entry in kept))

    def add(self, rejected: list[tuple[int, str, str]]) -> None:
        """Append `(line, reason, raw)` entries; on disk when this returns."""
        if not rejected:
            return
        with self._path.open("a", encoding="utf-8") as file:
            for line, reason, raw in rejected:
                entry = {"file": self._source, "line": line, "reason": reason, "raw": raw}
                file.write(f"{_dump(entry)}\n")
            file.flush()
            os.fsync(file.fileno())

    def _entries(self) -> list[dict[str, Any]]:
        entries = []
        data = self._path.read_text(encoding="utf-8", errors="replace")
        for text in data.split("\n")[:-1]:  # a crash cut off whatever follows the last line break
            with suppress(ValueError):
                entry = json.loads(text)
                if isinstance(entry, dict) and isinstance(entry.get("line"), int) and "file" in entry:
                    entries.append(entry)
                    continue
            raise InvalidInputError("rejects", str(self._path), "a new file, or one of rejected lines")
        return entries


def _dump(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False)
