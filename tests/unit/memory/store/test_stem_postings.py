"""Searches by the lexical index alone, while it is damaged."""

from __future__ import annotations

import sqlite3

from recall_loop import MemoryStore
from recall_loop.memory.store.files.store_files import SIDECAR_FILE
from recall_loop.memory.store.index.caches import row_limits
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder

GARBAGE = "UPDATE fts_data SET block = x'00' WHERE id > 10"


def test_a_damaged_index_ranks_nothing_by_the_words_that_are_still_known(tmp_path, monkeypatch):
    """Proves: SEARCH-9."""
    monkeypatch.setattr(row_limits, "INDEXED_ROWS", 0)
    failed: list[str] = []
    wrap_error = SqliteDatabase.wrap_error
    monkeypatch.setattr(
        SqliteDatabase, "wrap_error", lambda self, *given: failed.append(str(given[0])) or wrap_error(self, *given)
    )
    with MemoryStore.open(tmp_path / "store", embedder=WordHashEmbedder()) as store:
        store.upsert([{"id": f"m{at}", "text": f"alpha beta {at}"} for at in range(9)])
        view = store.view(Scope())
        assert len(view.top_by_stems([("alpha", 1.0)], 100)) == 9
        with sqlite3.connect(tmp_path / "store" / SIDECAR_FILE) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(GARBAGE)
        connection.close()
        wanted = [("beta", 3.0), ("alpha", 2.0), *((f"word{at}", 1.0) for at in range(50))]
        assert view.top_by_stems(wanted, 100).tolist() == []
        assert len(failed) == 1
        assert store._session.database.lexical_damage is not None
