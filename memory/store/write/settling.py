"""Times and positions that records leave open, settled when they are written: only then the store knows (API-2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recall_loop.memory.store.encoding.indexing import position_after
from recall_loop.memory.store.tables.database import Database
from recall_loop.memory.store.tables.prepared_records import PreparedRecord, settle_derived
from recall_loop.state.records.records import RECORD_ADAPTER

# Messages with a position sort before all messages without one, so the last row decides.
_LAST = "SELECT position FROM records WHERE thread = ? ORDER BY order_key DESC LIMIT 1"


def settle_drafts(
    database: Database, drafts: Sequence[PreparedRecord], bodies: Mapping[str, str]
) -> Sequence[PreparedRecord]:
    """Return the drafts, in their order, with times and positions; `bodies` are those that stand under their keys."""
    if all(draft.derived is None for draft in drafts):
        return drafts
    positions = _SessionPositions(database)
    known = dict(bodies)
    settled: list[PreparedRecord] = []
    for draft in drafts:
        thread = draft.columns["thread"]
        if draft.derived is not None:
            body = known.get(draft.key)
            stored = None if body is None else RECORD_ADAPTER.validate_json(body)
            wanted = draft.places and stored is None
            draft = settle_derived(draft, stored, positions.next(thread) if wanted else None)  # noqa: PLW2901
        if thread is not None:
            positions.take(thread, draft.columns["position"])
        known[draft.key] = draft.body
        settled.append(draft)
    return settled


class _SessionPositions:
    """The next position of each session, None where messages have none; sessions are looked up when first needed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next: dict[str, int | None] = {}

    def next(self, thread: str) -> int | None:
        if thread not in self._next:
            rows = self._database.fetch(_LAST, (thread,))
            self._next[thread] = 0 if not rows else None if rows[0][0] is None else position_after(rows[0][0])
        return self._next[thread]

    def take(self, thread: str, position: int | None) -> None:
        """Note that a message of a session has a position, or none."""
        expected = self.next(thread)
        self._next[thread] = None if position is None or expected is None else max(expected, position_after(position))
