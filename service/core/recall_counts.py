"""How often records were recalled since this process began, in memory only (PAGE-1)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from cachetools import LRUCache

_MOST_RECORDS = 100_000


@dataclass(frozen=True, slots=True)
class RecallCount:
    """How often a record was among the facts of a retrieval, when last, and since when that is counted."""

    times: int
    last: datetime | None
    since: datetime


class RecallCounts:
    """Counts for the 100,000 records that were recalled last; any thread may call it."""

    def __init__(self) -> None:
        self._since = datetime.now(UTC)
        self._counts: LRUCache[tuple[str, str], tuple[int, datetime]] = LRUCache(_MOST_RECORDS)
        self._lock = threading.Lock()

    def add(self, tenant: str, ids: Iterable[str]) -> None:
        """Count one retrieval that has given these records."""
        now = datetime.now(UTC)
        with self._lock:
            for record_id in ids:
                times, _ = self._counts.get((tenant, record_id), (0, now))
                self._counts[tenant, record_id] = times + 1, now

    def of(self, tenant: str, record_id: str) -> RecallCount:
        """Return a record's count."""
        with self._lock:
            times, last = self._counts.get((tenant, record_id), (0, None))
        return RecallCount(times, last, self._since)
