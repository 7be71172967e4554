"""PostgreSQL's own lock between tenants, behind the predicate of every statement (HOST-5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.index import row_queries
from recall_loop.memory.store.postgres.postgres_schema import GUARDED
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables import record_queries
from recall_loop.memory.store.tables.attribute_index import declare_paths, indexed_paths
from recall_loop.memory.store.tables.predicate import compile_predicate
from recall_loop.state.scope import Filters, Scope
from tests.embedders import WordHashEmbedder
from tests.foreign.postgres_backend import PostgresServer

MINE, THEIRS = "mine", "theirs"


@contextmanager
def served(postgres: PostgresServer, name: str) -> Iterator[MemoryStore]:
    """Open a new store of two tenants that a role serves which is no superuser."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'server'").fetchone():
            connection.execute("CREATE ROLE server LOGIN")
        connection.execute(f"CREATE DATABASE {name} OWNER server".encode())
    place = postgres.url.replace("postgres:@", "server@").replace("/postgres?", f"/{name}?")
    with MemoryStore.open(place, embedder=WordHashEmbedder(), indexed_attributes=["team", "size"]) as opened:
        for tenant in (MINE, THEIRS):
            records = [
                {"id": "a", "text": f"{tenant} ferry", "tags": ["t"], "agent_id": "g", "group_id": "h"},
                {"id": "b", "text": f"{tenant} lantern", "session": "s"},
                {"id": "c", "text": f"{tenant} moved", "subject": "x", "fact_type": "y", "object": "z"},
            ]
            records[0]["attributes"] = {"team": tenant, "size": len(tenant)}
            opened.upsert(records, tenant=tenant)
            opened.update("a", {"text": f"{tenant} harbour"}, tenant=tenant)
            opened.delete(["b"], tenant=tenant)
            opened.maintenance.add_recalls([(tenant, "a", 1, 1)])
        yield opened


@pytest.fixture
def store(postgres: PostgresServer) -> Iterator[MemoryStore]:
    with served(postgres, "served") as opened:
        yield opened


@pytest.fixture(scope="module")
def embedding(postgres: PostgresServer) -> Iterator[MemoryStore]:
    """A store, not to be written to, whose new vectors are all kept aside, as embedding was cut off."""

    def stop(done: int, total: int) -> None:
        if done == total:
            raise InterruptedError

    with served(postgres, "embedding") as opened:
        with pytest.raises(InterruptedError):
            opened.maintenance.rebuild(embedder=WordHashEmbedder(), embedding=stop)
        yield opened


def test_a_statement_without_its_predicate_gives_the_tenants_own_rows_only(store: MemoryStore) -> None:
    """Proves: HOST-5. The real reads, with the condition taken out of them."""
    tables = store._session.database.for_tenant(MINE)
    whole = replace(compile_predicate(Scope(tenant=MINE)), where="1 = 1", params=())
    read = list(record_queries.iterate_records(tables, whole))
    assert {record.text for record in read} == {"mine harbour", "mine moved"}
    assert record_queries.count_matching(tables, whole) == 2
    assert record_queries.list_tenants(tables) == [MINE]
    assert len(row_queries.matching_rowids(tables, whole)) == 2
    assert len(row_queries.read_posting(tables, (), "lantern")) == 0
    assert len(row_queries.read_posting(tables, (), "harbour")) == 1
    every = store._session.database
    assert record_queries.count_matching(every, whole) == 4 and record_queries.list_tenants(every) == [MINE, THEIRS]


@pytest.mark.parametrize("table", [*GUARDED, "reembedded"])
def test_every_table_of_rows_is_guarded(embedding: MemoryStore, table: str) -> None:
    """Proves: HOST-5. One tenant's connections see less than all, none sees anything before it names a tenant."""
    database = embedding._session.database
    counts = {tenant: database.for_tenant(tenant).fetch(f"SELECT tenant FROM {table}") for tenant in (MINE, THEIRS)}
    assert all({row[0] for row in rows} <= {tenant} for tenant, rows in counts.items())
    assert sum(map(len, counts.values())) == len(database.fetch(f"SELECT tenant FROM {table}"))
    if table not in ("pieces", "tokens"):  # these records have none
        assert all(counts.values())
    with database.reading() as connection:
        connection.raw.execute("SELECT set_config('recall_loop.tenant', '', false)")
        assert connection.raw.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,)
        connection.raw.execute("SELECT set_config('recall_loop.tenant', '*', false)")


def test_the_guard_costs_no_answer(store: MemoryStore) -> None:
    """Proves: HOST-5. Searches, reads and deletions of a tenant work as without it."""
    for tenant in (MINE, THEIRS):
        hits = search(store, "harbour", scope=Scope(tenant=tenant)).hits
        assert hits[0].record.text == f"{tenant} harbour"
        assert len(store.history("a", tenant=tenant)) == 1
    assert store.erase(Scope(tenant=MINE)) == 2
    assert list(store.scan(Scope(tenant=MINE))) == [] and len(list(store.scan(Scope(tenant=THEIRS)))) == 2
    assert store.maintenance.verify().findings == ()


def test_a_tenant_whose_name_looks_like_the_setting_sees_itself_only(store: MemoryStore) -> None:
    """Proves: HOST-5."""
    for tenant in ("*", "=", "=mine"):
        store.upsert([{"id": "a", "text": f"of {tenant}"}], tenant=tenant)
        tables = store._session.database.for_tenant(tenant)
        assert tables.fetch("SELECT tenant FROM records") == [(tenant,)]


CONDITIONS = [
    ({"team": MINE}, 2),
    ({"team": {"in": [MINE, THEIRS]}}, 2),
    ({"size": {"gte": 4, "lt": 5}}, 2),
    ({"team": {"lte": "n"}, "size": {"exists": True}}, 2),
    ({"long": "x" * 300 + "1"}, 1),
    ({"long": {"gt": "x" * 300 + "1", "lt": "y"}}, 2),
    ({"long": {"lt": "x" * 300 + "2", "ne": None}}, 1),
]


@pytest.fixture(scope="module")
def measured(postgres: PostgresServer) -> Iterator[MemoryStore]:
    """A store with enough attributes that PostgreSQL looks them up, not to be written to."""
    long = "x" * 300
    attributes = [{"long": f"{long}{at}"} for at in (1, 2, 3)] + [{"team": MINE, "size": 4}]
    attributes += [{"team": f"t{at}", "size": at, "long": f"y{at}"} for at in range(5, 505)]
    records = [{"id": f"d{at}", "text": str(at), "attributes": one} for at, one in enumerate(attributes)]
    with served(postgres, "measured") as opened:
        for tenant in (MINE, THEIRS):
            opened.upsert(records, tenant=tenant)
        yield opened


@pytest.mark.parametrize(("conditions", "count"), CONDITIONS)
def test_declared_attributes_are_looked_up_behind_the_guard(
    measured: MemoryStore, conditions: dict[str, object], count: int
) -> None:
    """In their index, by what PostgreSQL may work out before it has asked who sees a row. Proves: HOST-5, API-4."""
    tables = measured._session.database
    declare_paths(tables, ["team", "size", "long"])
    tables.compact()
    filters = Filters(attributes=conditions)
    assert measured.count(Scope(tenant=MINE), filters) == count
    seen = tables.for_tenant(MINE)
    predicate = compile_predicate(Scope(tenant=MINE), filters, indexed=indexed_paths(tables), dialect=tables.dialect)
    plan = "\n".join(
        line
        for (line,) in seen.fetch(f"EXPLAIN SELECT r.rowid FROM records r WHERE {predicate.where}", predicate.params)
    )
    assert "using attribute_values_pkey" in plan and "Seq Scan on bodies" not in plan
    condition = next(line for line in plan.splitlines() if "Index Cond" in line and "path = " in line)
    assert "value" in condition or "exists" in str(conditions)
    query = f"SELECT r.id FROM records r WHERE {predicate.where} ORDER BY r.id"
    before = seen.fetch(query, predicate.params)
    declare_paths(tables, [])  # between a look at what is declared and a query
    assert len(before) == count and seen.fetch(query, predicate.params) == before
