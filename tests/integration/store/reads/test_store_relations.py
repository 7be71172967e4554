"""What a scope holds in figures, and what a record is connected with."""

from __future__ import annotations

import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope

RECORDS = [
    {"id": "m1", "text": "I moved to Bergen.", "user_id": "ada", "created_at": "2024-05-01T09:00:00Z"},
    {"id": 'm"2', "text": "It rains there.", "user_id": "ada", "agent_id": "lena", "created_at": "2024-05-02"},
    {"id": "new", "kind": "fact", "text": "Ada lives in Bergen.", "source_ids": ["m1", 'm"2', "gone"]},
    {
        "id": "old",
        "kind": "fact",
        "text": "Ada lives in Oslo; see m1.",
        "valid_until": "2024-05-01",
        "superseded_by": "new",
        "user_id": "bo",
    },
]


def test_an_overview_counts_by_kind_user_and_agent(store):
    """Proves: PAGE-1."""
    empty = store.overview(Scope())
    assert (empty.records, empty.kinds, empty.first) == (0, {}, None)
    store.upsert([*RECORDS, {"id": "e", "text": "Gone soon.", "expires_at": "2020-01-01"}])
    store.upsert([{"id": "x", "text": "Elsewhere."}], tenant="other")
    held = store.overview(Scope())
    assert (held.records, held.kinds) == (4, {"fact": 2, "message": 2})
    assert (held.users, held.agents) == ({"ada": 2, "bo": 1}, {"lena": 1})
    assert held.first is not None and held.first.isoformat() == "2024-05-01T09:00:00+00:00"
    assert store.overview(Scope(user_id="bo")).records == 1


def test_an_overview_leaves_out_what_has_expired(store):
    """Proves: PAGE-1, LIVE-7."""
    gone = {"text": "Gone.", "user_id": "cy", "agent_id": "l", "created_at": "2010-01-01", "expires_at": "2011-01-01"}
    store.upsert([*RECORDS, {**gone, "id": "g1"}, {**gone, "id": "g2", "kind": "archival", "user_id": "ada"}])
    held = store.overview()
    assert (held.records, held.kinds) == (4, {"fact": 2, "message": 2})
    assert (held.users, held.agents) == ({"ada": 2, "bo": 1}, {"lena": 1})
    assert held.first is not None and held.first.year == 2024


@pytest.mark.folder
def test_an_overview_reads_indexes_and_no_rows(tmp_path, embedder):
    """With 100,000 records that is the difference between 20 and 240 milliseconds. Proves: PAGE-1."""
    with MemoryStore.open(tmp_path / "store", embedder=embedder) as store:
        store.upsert(RECORDS)
        said = []
        with store._session.database.reading() as connection:
            connection.set_trace_callback(said.append)
            store.overview()
            connection.set_trace_callback(None)
            counts = [line for line in said if "count(*)" in line]
            plan = [row[3] for line in counts for row in connection.execute(f"EXPLAIN QUERY PLAN {line}")]
    looked_up = [step for step in plan if step.startswith(("SEARCH", "SCAN")) and "expires_at" not in step]
    assert looked_up and all("USING COVERING INDEX" in step or "records_time" in step for step in looked_up), plan


def test_relations_lead_both_ways_and_stay_within_the_scope(store):
    """Proves: PAGE-1, STORE-3."""
    store.upsert(RECORDS)
    foreign = {"id": "f", "kind": "fact", "text": "Theirs.", "source_ids": ["m1"]}
    store.upsert([foreign], tenant="other")

    def ids(records):
        return [record.id for record in records]

    new = store.relations("new", scope=Scope())
    assert (ids(new.sources), ids(new.supersedes), new.superseded_by) == (["m1", 'm"2'], ["old"], None)
    for name in ("m1", 'm"2'):
        assert ids(store.relations(name, scope=Scope()).derived) == ["new"]
    old = store.relations("old", scope=Scope())
    assert old.superseded_by is not None and old.superseded_by.id == "new"
    assert store.relations("old", scope=Scope(user_id="bo")).superseded_by is None
    assert store.relations("new", scope=Scope(tenant="other")) is None


def test_a_fact_is_found_among_many_that_only_mention_the_id(store):
    """Proves: PAGE-1."""
    store.upsert([{"id": "ada", "text": "I keep bees."}])
    store.upsert(
        [{"id": f"n{at}", "kind": "fact", "subject": "ada", "text": f"Hive {at} is full."} for at in range(210)]
    )
    store.upsert([{"id": "drawn", "kind": "fact", "text": "Ada keeps bees.", "source_ids": ["ada"]}])
    assert [record.id for record in store.relations("ada", scope=Scope()).derived] == ["drawn"]


def test_sources_beyond_two_hundred_are_counted_exactly(store):
    """Proves: PAGE-1."""
    store.upsert([{"id": f"m{at}", "text": f"Hive {at} is full."} for at in range(205)])
    sources = ["gone", "m0", *(f"m{at}" for at in range(205)), "lost"]
    store.upsert([{"id": "drawn", "kind": "fact", "text": "All hives are full.", "source_ids": sources}])
    found = store.relations("drawn", scope=Scope())
    assert [record.id for record in found.sources] == [f"m{at}" for at in range(200)]
    assert (found.sources_known, found.sources_gone) == (205, 2)
