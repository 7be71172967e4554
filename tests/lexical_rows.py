"""What stands in the lexical index, read past the store's own methods."""

from __future__ import annotations

from recall_loop.memory.store.encoding.indexing import decode_token
from recall_loop.memory.store.store import MemoryStore


def window_stems(store: MemoryStore) -> dict[int, list[str]]:
    """Return the stems of each row's window by rowid: previous turn, the record twice, next turn."""
    rows = store._session.sqlite.fetch("SELECT rowid, window FROM fts")
    return {rowid: [decode_token(token) for token in window.split()] for rowid, window in rows}
