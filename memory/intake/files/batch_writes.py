"""Batches of records into the store, and the counts of their outcomes, shared by ingest and import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recall_loop.memory.intake.files.batch_size import BATCH_SIZE, MAX_BATCH_SIZE
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import DEFAULT_TENANT

if TYPE_CHECKING:
    from recall_loop.memory.store.sqlite.prepared_records import WriteOutcome
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.records.records import Record


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """For which tenant records are written, and how many (1–5000) are acknowledged at a time.

    Raises:
        InvalidInputError: the batch size is out of range.
    """

    tenant: str = DEFAULT_TENANT
    batch_size: int = BATCH_SIZE

    def __post_init__(self) -> None:
        """Check the batch size."""
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
        """Write a batch and count its outcomes; those that the store rejects are left for the caller to report.

        Raises:
            StoreError: the store can't be written.
        """
        outcomes = store.upsert(batch, tenant=tenant) if batch else []
        statuses = Counter(outcome.status for outcome in outcomes)
        self.created += statuses["created"]
        self.replaced += statuses["replaced"]
        self.unchanged += statuses["unchanged"]
        return outcomes
