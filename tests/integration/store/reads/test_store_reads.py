"""Scope wall, filters and the view, checked against a plain Python oracle."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recall_loop.memory.store.index.caches import row_limits
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.records.records import RECORD_ADAPTER
from recall_loop.state.scope import Filters, Scope
from recall_loop.text.words.tokens import stems
from tests.embedders import WordHashEmbedder
from tests.lexical_rows import by_words, window_stems

DAY = datetime(2024, 1, 1, tzinfo=UTC)
AGENTS, GROUPS, TENANTS = ["a1", "a2", "a3", "a4", None], ["g1", "g2", None], ["t1", "t2"]


def record(number):
    """Return one of many records that differ in every field that a filter can name."""
    pick = lambda values, salt: values[(number * 7 + salt * number // 3) % len(values)]  # noqa: E731
    kind = ["message", "fact", "archival", "trajectory"][number % 4]
    return RECORD_ADAPTER.validate_python(
        {
            "id": f"r{number}",
            "kind": kind,
            "text": f"item {number} " + " ".join(w for w in ("alpha", "beta", "gamma") if hash_bit(number, w)),
            "agent_id": pick(AGENTS, 1),
            "group_id": pick(GROUPS, 2),
            "user_id": pick(["u1", "u2", None], 3),
            "conversation_id": pick(["c1", "c2", None], 4),
            "session": pick(["s1", "s2", None], 5),
            "role": pick(["user", "assistant", "tool", "system", None], 6),
            "label": pick(["l1", "l2", None], 7),
            "fact_type": pick(["likes", "works_at", None], 8),
            "tags": [t for t in ("x", "y", "z") if hash_bit(number, t)],
            "created_at": None if number % 11 == 0 else DAY + timedelta(days=number % 20, microseconds=number % 3),
        }
    )


def hash_bit(number, word):
    return hashlib.sha256(f"{number}{word}".encode()).digest()[0] % 2 == 0


DATA = {tenant: [record(number) for number in range(at, at + 90)] for at, tenant in ((0, "t1"), (45, "t2"))}


@pytest.fixture(scope="module")
def filled():
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        for tenant, records in DATA.items():
            store.upsert(records, tenant=tenant)
        yield store


def in_scope(r, scope):
    mine = [other for other in DATA[scope.tenant] if other.agent_id == scope.agent_id]
    groups = {other.group_id for other in mine} - {None}
    fellows = {other.agent_id for other in DATA[scope.tenant] if other.group_id in groups} - {None}
    if scope.mode == "constellation":
        near = r.agent_id == scope.agent_id or r.agent_id in fellows or r.group_id in groups
    else:
        near = scope.agent_id is None or r.agent_id == scope.agent_id
    return near and scope.user_id in (None, r.user_id) and scope.conversation_id in (None, r.conversation_id)


def passes(r, f):
    same = all(
        getattr(f, name) is None or getattr(f, name) == getattr(r, name)
        for name in ("role", "label", "fact_type", "conversation_id", "session", "user_id")
    )
    after = f.start_time is None or (r.created_at is not None and r.created_at >= f.start_time)
    before = f.end_time is None or (r.created_at is not None and r.created_at < f.end_time)
    return (
        same
        and after
        and before
        and (f.agent_ids is None or r.agent_id in f.agent_ids)
        and set(f.tags or ()) <= set(r.tags)
    )


def maybe(*values):
    return st.one_of(st.none(), st.none(), st.sampled_from(values))


SCOPES = st.builds(
    lambda agent, wide, **rest: Scope(agent_id=agent, mode="constellation" if wide and agent else "local", **rest),
    agent=maybe("a1", "a2", "a3", "a4", "nobody"),
    wide=st.booleans(),
    tenant=st.sampled_from(TENANTS),
    user_id=maybe("u1", "u2"),
    conversation_id=maybe("c1"),
)
FILTERS = st.builds(
    Filters,
    agent_ids=maybe(("a1",), ("a2", "a3")),
    role=maybe("user", "tool"),
    start_time=maybe(DAY, DAY + timedelta(days=5, microseconds=1)),
    end_time=maybe(DAY + timedelta(days=12), DAY + timedelta(days=9, microseconds=2)),
    label=maybe("l1", "L1"),
    tags=maybe(("x",), ("x", "y"), ("y", "y")),
    fact_type=maybe("likes"),
    conversation_id=maybe("c1", "c2"),
    session=maybe("s1"),
    user_id=maybe("u1"),
)
KINDS = st.one_of(st.none(), st.lists(st.sampled_from(["fact", "message", "archival"]), min_size=1))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scope=SCOPES, filters=FILTERS, kinds=KINDS)
def test_every_reader_agrees_with_the_oracle(filled, scope, filters, kinds):
    """Proves: STORE-3, SEARCH-3, SEARCH-4."""
    wanted = [
        r for r in DATA[scope.tenant]
        if in_scope(r, scope) and passes(r, filters) and (kinds is None or r.kind in kinds)
    ]  # fmt: skip
    view = filled.view(scope, filters, kinds)
    assert list(filled.scan(scope, filters, kinds)) == wanted
    assert filled.count(scope, filters, kinds) == view.count() == len(wanted)
    assert [row.record for row in view.rows(view.rowids()).values()] == wanted
    found = by_words(view, stems("item"), 500)
    assert sorted(found) == view.rowids().tolist()
    near = view.nearest(WordHashEmbedder().embed_queries(["alpha", "beta gamma"]), 5)
    assert all(len(hits) == min(5, len(wanted)) and set(hits) <= set(view.rowids().tolist()) for hits in near)


def test_another_tenants_rows_are_out_of_reach_of_every_method(filled):
    """Proves: STORE-3."""
    other = filled.view(Scope(tenant="t2"))
    view = filled.view(Scope(tenant="t1"))
    foreign = other.rowids()
    assert view.rows(foreign) == {}
    assert not np.any(view.vectors(foreign)[0]) and not np.any(view.vectors(foreign)[1])
    assert not set(by_words(view, stems("item"), 1000)) & set(foreign.tolist())
    assert not set(view.nearest(WordHashEmbedder().embed_queries(["item"]), 500)[0]) & set(foreign.tolist())
    assert view.corpus().rows == view.document_frequency(stems("item"))[stems("item")[0]] == 90
    assert filled.get(["r130"], scope=Scope(tenant="t1")) == []
    assert filled.get(["r130"], scope=Scope(tenant="t2", agent_id="nobody")) == []
    nowhere = filled.view(Scope(tenant="t3"))
    assert nowhere.count() == 0 and nowhere.nearest(np.ones((1, 32), dtype=np.float32), 3) == [[]]
    assert nowhere.corpus().rows == 0 and nowhere.vectors([1])[0].shape == (1, 32)


def test_rows_out_of_scope_are_not_given(filled):
    """Proves: STORE-3, SEARCH-4."""
    everything = filled.view(Scope(tenant="t1")).rowids()
    view = filled.view(Scope(tenant="t1", agent_id="a1"))
    assert 0 < view.count() < len(everything)
    assert list(view.rows(everything)) == view.rowids().tolist()
    own, _ = view.vectors(everything)
    assert [number for number, row in zip(everything, own, strict=True) if row.any()] == view.rowids().tolist()


def test_vectors_come_in_the_order_asked_for(filled):
    """Proves: SEARCH-3."""
    view = filled.view(Scope(tenant="t1"))
    own, context = view.vectors(view.rowids())
    backwards = view.rowids()[::-1]
    assert np.array_equal(view.vectors(backwards)[0], own[::-1])
    assert np.array_equal(view.vectors(backwards.tolist())[1], context[::-1])
    assert view.vectors([])[0].shape == (0, 32)


def test_nearest_through_chroma_agrees_with_comparing_all(filled):
    """Proves: SEARCH-3."""
    view = filled.view(Scope(tenant="t1"), content_types=["message"])
    queries = WordHashEmbedder().embed_queries(["alpha item", "gamma"])
    _, context = view.vectors(view.rowids())
    for query, hits in zip(queries, view.nearest(queries, 4), strict=True):
        similarities = context @ query
        best = np.sort(similarities)[::-1][:4]
        got = [similarities[view.rowids().tolist().index(hit)] for hit in hits]
        assert np.allclose(got, best, atol=1e-3)
    assert filled.degraded_reason is None


def test_lexical_ranks_and_cuts_within_what_is_allowed(filled):
    """Proves: SEARCH-3."""
    view = filled.view(Scope(tenant="t1", agent_id="a2"))
    words = stems("alpha beta gamma")
    everything = by_words(view, words, 1000)
    assert by_words(view, words, 3) == everything[:3] and len(everything) > 3
    every = window_stems(filled)
    most = [set(every[rowid]) & set(words) for rowid in everything]
    assert len(most[0]) >= len(most[-1])
    assert by_words(view, ["", " "], 3) == by_words(view, [], 3) == []


def test_equal_stores_answer_equally():
    """Proves: SEARCH-3."""
    answers = []
    for _ in range(2):
        with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
            store.upsert({"id": f"m{i}", "kind": "fact", "text": f"same words {i % 2}"} for i in range(20))
            view = store.view(Scope())
            answers.append((by_words(view, stems("same words"), 9), view.nearest(np.ones((1, 32)), 9)))
    assert answers[0] == answers[1]
    assert answers[0][0] == list(range(1, 10))


def test_thousands_of_ids_at_once(filled):
    """Proves: SEARCH-3."""
    view = filled.view(Scope(tenant="t1"))
    assert len(view.rows(range(60_000))) == 90
    assert filled.get([f"r{n}" for n in range(60_000)], scope=Scope(tenant="t1")) == DATA["t1"]


def test_an_operator_sees_what_each_tenant_takes(filled):
    """Proves: STORE-8."""
    found = filled.maintenance.tenants()
    assert [(one.tenant, one.records) for one in found] == [("t1", 90), ("t2", 90)]
    for one in found:
        texts = sum(len(record.text) for record in DATA[one.tenant])
        assert one.bytes > texts + 90 * 2 * 2 * WordHashEmbedder.dimension


@pytest.mark.parametrize("in_memory", [True, False])
def test_info_says_how_many_records_are_compared(in_memory, tmp_path, monkeypatch):
    """Outside a folder all that are held. Proves: SEARCH-9, HOST-1."""
    for name, rows in (("SCANNED_ROWS", 5), ("INDEXED_ROWS", 60), ("READ_ROWS", 0)):
        monkeypatch.setattr(row_limits, name, rows)
    embedder = WordHashEmbedder()
    opened = MemoryStore.in_memory(embedder=embedder) if in_memory else MemoryStore.open(tmp_path, embedder=embedder)
    with opened as store:
        said = store.maintenance.info()["vector_search"]["rows_compared_in_memory"]
        assert said == (5 if store._session.database.file else 60)
        for count in (said, said + 1):
            store.upsert([{"id": str(at), "text": f"alpha {at}"} for at in range(count)])
            scan = store.view(Scope()).scan(embedder.embed_queries(["alpha"]))
            assert (scan is not None) is (count == said)
