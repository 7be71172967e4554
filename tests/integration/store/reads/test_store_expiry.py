"""Records that expire: no read gives them from that moment on, without any write, whatever was cached before."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.index.caches import row_limits
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashEmbedder

PAST = "2001-01-01T00:00:00Z"
FUTURE = "2999-01-01T00:00:00Z"
SECONDS = 0.6
TENANT = Scope(tenant="a")
CREW = Scope(tenant="a", agent_id="x", mode="constellation")


def soon(seconds=SECONDS):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def turn(number, text, **more):
    place = {"conversation_id": "c", "session": "s", "position": number, "agent_id": "x", "group_id": "g"}
    return {"id": f"m{number}", "kind": "message", "text": text, **place} | more


def everything(store, scope=TENANT):
    """What each way of reading gives, by its name."""
    view = store.view(scope)
    rows = view.rows(range(1, 20))
    hits = {
        mode: search(store, "ferry harbour", scope=scope, params=SearchParams(mode=mode)).hits for mode in SearchMode
    }
    ids = {f"search {mode}": {hit.record.id for hit in found} for mode, found in hits.items()}
    ids["windows"] = {hit.record.id for found in hits.values() for hit in found if "secret" in hit.window}
    ids["get"] = {record.id for record in store.get([f"m{n}" for n in range(9)], scope=scope)}
    ids["scan"] = {record.id for record in store.scan(scope)}
    ids["page"] = {record.id for record in store.page(scope).records}
    ids["rows"] = {row.record.id for row in rows.values()}
    ids["newest"] = {rows[rowid].record.id for rowid in view.newest(9)}
    ids["nearest"] = {rows[rowid].record.id for rowid in view.nearest(np.ones((1, 32)), 9)[0]}
    ids["as of"] = {record.id for record in store.scan(scope, Filters(as_of=FUTURE))}
    return ids, {store.count(scope), view.count()}


@pytest.mark.parametrize("indexed", [True, False], ids=["in memory", "by statements"])
@pytest.mark.parametrize("scope", [TENANT, CREW], ids=["tenant", "crew"])
def test_a_record_is_gone_at_its_moment_though_nobody_writes(monkeypatch, tmp_path, indexed, scope):
    """Proves: LIVE-7, SEARCH-3."""
    if not indexed:
        monkeypatch.setattr(row_limits, "INDEXED_ROWS", 0)
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        texts = [turn(1, "the ferry leaves"), turn(3, "harbour of the ferry", expires_at=soon(3600))]
        store.upsert([*texts, turn(5, "ferry long gone", conversation_id="d", expires_at=PAST)], tenant="a")
        store.upsert([turn(2, "secret ferry harbour", expires_at=soon())], tenant="a")
        begun = time.monotonic()
        with MemoryStore.open(tmp_path, embedder=WordHashEmbedder(), read_only=True) as reader:
            before = [everything(one, scope) for one in (store, reader)]
            if time.monotonic() - begun < SECONDS / 2:  # else the machine is too slow to have seen it
                for ids, counts in before:
                    assert counts == {3} and ids["get"] == ids["rows"] == ids["nearest"] == {"m1", "m2", "m3"}
                    assert ids["windows"] == {"m2", "m3"}, "m1 stays longer than what was said after it"
            time.sleep(SECONDS)
            for one in (store, reader):
                ids, counts = everything(one, scope)
                assert counts == {2}
                assert ids.pop("windows") == set()
                assert {frozenset(found) for found in ids.values()} == {frozenset({"m1", "m3"})}
                found = retrieve({"messages": [{"content": "What is secret?"}], "tenant": "a"}, store=one)
                assert "secret" not in found.context
        assert store.maintenance.verify().sound


def test_what_is_written_again_is_there_again_and_nothing_of_it_is_history(store):
    """Proves: LIVE-7, API-3."""
    store.upsert([turn(1, "first"), turn(2, "second")])
    store.upsert([turn(1, "first secret", expires_at=PAST)])
    assert store.count() == 1 and store.view(Scope()).count() == 1
    (outcome,) = store.upsert([turn(1, "first again", expires_at=FUTURE)])
    assert outcome.status == "created"
    assert store._session.database.fetch("SELECT count(*) FROM versions") == [(0,)]
    assert store.count() == 2 and store.view(Scope()).count() == 2
    store.upsert([turn(1, "first again")])
    assert store.get(["m1"], scope=Scope())[0].expires_at is None


def test_an_expired_record_that_is_given_again_as_it_was_is_a_new_one(store):
    """Proves: LIVE-7, API-3."""
    given, versions = turn(1, "of old", expires_at=PAST, created_at=PAST), "SELECT count(*) FROM versions"
    for record, status, kept in ((turn(1, "older"), "created", 0), (given, "replaced", 1), (given, "created", 0)):
        assert [outcome.status for outcome in store.upsert([record])] == [status]
        assert store._session.database.fetch(versions) == [(kept,)]


def test_the_words_of_what_has_expired_correct_no_typos(store):
    """Proves: LIVE-7."""
    store.upsert([turn(1, "the quetzalcoatlus sleeps"), turn(2, "a ferry", conversation_id="d")])
    assert "quetzalcoatlus" in " ".join(store.view(Scope()).derived_from_vocabulary(sorted))
    store.upsert([turn(1, "the quetzalcoatlus sleeps", expires_at=PAST)])
    words = store.view(Scope()).derived_from_vocabulary(sorted)
    assert "ferri" in words and "quetzalcoatlus" not in words
    assert store.view(Scope()).document_frequency(["quetzalcoatlus"]) == {"quetzalcoatlus": 0}


def test_a_fact_that_has_expired_supersedes_nothing(store):
    """Proves: LIVE-7, OPS-5."""
    fact = {"kind": "fact", "subject": "Ann", "fact_type": "lives_in"}
    newer = fact | {"id": "f1", "text": "Ann lives in Oslo.", "created_at": "2024-05-01T00:00:00Z", "expires_at": PAST}
    older = fact | {"id": "f2", "text": "Ann lives in Bergen.", "created_at": "2024-01-01T00:00:00Z"}
    write_facts(store, [newer], single_valued=["lives_in"])
    write_facts(store, [older], single_valued=["lives_in"])
    assert [(record.id, record.superseded_by) for record in store.scan()] == [("f2", None)]
