"""Facts that newer ones supersede: what searches give, what deleting and erasing does, and how they travel."""

from __future__ import annotations

import json
import threading

import pytest

from recall_loop.cli.main import main
from recall_loop.graph.run import retrieve
from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.intake.files.record_lines import export_lines
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables import record_queries
from recall_loop.memory.store.tables.predicate import compile_predicate
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import RECORD_ADAPTER
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder

SINGLE = ["lives_in"]


def home(name, town, month, **more):
    return {
        "id": name,
        "kind": "fact",
        "text": f"Ann lives in {town}.",
        "subject": "Ann",
        "fact_type": "lives_in",
        "object": town,
        "created_at": f"2024-0{month}-01T00:00:00Z",
        **more,
    }


HOMES = [home("f1", "Oslo", 1), home("f2", "Bergen", 3), home("f3", "Narvik", 5)]


@pytest.fixture
def store():
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        yield opened


def found(store, **filters):
    return {
        hit.record.id
        for hit in search(store, "where does Ann live", params=SearchParams(filters=Filters(**filters))).hits
    }


def ends(store, scope=None):
    return {record.id: record.superseded_by for record in store.scan(scope) if record.kind == "fact"}


def test_searches_give_what_is_current_and_history_when_asked(store):
    """Proves: OPS-5, SEARCH-3, STORE-1."""
    for fact in HOMES:
        write_facts(store, [fact], single_valued=SINGLE)
    assert ends(store) == {"f1": "f2", "f2": "f3", "f3": None}
    assert found(store) == {"f3"}
    assert found(store, include_superseded=True) == {"f1", "f2", "f3"}
    assert found(store, as_of="2024-02-01T00:00:00Z") == {"f1"}
    assert found(store, as_of="2024-03-01T00:00:00Z") == {"f2"}  # the end is exclusive
    assert found(store, as_of="2023-01-01T00:00:00Z") == set()
    assert found(store, as_of="2024-04-01T00:00:00Z", include_superseded=True) == {"f1", "f2"}
    assert store.count() == 3 and store.count(filters=Filters()) == 1


def test_the_loop_recalls_what_is_current_and_marks_history(store):
    """Proves: OPS-5, OPS-1."""
    write_facts(store, HOMES, single_valued=SINGLE)
    result = retrieve("Where does Ann live?", store=store)
    assert [fact.id for fact in result.facts] == ["f3"]
    assert "Oslo" not in result.context
    asked = {"messages": [{"content": "Where does Ann live?"}], "filters": {"include_superseded": True}}
    result = retrieve(asked, store=store, settings=Settings(context_floor=0.0))
    assert {fact.id: fact.superseded_by for fact in result.facts} == {"f1": "f2", "f2": "f3", "f3": None}
    assert result.facts[0].id == "f3"  # what is current comes first
    assert "[f1] 2024-01-01, no longer true from 2024-03-01: Ann lives in Oslo." in result.context
    asked["filters"] = {"as_of": "2024-02-01T00:00:00Z"}
    assert [fact.id for fact in retrieve(asked, store=store).facts] == ["f1"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_order_of_writing_and_writing_again_change_nothing(store, order):
    """Proves: OPS-5, STORE-2."""
    for at in order:
        write_facts(store, [HOMES[at]], single_valued=SINGLE)
    before = list(store.scan())
    assert ends(store) == {"f1": "f2", "f2": "f3", "f3": None}
    for fact in HOMES:
        written = write_facts(store, [fact], single_valued=SINGLE)
        assert [outcome.status for outcome in written.outcomes] == ["unchanged"] and not written.superseded
    assert list(store.scan()) == before


@pytest.mark.parametrize(
    "other",
    [
        {"fact_type": "likes"},
        {"subject": "Bo"},
        {"user_id": "u2"},
        {"agent_id": "a2"},
        {"group_id": "g2"},
        {"fact_type": None},
        {"subject": None},
        {"object": "bergen"},
    ],
)
def test_other_slots_other_owners_and_equal_values_stand_beside_each_other(store, other):
    """Proves: OPS-5, STORE-3."""
    write_facts(store, [HOMES[1]], single_valued=SINGLE)
    new = {name: value for name, value in (home("x", "Narvik", 5) | other).items() if value is not None}
    assert not write_facts(store, [new], single_valued=SINGLE).superseded
    assert set(ends(store).values()) == {None}


def test_without_a_single_valued_type_nothing_is_superseded(store):
    """Proves: OPS-5."""
    write_facts(store, HOMES)
    store.upsert(HOMES)
    assert set(ends(store).values()) == {None}
    with pytest.raises(InvalidInputError, match="single_valued"):
        write_facts(store, HOMES, single_valued="lives_in")
    with pytest.raises(InvalidInputError, match=r"facts\.1"):
        write_facts(store, [home("x", "Oslo", 1), {"id": "y"}])
    assert store.count() == 3


def test_tenants_do_not_supersede_each_others_facts(store):
    """Proves: STORE-3."""
    for tenant, fact in (("a", HOMES[0]), ("b", HOMES[1])):
        write_facts(store, [fact], tenant=tenant, single_valued=SINGLE)
    assert ends(store, Scope(tenant="a")) == {"f1": None}


def test_nobody_knows_who_the_user_of_another_conversation_is(store):
    """Proves: OPS-5."""
    said = {"subject": "user", "conversation_id": "c1"}
    write_facts(store, [HOMES[0] | said], single_valued=SINGLE)
    assert not write_facts(store, [HOMES[1] | said | {"conversation_id": "c2"}], single_valued=SINGLE).superseded
    assert write_facts(store, [HOMES[2] | said], single_valued=SINGLE).superseded == ("f1",)
    named = said | {"user_id": "u1"}
    write_facts(store, [home("g1", "Oslo", 1) | named], single_valued=SINGLE)
    other = home("g2", "Bergen", 2) | named | {"conversation_id": "c2"}
    assert write_facts(store, [other], single_valued=SINGLE).superseded == ("g1",)


def test_deleting_gives_back_what_was_superseded(store):
    """Proves: OPS-5, STORE-2, STORE-6."""
    write_facts(store, HOMES, single_valued=SINGLE)
    store.delete(["f2"])
    assert ends(store) == {"f1": "f3", "f3": None}
    assert found(store, as_of="2024-04-01T00:00:00Z") == {"f1"}
    store.delete(["f3"])
    assert ends(store) == {"f1": None} and found(store) == {"f1"}
    (record,) = store.scan()
    assert record.valid_until is None
    write_facts(store, HOMES, single_valued=SINGLE)
    store.delete(["f3", "f2"])
    assert ends(store) == {"f1": None}


def test_on_disk_both_sides_agree_and_an_erased_conversation_leaves_no_copy(tmp_path):
    """Proves: STORE-4, STORE-6, OPS-5."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        write_facts(store, [HOMES[0] | {"conversation_id": "c1"}], single_valued=SINGLE)
        write_facts(store, [home("f-zanzibar", "Zanzibar", 3, conversation_id="c2")], single_valued=SINGLE)
        assert found(store) == {"f-zanzibar"} and store.maintenance.verify().sound
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        assert store.erase(Scope(conversation_id="c2")) == 1
        assert ends(store) == {"f1": None} and found(store) == {"f1"} and store.maintenance.verify().sound
        store.maintenance.compact()
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder(), read_only=True) as store:
        assert found(store) == {"f1"}
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert b"anzibar" not in path.read_bytes(), path


@pytest.mark.folder
def test_facts_keep_their_ends_over_export_and_a_lost_sidecar(tmp_path):
    """Proves: STORE-2, STORE-4."""
    with MemoryStore.open(tmp_path / "a", embedder=WordHashEmbedder()) as store:
        write_facts(store, HOMES, single_valued=SINGLE)
        lines = list(export_lines(store, Scope()))
        before = list(store.scan())
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as other:
        other.upsert(map(json.loads, lines))
        assert list(other.scan()) == before and found(other) == {"f3"}
    (tmp_path / "a" / "sidecar.sqlite3").unlink()
    with MemoryStore.open(tmp_path / "a", embedder=WordHashEmbedder()) as store:
        assert list(store.scan()) == before and found(store) == {"f3"}
        store.delete(["f3"])
        assert found(store) == {"f2"}


def test_a_fact_needs_an_end_to_be_superseded_and_other_kinds_have_none():
    """Proves: STORE-1."""
    for wrong in (
        home("f1", "Oslo", 1, superseded_by="f2"),
        home("f1", "Oslo", 1, superseded_by="f1", valid_until="2024-02-01T00:00:00Z"),
        {"id": "m", "kind": "message", "text": "Hi.", "valid_until": "2024-02-01T00:00:00Z"},
    ):
        with pytest.raises(ValueError, match=r"superseded_by|valid_until"):
            RECORD_ADAPTER.validate_python(wrong)


def test_writers_in_several_threads_leave_one_current_fact(store):
    """Proves: OPS-5, STORE-4."""
    facts = [home(f"f{month}", town, month) for month, town in enumerate(["Oslo", "Bergen", "Narvik", "Bodo"] * 2, 1)]
    threads = [
        threading.Thread(target=write_facts, args=(store, [fact]), kwargs={"single_valued": SINGLE}) for fact in facts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found(store) == {"f8"}
    assert ends(store) == {f"f{month}": f"f{month + 1}" if month < 8 else None for month in range(1, 9)}


def test_the_command_line_asks_for_history(tmp_path, capsys):
    """Proves: OPS-5, SEARCH-3."""
    with MemoryStore.open(tmp_path) as store:
        write_facts(store, HOMES, single_valued=SINGLE)
    asked = ["search", "where does Ann live", "--store", str(tmp_path), "--json"]

    def ids(*options):
        assert main([*asked, *options]) == 0
        return {hit["id"]: hit.get("superseded_by") for hit in json.loads(capsys.readouterr().out)["hits"]}

    assert ids() == {"f3": None}
    assert ids("--include-superseded") == {"f1": "f2", "f2": "f3", "f3": None}
    assert ids("--as-of", "2024-02-01T00:00:00Z") == {"f1": "f2"}
    assert main([*asked, "--as-of", "spring"]) == 2
    assert "--as-of" in capsys.readouterr().err


def test_the_command_line_shows_that_a_fact_has_ended(tmp_path, capsys):
    """Proves: OPS-5."""
    with MemoryStore.open(tmp_path) as store:
        write_facts(store, HOMES, single_valued=SINGLE)
    assert (
        main(["retrieve", "Where does Ann live?", "--store", str(tmp_path), "--filter", "include_superseded=true"]) == 0
    )
    assert "until 2024-03-01" in capsys.readouterr().out
    assert main(["search", "Where does Ann live?", "--store", str(tmp_path), "--include-superseded"]) == 0
    assert "until 2024-03-01" in capsys.readouterr().out


@pytest.mark.folder
def test_looking_for_what_facts_superseded_uses_its_index(store):
    """Proves: OPS-5 (a retrieval must not read all rows of a large tenant)."""
    write_facts(store, HOMES, single_valued=SINGLE)
    predicate = compile_predicate(Scope(user_id="u", agent_id="a"))
    query = record_queries.SUPERSEDED_SOURCES.format(where=predicate.where)
    params = (*predicate.params, "[]", "default", *predicate.params)
    with store._session.database.reading() as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", params)]
    lookups = [line for line in plan if line.startswith("SEARCH r")]
    assert len(lookups) == 2 and all("records_superseded" in line for line in lookups), plan
