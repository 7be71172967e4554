"""Filters of attributes against a plain oracle: with indexes, without, and with indexes that are made and dropped."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables.attribute_index import declare_paths, indexed_paths
from recall_loop.state.attribute_filters import split_path
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType
from tests.attribute_oracle import ABSENT, attribute_filters, names_of, value_at, wanted_attributes
from tests.embedders import WordHashEmbedder

ODD = "q\"u'o\\te] --"
NAMES = ["team", "a.b", ODD, "größe", "x\ny", "$", "0", "team' OR 1=1 --", "\u00a0"]
PATHS = [name.replace("\\", "\\\\").replace(".", "\\.") for name in NAMES]
NESTED = [f"{PATHS[0]}.{PATHS[1]}", f"{PATHS[2]}.{PATHS[0]}", "team.team.team", "lost", "lost.team", "team.0"]
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = [
    0,
    -0.0,
    1,
    1.0,
    -1,
    2**53,
    2**53 + 1,
    2.0**53,
    2**63 - 1,
    -(2**63),
    0.1 + 0.2,
    1e22,
    5e-324,
    1.7976931348623157e308,
]
TEXTS = [
    "",
    "a",
    "A",
    "1",
    "1.0",
    "true",
    "null",
    "é",
    "\U0001f600",
    "\uffff",
    "a'b",
    'a"b',
    "a\\u0062",
    "x'00'",
    "\x00"[1:],
]
SCALARS = [*WHOLE, *TEXTS, True, False, None]
VALUES = st.recursive(
    st.one_of(st.sampled_from(SCALARS), FLOATS, st.integers(-(2**63), 2**63 - 1)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)),
    max_leaves=6,
)
ATTRIBUTES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
MINE = Scope(tenant="mine")


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Draw attributes of some records, filters that use values of theirs, and paths with an index."""
    records = draw(st.lists(ATTRIBUTES, min_size=1, max_size=8))
    used = [value for one in records for value in one.values() if isinstance(value, int | float | str)]
    filters = attribute_filters([*PATHS, *NESTED], [*SCALARS, *used])
    return (
        records,
        draw(st.lists(filters, min_size=1, max_size=6)),
        draw(st.lists(st.sampled_from([*PATHS, *NESTED]), unique=True)),
    )


def found(store: MemoryStore, conditions: dict[str, Any]) -> list[int]:
    """Return the numbers of the records that pass, after every way to read has said the same."""
    filters = Filters(attributes=conditions)
    ids = [record.id for record in store.scan(MINE, filters)]
    assert store.count(MINE, filters) == len(ids)
    assert sorted(ids) == [record.id for record in store.page(MINE, filters).records]
    params = SearchParams(filters=filters, content_types=tuple(ContentType), limit=100)
    assert {hit.record.id for hit in search(store, "ferry", scope=MINE, params=params).hits} == set(ids)
    return [int(name) for name in ids]


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(case=cases())
def test_filters_give_what_plain_python_gives(case: Any) -> None:
    """Whatever is declared, and also after records were replaced and deleted. Proves: API-4."""
    records, asked, declared = case
    with MemoryStore.in_memory(embedder=WordHashEmbedder(), indexed_attributes=declared) as store:
        for tenant in ("mine", "theirs"):
            store.upsert([written(number, one) for number, one in enumerate(records)], tenant=tenant)
        compare(store, dict(enumerate(records)), asked)
        turned = dict(enumerate(reversed(records)))
        store.upsert([written(number, one) for number, one in turned.items()], tenant="mine")
        store.delete(["0"], tenant="mine")
        del turned[0]
        compare(store, turned, asked)
        declare_paths(store._session.database, ["team", PATHS[2]])
        assert set(indexed_paths(store._session.database)) == {"team", PATHS[2]}
        store._session.cache.clear()
        compare(store, turned, asked)


def written(number: int, attributes: dict[str, Any]) -> dict[str, Any]:
    return {"id": str(number), "kind": "fact", "text": f"ferry {number}", "attributes": attributes}


def as_json(values: Iterable[Any]) -> set[str]:
    return {json.dumps(value, sort_keys=True) for value in values}


def compare(store: MemoryStore, records: dict[int, dict[str, Any]], asked: list[dict[str, Any]]) -> None:
    for conditions in asked:
        wanted = [number for number, one in records.items() if wanted_attributes(one, conditions)]
        assert sorted(found(store, conditions)) == sorted(wanted)
    for path in (*PATHS, *NESTED):
        values = (value_at(one, path) for one in records.values())
        assert as_json(store.distinct_attribute(path, MINE)) == as_json(one for one in values if one is not ABSENT)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), min_size=1, max_size=10
    )
)
def test_any_names_make_a_path(names: list[str]) -> None:
    """Proves: API-4."""
    path = ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in names)
    if len(path) <= 512:
        assert list(split_path(path)) == names
        assert "\1" in path or names_of(path) == names


@settings(max_examples=50)
@given(FLOATS)
def test_every_number_equals_itself_in_the_store(number: float) -> None:
    """SQLite reads both from the same digits. Proves: API-4."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder(), indexed_attributes=["n"]) as store:
        store.upsert([written(0, {"n": number})], tenant="mine")
        for path in ("n", "team"):
            declare_paths(store._session.database, [path])
            assert found(store, {"n": number}) == [0]
            assert found(store, {"n": {"gte": number, "lte": number}}) == [0]
            assert found(store, {"n": {"gt": number}}) == []
            if abs(number) < 1e308:
                assert found(store, {"n": {"lt": number + math.copysign(max(abs(number), 1), 1)}}) == [0]
