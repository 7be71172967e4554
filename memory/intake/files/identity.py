"""Ids for records without one, and lines of one file that share an id."""

from __future__ import annotations

import json
from collections import Counter

from recall_loop.memory.store.encoding.indexing import text_hash
from recall_loop.state.records.records import Record

ABSENT_ID = "-"
_DIGEST_BYTES = 12


class FileIdTracker:
    """Keeps track of the ids of one file; holds about 250 bytes per line, never its text.

    A derived id is a hash of kind, text, author, conversation, session, created_at and of how many
    equal lines came before it in the file. So the same file always gives the same ids, and a
    "Thanks!" said twice in one conversation is two records.
    """

    def __init__(self) -> None:
        self._occurrences: Counter[bytes] = Counter()
        self._lines: dict[bytes, int] = {}

    def derive(self, record: Record) -> str:
        """Return the id of the next record with this content."""
        created = record.created_at.isoformat() if record.created_at else None
        parts = [record.kind, record.text, record.author, record.conversation_id, record.session, created]
        key = text_hash(json.dumps(parts), _DIGEST_BYTES)
        self._occurrences[key] += 1
        return f"auto-{text_hash(f'{key.hex()}:{self._occurrences[key] - 1}', _DIGEST_BYTES).hex()}"

    def earlier_line(self, record_id: str, line: int) -> int | None:
        """Return the earlier line that gave this id, if any, and remember `line` for it."""
        key = text_hash(record_id, _DIGEST_BYTES)
        earlier = self._lines.get(key)
        self._lines[key] = line
        return earlier
