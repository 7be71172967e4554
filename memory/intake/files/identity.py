"""Ids of records that bring none, and lines of one file that share an id."""

from __future__ import annotations

import hashlib
import json

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
        self._occurrences: dict[bytes, int] = {}
        self._lines: dict[bytes, int] = {}

    def derive(self, record: Record) -> str:
        """Return the id of the next record with this content."""
        key = self._digest(_content(record))
        occurrence = self._occurrences.get(key, 0)
        self._occurrences[key] = occurrence + 1
        return f"auto-{self._digest(f'{key.hex()}:{occurrence}').hex()}"

    def earlier_line(self, record_id: str, line: int) -> int | None:
        """Return the earlier line that gave this id, if any, and remember `line` for it."""
        key = self._digest(record_id)
        earlier = self._lines.get(key)
        self._lines[key] = line
        return earlier

    @staticmethod
    def _digest(text: str) -> bytes:
        return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


def _content(record: Record) -> str:
    created = record.created_at.isoformat() if record.created_at else None
    parts = [record.kind, record.text, record.author, record.conversation_id, record.session, created]
    return json.dumps(parts)
