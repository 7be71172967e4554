"""Reads of the lexical index that tests compare: the stems of windows, and rows by their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recall_loop.memory.search.query.lexical import idf
from recall_loop.memory.store.encoding.indexing import decode_token
from recall_loop.memory.store.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recall_loop.memory.store.index.view import View


def window_stems(store: MemoryStore) -> dict[int, list[str]]:
    """Return the stems of each row's window by rowid: previous turn, the record twice, next turn."""
    rows = store._session.database.fetch('SELECT rowid, "window" FROM fts')
    return {rowid: [decode_token(token) for token in window.split()] for rowid, window in rows}


def by_words(view: View, stems: Iterable[str], limit: int) -> list[int]:
    """Return allowed rowids whose window has any of `stems`, at most `limit`; the sum of the stems' idf decides."""
    frequencies = view.document_frequency([stem for stem in stems if stem.strip()])
    rows = view.corpus().rows
    weights = [(stem, idf(rows, count)) for stem, count in frequencies.items() if count]
    return view.top_by_stems(sorted(weights, key=lambda weighted: -weighted[1]), limit).tolist()
