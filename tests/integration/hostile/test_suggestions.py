"""What a misspelt word is taken for comes from rows that the caller may read."""

from __future__ import annotations

import pytest

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.index.caches import row_limits
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType, ScopeMode
from tests.embedders import WordHashEmbedder

MINE = {"user_id": "u1", "agent_id": "a1", "conversation_id": "c1"}
THEIRS = {"user_id": "u2", "agent_id": "a2", "conversation_id": "c2"}
NARROW = [
    Scope(user_id="u1"),
    Scope(agent_id="a1"),
    Scope(conversation_id="c1"),
    Scope(agent_id="a1", mode=ScopeMode.CONSTELLATION),
    Scope(user_id="u1", agent_id="a1", conversation_id="c1"),
]
FUZZY = SearchParams(fuzzy=2)


@pytest.fixture(params=["in memory", "in SQLite"])
def store(request, monkeypatch):
    if request.param == "in SQLite":
        for name in ("CACHED_ROWS", "INDEXED_ROWS"):
            monkeypatch.setattr(row_limits, name, 0)
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        talk = {"kind": "message", **MINE}
        opened.upsert(
            [
                {"id": "m1", **talk, "text": "The telescope is on the roof.", "position": 0},
                {"id": "m2", **talk, "agent_id": "a2", "text": "The kaleidoscope is in the attic.", "position": 1},
                {"id": "f1", "kind": "fact", **THEIRS, "text": "The periscope was sold to Zebulon."},
                {"id": "f2", "kind": "fact", **THEIRS, "text": "Tellescope and telesscope are brands."},
            ]
        )
        yield opened


@pytest.mark.parametrize("scope", NARROW, ids=str)
def test_no_suggestion_tells_a_word_of_rows_that_the_scope_leaves_out(store, scope):
    """Not the word of another user, agent or conversation. Proves: GUARD-3, SEARCH-2."""
    for asked in ("perisckope", "Zebulom"):
        assert search(store, asked, scope=scope, params=FUZZY).corrected is None
        assert search(store, asked, params=FUZZY).corrected is not None
    assert search(store, "telescobe", scope=scope, params=FUZZY).corrected == "telescope"


def test_a_neighbour_in_a_window_is_no_word_of_ones_own(store):
    """A window may hold another agent's turn. Proves: GUARD-3."""
    assert search(store, "kaleidoscoqe", scope=Scope(agent_id="a1"), params=FUZZY).corrected is None
    assert search(store, "kaleidoscoqe", scope=Scope(agent_id="a2"), params=FUZZY).corrected == "kaleidoscope"


def test_words_count_as_known_whatever_the_filters(store):
    """A word of the scope is no misspelling of a word that the filters leave. Proves: SEARCH-2."""
    store.upsert([{"id": "f3", "kind": "fact", **MINE, "text": "The telescape is a picture."}])
    facts = SearchParams(fuzzy=1, content_types=(ContentType.FACT,))
    assert search(store, "telescope", scope=Scope(user_id="u1"), params=facts).corrected is None
