"""Texts of nothing but symbols: what people answer with one emoji is found by it (QUERY-3, SEARCH-1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from tests.embedders import WordHashEmbedder

RECORDS = [
    {"id": "party", "kind": "message", "text": "🎉🎉", "author": "Ada", "conversation_id": "c", "position": 1},
    {"id": "after", "kind": "message", "text": "The boat is ours.", "conversation_id": "c", "position": 2},
    {"id": "heart", "kind": "message", "text": "❤️", "conversation_id": "d"},
    {"id": "note", "kind": "archival", "text": "🚀", "label": "plans"},
    {"id": "words", "kind": "message", "text": "Done ✅ 🎉", "conversation_id": "e"},
]


def filled(path: Path) -> MemoryStore:
    store = MemoryStore.open(path, embedder=WordHashEmbedder())
    store.upsert(RECORDS)
    return store


@pytest.mark.parametrize(("asked", "first"), [("🎉", "party"), ("🎉 🎉!", "party"), ("❤", "heart"), ("🚀", "note")])
def test_symbols_are_asked_for_and_found(tmp_path: Path, asked: str, first: str) -> None:
    """Proves: QUERY-3, SEARCH-1, LIVE-2. By the loop and by a search, whoever the author is."""
    with filled(tmp_path / "s") as store:
        found = retrieve(asked, store=store)
        assert found.facts[0].id == first
        assert f"[{first}]" in found.context
        assert search(store, asked).hits[0].record.id == first


def test_symbols_beside_words_are_none(tmp_path: Path) -> None:
    """Proves: SEARCH-1. Only a text without a word has symbols for words."""
    with filled(tmp_path / "s") as store:
        hits = {hit.record.id: hit.similarity for hit in search(store, "🎉").hits}
        assert hits.get("words", 0.0) < hits["party"]
        assert search(store, "done").hits[0].record.id == "words"


def test_a_store_of_an_earlier_version_is_indexed_again(tmp_path: Path) -> None:
    """Proves: OPEN-4. What it found before it finds again, and now symbols too."""
    with filled(tmp_path / "s") as store:
        database = store._session.database
        database.set_meta({"words": "2"})
        with database.transaction() as connection:
            connection.execute(
                "UPDATE bodies SET terms = '' WHERE rowid = (SELECT rowid FROM records WHERE id = 'heart')"
            )
            connection.execute("UPDATE records SET terms = 0 WHERE id = 'heart'")
    with MemoryStore.open(tmp_path / "s", embedder=WordHashEmbedder()) as store:
        assert store.maintenance.verify().sound
        assert search(store, "❤️").hits[0].record.id == "heart"
        assert search(store, "boat").hits[0].record.id == "after"
