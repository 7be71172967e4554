"""The wall between tenants, method by method: nothing of another tenant comes out, not even through a neighbour.

The tables below name every public method of the store and its view. One that is new and stands in none of them
fails `test_every_public_method_is_proven`: give it an entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from recall_loop.memory.intake.files.record_lines import export_lines
from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.encoding.indexing import supersession_key_of
from recall_loop.memory.store.index.caches import row_limits
from recall_loop.memory.store.index.indexed_row import Row
from recall_loop.memory.store.index.view import View
from recall_loop.memory.store.maintenance import Maintenance
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.records.records import Record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType, SearchMode
from tests.embedders import WordHashEmbedder

SECRET = "xyzzy"
MINE = Scope(tenant="mine")
KINDS = list(ContentType)
EVERY_RECORD = [f"m{at}" for at in range(8)] + ["f0", "n0", "t0", "only-theirs"]


def record(record_id: str, kind: str, word: str, at: int, **more: Any) -> dict[str, Any]:
    """Return a record that has `word` in every field that can hold words."""
    return {
        "id": record_id,
        "kind": kind,
        "text": f"ferry lamp {word}text bread",
        "subject": f"{word}subject",
        "label": f"{word}label",
        "author": f"{word}author",
        "fact_type": f"{word}type",
        "object": f"{word}object",
        "attributes": {f"{word}key": f"{word}value", "outcome_score": 0.5},
        "tags": ["shared", f"{word}tag"],
        "agent_id": "a1",
        "agent_name": f"{word}name",
        "group_id": "g1",
        "user_id": "u1",
        "conversation_id": "c1",
        "session": "s1",
        "position": at,
        "source_ids": [f"{word}source"],
        "created_at": None,
    } | more


def batch(word: str, *, shift: int) -> list[dict[str, Any]]:
    """Return records of one tenant; turns of two tenants would alternate in one conversation."""
    turns = [record(f"m{at}", "message", word, 2 * at + shift) for at in range(8)]
    return [
        *turns,
        record("f0", "fact", word, 0),
        record("n0", "archival", word, 0, agent_id="a2"),
        record("t0", "trajectory", word, 0, agent_id="a3", group_id="g2", text=f"{word}text ferry lamp\n" * 80),
        record("f1", "fact", word, 0, superseded_by="f0", valid_until="2024-05-01T00:00:00Z"),
    ]


OWN = batch("own", shift=0)
THEIRS = [*batch(SECRET, shift=1), record("only-theirs", "fact", SECRET, 0, agent_id="a9", group_id="g1")]


# Stores in every state


def fill(store: MemoryStore, *, theirs: bool) -> None:
    """Write both tenants; neighbours are replaced and removed so that windows are made again."""
    store.upsert(OWN, tenant="mine")
    if theirs:
        store.upsert(THEIRS, tenant="theirs")
        store.upsert([{**THEIRS[3], "text": f"{SECRET}changed ferry"}], tenant="theirs")
        store.count_recalls([one["id"] for one in THEIRS], tenant="theirs")
    store.upsert([{**OWN[2], "text": "ferry changed"}], tenant="mine")
    store.delete(["m5"], tenant="mine")
    if theirs:
        store.delete(["m6"], tenant="theirs")


@contextmanager
def fresh(path: Path, theirs: bool) -> Iterator[MemoryStore]:
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        fill(store, theirs=theirs)
        yield store


@contextmanager
def rebuilt(path: Path, theirs: bool) -> Iterator[MemoryStore]:
    with fresh(path, theirs) as store:
        store.maintenance.rebuild()
        yield store


@contextmanager
def embedded_anew(path: Path, theirs: bool) -> Iterator[MemoryStore]:
    with fresh(path, theirs) as store:
        store.maintenance.rebuild(embedder=WordHashEmbedder())
        yield store


@contextmanager
def without_chroma(path: Path, theirs: bool) -> Iterator[MemoryStore]:
    with fresh(path, theirs) as store:
        store._session.connection.degrade(ChromaError("gone"))
        assert store.degraded_reason
        yield store


@contextmanager
def reopened(path: Path, theirs: bool) -> Iterator[MemoryStore]:
    folder = path / f"store-{theirs}"
    with MemoryStore.open(folder, embedder=WordHashEmbedder()) as store:
        fill(store, theirs=theirs)
        store.maintenance.compact()
    with MemoryStore.open(folder, embedder=WordHashEmbedder(), read_only=True) as store:
        yield store


STATES = {way.__name__: way for way in (fresh, rebuilt, embedded_anew, without_chroma, reopened)}
CACHES: dict[str, dict[str, int]] = {
    "cached": {},
    "read": {"CACHED_ROWS": 0, "INDEXED_ROWS": 0},
    "nearest": {"CACHED_ROWS": 0, "INDEXED_ROWS": 0, "SCANNED_ROWS": 0, "READ_ROWS": 0},
}


# What each method gives


def responses(store: MemoryStore) -> Iterator[Any]:
    """Every search that can be asked for, also with the other tenant's words, agents and conversations."""
    queries = ["ferry", f"{SECRET}text {SECRET}author", "lamp bread", f"{SECRET}changed"]
    misspelt = [f"{SECRET}txt ferri", "lapm", f"{SECRET}chnged"]
    scopes = [
        MINE,
        Scope(tenant="mine", agent_id="a1", mode="constellation"),
        Scope(tenant="mine", conversation_id="c1"),
    ]
    for mode in SearchMode:
        for scope in scopes:
            options = SearchParams(content_types=KINDS, mode=mode, limit=100, debug=True)
            for found in search_many(store, queries, scope=scope, params=options):
                yield found.allowed, found.legs, [plain(hit) for hit in found.hits]
    for fuzzy in (1, 2):
        options = SearchParams(content_types=KINDS, mode=SearchMode.HYBRID, fuzzy=fuzzy, limit=100)
        for found in search_many(store, misspelt, scope=MINE, params=options):
            typed = set(found.query.split())
            mended = [word for word in (found.corrected or "").split() if word not in typed]
            yield mended, [plain(hit) for hit in found.hits]


def pooled(view: View) -> Any:
    """What the in-memory index tells of the rows that it is asked for."""
    index = view.index_of(view.rowids())
    positions = index.positions(view.rowids())
    names = {column: sorted(values) for column, values in index.codes.names.items()}
    return index.columns.rowids[positions], index.own_lengths[positions], index.window_lengths[positions], names


VIEW = Filters(tags=("shared",))
FOREIGN_FILTERS = [Filters(tags=(f"{SECRET}tag",)), Filters(label=f"{SECRET}label"), Filters(agent_ids=("a9",))]

FACTS = [one for one in (*OWN, *THEIRS) if one["kind"] == "fact"]
SCOPES = [MINE, Scope(tenant="mine", user_id="u1", conversation_id="c1"), Scope(tenant="mine", agent_id="a9")]
ATTRIBUTES = ["ownkey", f"{SECRET}key", "outcome_score"]

# Methods that read for one tenant: what they give is the same with and without another tenant beside it.
STORE_READS: dict[str, Callable[[MemoryStore], Any]] = {
    "get": lambda store: store.get(EVERY_RECORD, scope=MINE),
    "history": lambda store: [
        version.model_dump(exclude={"changed_at"})
        for record_id in EVERY_RECORD
        for version in store.history(record_id, tenant="mine")
    ],
    "newest": lambda store: [store.newest(MINE, limit=3).records, store.newest(MINE).records],
    "recalls": lambda store: [store.recalls(name, scope=MINE).times for name in EVERY_RECORD],
    "expired_ids": lambda store: store.expired_ids(MINE),
    "count": lambda store: [store.count(MINE)] + [store.count(MINE, filters) for filters in FOREIGN_FILTERS],
    "scan": lambda store: [list(store.scan(MINE)), [list(store.scan(MINE, filters)) for filters in FOREIGN_FILTERS]],
    "page": lambda store: [store.page(MINE, limit=3).records, store.page(MINE, after="m").records],
    "overview": lambda store: [store.overview(scope) for scope in SCOPES],
    "relations": lambda store: [store.relations(name, scope=scope) for scope in SCOPES for name in EVERY_RECORD],
    "view": lambda store: [view.count() for view in views(store)],
    "facts_by_key": lambda store: store.facts_by_key("mine", [supersession_key_of(one) for one in FACTS]),
    "superseded_sources": lambda store: [store.superseded_sources(scope, EVERY_RECORD) for scope in SCOPES],
    "next_position": lambda store: [
        store.next_position(scope, session) for scope in SCOPES for session in ("s1", "s2")
    ],
    "distinct_attribute": lambda store: [store.distinct_attribute(name, MINE) for name in ATTRIBUTES],
}
VIEW_READS: dict[str, Callable[[View], Any]] = {
    "tenant": lambda view: view.tenant,
    "snapshot_view": lambda view: list(view.snapshot_view().rows(range(100)).values()),
    "count": lambda view: view.count(),
    "rowids": lambda view: view.rowids(),
    "rows": lambda view: list(view.rows(range(100)).values()),
    "vectors": lambda view: view.vectors(range(1, 100)),
    "scan": lambda view: (found := view.scan(asked_vectors())) and (found.rowids, found.top_rowids(0, 3)),
    "pieces": lambda view: view.pieces(),
    "pieces_of": lambda view: view.pieces_of(np.arange(1, 100)),
    "index_of": pooled,
    "derived_from_vocabulary": lambda view: view.derived_from_vocabulary(sorted),
    "top_by_stems": lambda view: view.top_by_stems([(f"{SECRET}text", 2.0), ("ferri", 1.5), ("lamp", 1.0)], 100),
    "nearest": lambda view: view.nearest(asked_vectors(), 100),
    "newest": lambda view: view.newest(100),
    "document_frequency": lambda view: view.document_frequency(["ferri", f"{SECRET}text", "lamp"]).values(),
    "frequency_within": lambda view: view.frequency_within(["ferri", f"{SECRET}text", "lamp"]).values(),
    "corpus": lambda view: view.corpus(),
}
# Functions over a store that give records.
OUTSIDE = {
    "search": lambda store: plain(search(store, "ferry", scope=MINE).hits),
    "search_many": lambda store: list(responses(store)),
    "export_lines": lambda store: list(export_lines(store, MINE)),
}
PARTS: list[dict[str, str]] = [{"agent_id": "a9"}, {"conversation_id": "c1", "agent_id": "a2"}, {"user_id": "u1"}, {}]
# Methods that change one tenant's records; none may touch, move or reveal another's.
STORE_WRITES: dict[str, Callable[[MemoryStore], Any]] = {
    "upsert": lambda store: store.upsert([{**one, "text": "overwritten"} for one in THEIRS[:9]], tenant="mine"),
    "delete": lambda store: store.delete(EVERY_RECORD, tenant="mine"),
    "prolong": lambda store: store.prolong(
        dict.fromkeys(EVERY_RECORD, datetime(2999, 1, 1, tzinfo=UTC)), tenant="mine"
    ),
    "count_recalls": lambda store: store.count_recalls(EVERY_RECORD, tenant="mine"),
    "update": lambda store: store.update("m3", {"text": "overwritten"}, tenant="mine"),
    "forget": lambda store: [
        [store.forget(Scope(tenant="mine", **part), content_types=KINDS, dry_run=dry) for dry in (True, False)]
        for part in PARTS
    ],
    "erase": lambda store: [store.erase(Scope(tenant="mine", **part)) for part in PARTS],
}
# Methods that are about the store as a whole: what they give holds no word of any record.
STORE_WHOLE: dict[str, Callable[[MemoryStore], Any]] = {
    "generation": lambda store: store.generation,
    "dimension": lambda store: store.dimension,
    "degraded_reason": lambda store: store.degraded_reason,
    "degraded_detail": lambda store: store.degraded_detail,
    "tenants": lambda store: store.tenants(),
}


def backed_up(store: MemoryStore) -> Any:
    """Return what a backup of a store says."""
    with TemporaryDirectory() as folder:
        return store.maintenance.backup(Path(folder) / "copy")


MAINTENANCE: dict[str, Callable[[MemoryStore], Any]] = {
    "backup": backed_up,
    "tenants": lambda store: store.maintenance.tenants(),
    "info": lambda store: store.maintenance.info(),
    "rebuild": lambda store: store.maintenance.rebuild(),
    "compact": lambda store: store.maintenance.compact(),
    "sweep": lambda store: store.maintenance.sweep(),
    "verify": lambda store: store.maintenance.verify(),
    "drop_token_vectors": lambda store: store.maintenance.drop_token_vectors(),
    "size": lambda store: store.maintenance.size(),
    "url": lambda store: store.maintenance.url,
}
# Machinery: it opens, closes or stands between the parts, and gives no record to anybody.
STORE_MACHINERY = frozenset(
    [
        "exclusive",
        "exists",
        "open",
        "from_settings",
        "in_memory",
        "in_memory_from_settings",
        "opened_with",
        "check_settings",
        "close",
        "embedder",
        "token_source",
        "writable",
        "in_place",
    ]
)
# Notes are what a caller noted of itself; ingest notes how far files are done, without their text.
MAINTENANCE_MACHINERY = {"add_recalls", "make_token_vectors", "probe", "note", "set_note"}


def views(store: MemoryStore) -> list[View]:
    scopes = [MINE, Scope(tenant="mine", agent_id="a1"), Scope(tenant="mine", agent_id="a1", mode="constellation")]
    plain_views = [store.view(scope) for scope in scopes]
    return [*plain_views, store.view(MINE, VIEW, ["message"]), *(store.view(MINE, one) for one in FOREIGN_FILTERS)]


def asked_vectors() -> np.ndarray:
    return WordHashEmbedder().embed_queries(["ferry lamp", f"{SECRET}text {SECRET}author:"])


def plain(value: Any) -> Any:
    """Return everything that a value shows, as plain Python."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Row):
        return [plain(getattr(value, name)) for name in ("rowid", "kind", "window", "record", "term_count")]
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if is_dataclass(value) and not isinstance(value, type):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, np.ndarray):
        return np.round(value.astype(float), 5).tolist()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


def assert_silent(value: Any) -> None:
    """Look through what `plain` made."""
    assert SECRET not in json.dumps(value).lower()


# The proofs


def public(kind: type) -> set[str]:
    """The names of a class that callers may use: methods and properties."""
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_public_method_is_proven() -> None:
    """Proves: STORE-3 (a method that is new has to have an entry in one of the tables)."""
    entries = [*STORE_READS, *STORE_WRITES, *STORE_WHOLE, *STORE_MACHINERY]
    assert len(entries) == len(set(entries))
    assert public(MemoryStore) == set(entries)
    assert public(Maintenance) == {*MAINTENANCE, *MAINTENANCE_MACHINERY}
    assert public(View) == set(VIEW_READS)


@pytest.fixture(params=[(state, held) for state in STATES for held in CACHES], ids=lambda pair: f"{pair[0]}-{pair[1]}")
def pair(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[MemoryStore, MemoryStore]]:
    """A store of two tenants, and one that has only the first."""
    state, held = request.param
    for name, value in CACHES[held].items():
        monkeypatch.setattr(row_limits, name, value)
    way = STATES[state]
    with way(tmp_path, theirs=True) as shared, way(tmp_path, theirs=False) as alone:
        yield shared, alone


def test_nothing_of_another_tenant_comes_out(pair: tuple[MemoryStore, MemoryStore]) -> None:
    """Each method gives what it would give without the other tenant. Proves: STORE-3, STORE-7, SEARCH-4, SEARCH-9."""
    shared, alone = pair
    for name, read in {**STORE_READS, **OUTSIDE}.items():
        given, expected = plain(read(shared)), plain(read(alone))
        assert_silent(given)
        assert given == expected, name
    for view, lonely in zip(views(shared), views(alone), strict=True):
        for name, look in VIEW_READS.items():
            given, expected = plain(look(view)), plain(look(lonely))
            assert_silent(given)
            assert given == expected, name


def test_the_reads_do_read() -> None:
    """Both tenants are seen by themselves: else the proof above would prove nothing. Proves: STORE-3."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        fill(store, theirs=True)
        assert len(store.get(EVERY_RECORD, scope=MINE)) == 10
        windows = [row.window for row in store.view(MINE).rows(range(100)).values()]
        assert any("owntext" in window and "\n" in window for window in windows)
        theirs = list(store.scan(Scope(tenant="theirs")))
        assert len(theirs) == 12
        with pytest.raises(AssertionError):
            assert_silent(plain(theirs))
        assert all(pooled(view) for view in views(store))
        assert [len(view.pieces_of(np.arange(1, 100)).rowids) for view in views(store)].count(1) >= 1
        found = {
            name: STORE_READS[name](store) for name in ("superseded_sources", "next_position", "distinct_attribute")
        }
        assert found["superseded_sources"][0] == {"ownsource": ("f0", "2024-05-01T00:00:00Z")}
        assert found["next_position"] == [15, 0, 15, 0, 0, 0]
        assert found["distinct_attribute"] == [["ownvalue"], [], [0.5]]
        assert sorted(one.id for facts in STORE_READS["facts_by_key"](store).values() for one in facts) == ["f0", "f1"]


def test_token_vectors_and_reranking_stay_inside(embedder: MiniLmEmbedder) -> None:
    """Rows of another tenant are asked for by number, and give nothing. Proves: STORE-3, STORE-7."""
    options = SearchParams(content_types=KINDS, rerank=True, rerank_budget_ms=60_000, limit=100, debug=True)
    given = []
    for theirs in (True, False):
        with MemoryStore.in_memory(embedder=embedder) as store:
            fill(store, theirs=theirs)
            source = store.token_source("mine")
            assert source is not None
            mine = {int(rowid) for rowid in store.view(MINE).rowids()}
            everything = range(100)
            neighbours = source.neighbours(everything)
            assert {at for pair in neighbours.values() for at in pair} <= mine | {None}
            assert set(neighbours) | set(source.tokens(everything)) <= mine == set(source.texts(everything))
            hits = search(store, "ferry lamp", scope=MINE, params=options).hits
            given.append(plain([hits, source.texts(everything), neighbours]))
    assert_silent(given)
    assert given[0] == given[1]


@pytest.mark.parametrize("name", STORE_WRITES)
def test_no_write_touches_another_tenant(name: str) -> None:
    """Ids are those of the other tenant. Proves: STORE-3, STORE-7."""

    def seen(store: MemoryStore) -> Any:
        scope = Scope(tenant="theirs")
        view = store.view(scope)
        return plain([list(store.scan(scope)), view.vectors(view.rowids()), list(view.rows(view.rowids()).values())])

    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        fill(store, theirs=True)
        before = seen(store)
        assert_silent(plain(STORE_WRITES[name](store)))
        assert seen(store) == before
        assert_silent(plain(list(store.scan(MINE)))) if name != "upsert" else None


@pytest.mark.parametrize("read", [*STORE_WHOLE.values(), *MAINTENANCE.values()], ids=[*STORE_WHOLE, *MAINTENANCE])
def test_what_is_said_of_the_whole_store_holds_no_words(read: Callable[[MemoryStore], Any]) -> None:
    """Proves: STORE-3."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        fill(store, theirs=True)
        assert_silent(plain(read(store)))


def test_a_scope_that_names_nobody_sees_nothing() -> None:
    """Tenants whose names look alike are others. Proves: STORE-3."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        fill(store, theirs=True)
        for tenant in ("Mine", "mine ", "m%", "min_", "*", "theirs' OR '1'='1", "default"):
            scope = Scope(tenant=tenant)
            assert store.count(scope) == 0
            assert store.get(EVERY_RECORD, scope=scope) == []
            assert list(store.scan(scope)) == []
            for mode in SearchMode:
                found = search(store, f"ferry {SECRET}text", scope=scope, params=SearchParams(mode=mode))
                assert (found.hits, found.allowed) == ((), 0)


def test_records_are_what_the_tables_say() -> None:
    """Every field of a record holds the secret or is one that both tenants share. Proves: STORE-3."""
    shared = {"id", "kind", "agent_id", "group_id", "user_id", "conversation_id", "session", "position"}
    left_out = {"blocks", "confidence", "role", "language", "created_at", "updated_at", "expires_at"}
    worded = {name for name, value in THEIRS[0].items() if SECRET in json.dumps(value)}
    assert worded | shared | left_out == set(Record.model_fields)
