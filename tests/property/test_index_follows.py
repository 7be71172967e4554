"""The index in memory follows every write, and answers as SQLite and Chroma alone would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from recall_loop.memory.search.engine import search_many
from recall_loop.memory.store.index.caches import row_limits, tenant_cache
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType, SearchMode
from tests.embedders import WordHashEmbedder

WORDS = ("ferry", "harbour", "ticket", "garden", "tomato", "Ada", "Ben", "noon", "x0y", "straße")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
RECORDS = st.fixed_dictionaries(
    {
        "id": st.sampled_from([f"r{number}" for number in range(12)]),
        "kind": st.sampled_from(["message", "fact"]),
        "text": TEXTS,
        "session": st.sampled_from(["s1", "s2", None]),
        "role": st.sampled_from(["user", "tool", None]),
        "author": st.sampled_from(["Ada", "Ben", None]),
        "position": st.integers(0, 5),
    }
)
WRITES = st.one_of(
    st.lists(RECORDS, min_size=1, max_size=4),
    st.sets(st.sampled_from([f"r{number}" for number in range(12)]), min_size=1),
)
QUERIES = ["ferry at noon", "Ada tomato garden", "straße", "x0y ticket harbour"]
KINDS = (ContentType.MESSAGE, ContentType.FACT)


def answers(store):
    """Everything that searches say, in each mode, filtered and not."""
    found = []
    for mode in SearchMode:
        for filters in (Filters(), Filters(session="s1"), Filters(role="user")):
            options = SearchParams(filters=filters, content_types=KINDS, mode=mode, limit=3, debug=True)
            responses = search_many(store, QUERIES, params=options)
            found += [
                (response.allowed, [(hit.record.id, hit.score, hit.similarity, hit.window) for hit in response.hits])
                for response in responses
            ]
    view = store.view(Scope())
    known = view.document_frequency(["ferri", "ada", "nowher"])
    return found, view.corpus(), known, view.derived_from_vocabulary(dict)


def write(store, change):
    if isinstance(change, set):
        store.delete(sorted(change))
    else:
        store.upsert([{key: value for key, value in record.items() if value is not None} for record in change])


# No shrinking: it takes minutes.
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)
@given(changes=st.lists(WRITES, min_size=1, max_size=6), most=st.sampled_from([1, 4, 256]))
def test_an_updated_index_answers_like_a_freshly_loaded_one(monkeypatch, changes, most):
    """Proves: SEARCH-1, STORE-2, STORE-7."""
    monkeypatch.setattr(tenant_cache, "_MIN_DIRTY", most)
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        for change in changes:
            write(store, change)
            search_many(store, QUERIES, params=SearchParams(content_types=KINDS))
        kept_up = answers(store)
        store._session.cache.clear()
        assert kept_up == answers(store)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(WRITES, min_size=1, max_size=4))
def test_a_tenant_too_large_for_the_index_is_answered_alike(monkeypatch, changes):
    """Proves: SEARCH-1, SEARCH-3."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        for change in changes:
            write(store, change)
        with_index = answers(store)
        with monkeypatch.context() as patch:
            patch.setattr(row_limits, "INDEXED_ROWS", 0)
            patch.setattr(row_limits, "READ_ROWS", 3)
            store._session.cache.clear()
            alone = answers(store)
    assert alone[0] == with_index[0]
    assert alone[1].rows == with_index[1].rows
    assert alone[1].mean_terms == pytest.approx(with_index[1].mean_terms)
    assert alone[2] == with_index[2]


def test_vectors_follow_too():
    """Proves: STORE-7."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert([{"id": f"m{n}", "kind": "message", "session": "s", "text": f"ferry {n}"} for n in range(5)])
        view = store.view(Scope())
        before = view.vectors(view.rowids())[1].copy()
        store.upsert([{"id": "m2", "kind": "message", "session": "s", "text": "tomato garden"}])
        after = view.vectors(view.rowids())[1]
        changed = [number for number in range(5) if not np.allclose(before[number], after[number], atol=1e-3)]
        assert changed == [1, 2, 3]
        store._session.cache.clear()
        assert np.array_equal(view.vectors(view.rowids())[1], after)
