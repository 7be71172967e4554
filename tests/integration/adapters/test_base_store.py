"""LangGraph's store on Recall Loop: its documented semantics, its own in-memory store beside it, and langmem's tools.

LangGraph's own tests of its stores run on it too, out of LangGraph's source package (`make store-conformance`).
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import UserDict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from recall_loop import InvalidInputError, MemoryStore, RecallLoopStore, Scope, retrieve
from tests.embedders import WordHashEmbedder


@pytest.fixture
def memory():
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        yield opened


@pytest.fixture
def items(memory):
    return RecallLoopStore(memory, tenant="acme")


def keys(found):
    return [item.key for item in found]


def test_an_item_is_put_replaced_and_deleted(items):
    """Proves: OPS-5."""
    items.put(("users", "ann"), "home", {"town": "Oslo", "since": 2020, "tags": ["a", {"b": None}], "flat": True})
    first = items.get(("users", "ann"), "home")
    assert first.value == {"town": "Oslo", "since": 2020, "tags": ["a", {"b": None}], "flat": True}
    assert (first.key, tuple(first.namespace)) == ("home", ("users", "ann"))
    items.put(("users", "ann"), "home", {"town": "Bergen"})
    second = items.get(("users", "ann"), "home")
    assert second.value == {"town": "Bergen"} and second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    assert items.get(("users",), "home") is None and items.get(("users", "ann"), "x") is None
    items.delete(("users", "ann"), "home")
    items.delete(("users", "ann"), "home")
    assert items.get(("users", "ann"), "home") is None and items.search(()) == []


def test_a_search_is_by_words_and_meaning_within_a_namespace(items):
    """Proves: OPS-5, SEARCH-6."""
    items.put(("users", "ann"), "a", {"content": "Ann rows a red boat"})
    items.put(("users", "ann", "old"), "b", {"content": "Ann had a bicycle"})
    items.put(("users", "anna"), "c", {"content": "Anna rows a red boat"})
    items.put(("users", "bo"), "d", {"content": "Bo rows a red boat"})
    found = items.search(("users", "ann"), query="red boat")
    assert keys(found) == ["a", "b"] and found[0].score > found[1].score >= 0.0
    assert found[0].value == {"content": "Ann rows a red boat"} and found[0].score <= 1.0
    assert (
        keys(items.search(("users",), query="red boat", limit=2, offset=1))
        == keys(items.search(("users",), query="red boat", limit=10))[1:3]
    )
    assert set(keys(items.search(()))) == {"a", "b", "c", "d"}
    assert keys(items.search(("users",), limit=2, offset=1)) == ["b", "c"]
    assert items.search(("nobody",), query="red boat") == []
    assert keys(items.search(("users", "bo"), query="red boat < 3 days")) == ["d"]  # words, not a time


def test_only_the_fields_that_are_named_are_indexed(memory):
    """Proves: OPS-5."""
    items = RecallLoopStore(memory, fields=["title"])
    items.put(("d",), "default", {"title": "gulls", "body": "zeppelin", "parts": [{"t": "lamp"}, {"t": "bread"}]})
    items.put(("d",), "parts", {"title": "gulls", "body": "zeppelin", "parts": [{"t": "lamp"}]}, index=["parts[*].t"])
    items.put(("d",), "none", {"title": "zeppelin lamp gulls"}, index=False)
    texts = {record.attributes["langgraph_store"]["key"]: record.text for record in memory.scan()}
    assert texts == {"default": "gulls", "parts": "lamp", "none": "none"}
    found = {item.key: item.score for item in items.search(("d",), query="lamp")}
    assert found["parts"] > found["default"] and found["none"] is None
    assert keys(items.search(("d",), query="zeppelin", limit=2)) != ["none"]
    assert items.get(("d",), "none").value == {"title": "zeppelin lamp gulls"}


def test_each_text_of_an_item_is_found_by_itself_and_the_best_counts(memory):
    """Proves: API-5."""
    items = RecallLoopStore(memory, fields=["title", "parts[*].t"])
    items.put(("d",), "a", {"title": "gulls", "parts": [{"t": "lamp"}, {"t": "bread"}, {"t": "lamp"}]})
    items.put(("d",), "b", {"title": "bread", "parts": []})
    assert memory.count() == 4  # gulls, lamp, bread; bread
    for word in ("gulls", "lamp", "bread"):
        found = items.search(("d",), query=word)
        assert "a" in keys(found) and len(found) == 2
        assert {item.key: item.score for item in found}["a"] == pytest.approx(found[0].score)
    (first, second) = items.search(("d",), query="bread")
    assert first.score == pytest.approx(second.score) and items.search((), query="bread", limit=1, offset=1)
    assert keys(items.search(())) == ["a", "b"] and items.list_namespaces() == [("d",)]
    before = {item.key: item.score for item in items.search(("d",), query="lamp")}["a"]
    items.put(("d",), "a", {"title": "gulls", "parts": [{"t": "oars"}]})
    after = {item.key: item.score for item in items.search(("d",), query="lamp")}["a"]
    assert after < before and memory.count() == 3
    items.delete(("d",), "a")
    assert memory.count() == 1 and keys(items.search((), query="oars")) == ["b"]


def test_a_part_that_a_crash_left_behind_finds_nothing(memory):
    """Proves: API-5, STORE-4."""
    items = RecallLoopStore(memory, fields=["title", "body"])
    items.put(("d",), "a", {"title": "gulls", "body": "lamp"})
    (left,) = [record for record in memory.scan() if record.text == "lamp"]
    items.put(("d",), "a", {"title": "gulls"})
    memory.upsert([left])
    (item,) = items.search(("d",), query="lamp")
    assert item.score is None or item.score < 0.5
    memory.upsert([left.model_copy(update={"id": "x", "attributes": {"langgraph_store_part": {"item": "gone"}}})])
    assert keys(items.search(("d",), query="lamp")) == ["a"]


def test_langgraphs_configuration_of_the_index_must_be_that_of_the_store(memory):
    """Proves: API-5."""

    def embed(texts):
        return WordHashEmbedder().embed_documents(texts).tolist()

    items = RecallLoopStore(memory, index={"dims": 32, "embed": embed, "fields": ["title"]})
    assert items.index_config == {"dims": 32, "embed": embed, "fields": ["title"]}
    items.put(("d",), "a", {"title": "gulls", "body": "lamp"})
    assert [record.text for record in memory.scan()] == ["gulls"]
    for wrong, field in (
        ({"dims": 31}, "index.dims"),
        ({"embed": lambda texts: [[1.0] * 32 for _ in texts]}, "index.embed"),
        ({"embed": lambda texts: [[1.0] for _ in texts]}, "index.embed"),
        ({"fields": "title"}, "index.fields"),
        ({"fields": ["title", 1]}, r"index.fields\[1\]"),
        ({"distance_type": "l2"}, "index.distance_type"),
    ):
        with pytest.raises(InvalidInputError, match=f"^{field}: "):
            RecallLoopStore(memory, index=wrong)
    with pytest.raises(InvalidInputError, match=r"^fields: "):
        RecallLoopStore(memory, index={}, fields=["title"])


def nested(depth):
    value = {"v": 1}
    for _ in range(depth):
        value = {"v": value}
    return value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"profile": {"tags": ["a", "b", {1, 2}]}}, "value.profile.tags[2]"),
        ({"profile": {"tags": ["a", float("nan")]}}, "value.profile.tags[1]"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "value.at"),
        ({"raw": b"abc"}, "value.raw"),
        ({"name": "a\ud800b"}, "value.name"),
        ({"name": "a\x00b"}, "value.name"),
        ({"a b": {"x.y": [float("inf")]}}, "value['a b']['x.y'][0]"),
        ({"a": ({"b": object()},)}, "value.a[0].b"),
        ({"a": {1: "v"}}, "value.a"),
        ({"a": {"\ud800": "v"}}, "value.a['\\ud800']"),
        ({"big": 1 << 5000}, "value.big"),
        (nested(99), "value" + ".v" * 99),
    ],
)
def test_a_value_that_json_cannot_hold_is_named_by_its_own_path(items, memory, value, path):
    """Proves: API-5."""
    with pytest.raises(InvalidInputError) as caught:
        items.batch([PutOp(("t",), "good", {"v": 1}), PutOp(("t",), "k", value)])
    assert caught.value.field == path and str(caught.value).startswith(f"{path}: got ")
    str(caught.value).encode()
    assert memory.count(Scope(tenant="acme")) == 0


def test_what_json_can_hold_comes_back_as_plain_json(items):
    """Proves: API-5."""

    class Colour(StrEnum):
        RED = "red"

    value = {"c": Colour.RED, "n": np.float64(1.5), "t": (1, UserDict(a=None)), "deep": nested(90), "é": "日本"}
    items.put(("t",), "k", UserDict(value))
    read = items.get(("t",), "k").value
    assert read == {"c": "red", "n": 1.5, "t": [1, {"a": None}], "deep": nested(90), "é": "日本"}
    assert type(read["c"]) is str and type(read["n"]) is float


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"town": "Oslo"}, "ac"),
        ({"age": {"$gt": 30}}, "bc"),
        ({"age": {"$gte": 30}}, "abc"),
        ({"age": {"$lt": 40}}, "ab"),
        ({"age": {"$lte": 30}}, "a"),
        ({"age": {"$gt": 30, "$lt": 40}}, "b"),
        ({"age": {"$eq": 40}}, "c"),
        ({"town": {"$ne": "Oslo"}}, "bd"),
        ({"town": "Oslo", "age": {"$gt": 30}}, "c"),
        ({"job": {"title": "smith"}}, "b"),
        ({"tags": ["x", "y"]}, "c"),
        ({"nothing": None}, "abcd"),
        ({"town": {"$gt": "C"}}, "ac"),
    ],
)
@pytest.mark.parametrize("query", [None, "someone"])
def test_filters_are_those_that_langgraph_documents(items, wanted, expected, query):
    """Proves: OPS-5, SEARCH-3."""
    people = {
        "a": {"town": "Oslo", "age": 30},
        "b": {"town": "Bergen", "age": 35, "job": {"title": "smith", "pay": 1}},
        "c": {"town": "Oslo", "age": 40, "tags": ["x", "y"]},
        "d": {"age": "old"},
    }
    for key, value in people.items():
        items.put(("p",), key, {**value, "text": f"someone {key}"})
    assert "".join(sorted(keys(items.search(("p",), query=query, filter=wanted)))) == expected
    with pytest.raises(InvalidInputError, match=r"\$in"):
        items.search(("p",), filter={"age": {"$in": [1]}})


def test_a_filter_fills_the_limit_however_far_down_its_matches_are(items):
    """Proves: OPS-5, SEARCH-3."""
    ops = [PutOp(("n",), f"k{at}", {"text": "common words here", "n": at}) for at in range(1300)]
    ops += [PutOp(("n",), f"far{at}", {"text": "other", "n": -1}) for at in range(3)]
    items.batch(ops)
    found = items.search(("n",), query="common words here", filter={"n": {"$lt": 0}}, limit=3)
    assert sorted(keys(found)) == ["far0", "far1", "far2"]
    assert len(items.search(("n",), query="common words", limit=1250)) == 1250


def test_namespaces_are_listed_by_prefix_suffix_and_depth(items):
    """Proves: OPS-5."""
    for namespace in (("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f")):
        items.put(namespace, "k", {"v": 1})
    listed = items.list_namespaces(prefix=("a", "b"), max_depth=3)
    assert listed == [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]
    assert items.list_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
    assert items.list_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert items.list_namespaces(limit=2, offset=1) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
    items.delete(("a", "c", "f"), "k")
    assert items.list_namespaces(prefix=("a", "c")) == []


def test_a_batch_reads_before_it_writes_and_the_last_put_counts(items):
    """Proves: OPS-5."""
    items.put(("b",), "k", {"v": "old"})
    ops = [
        PutOp(("b",), "k", {"v": "new"}),
        GetOp(("b",), "k"),
        PutOp(("b",), "same1", {"v": "one text"}),
        PutOp(("b",), "same2", {"v": "one text"}),
        PutOp(("b",), "k", {"v": "newest"}),
        SearchOp(("b",)),
        ListNamespacesOp((MatchCondition("prefix", ("b",)),)),
    ]
    results = items.batch(ops)
    assert [results[at] for at in (0, 2, 3, 4)] == [None] * 4
    assert results[1].value == {"v": "old"} and keys(results[5]) == ["k"] and results[6] == [("b",)]
    assert items.get(("b",), "k").value == {"v": "newest"}
    assert len(items.search(("b",))) == 3


def test_an_item_that_cannot_be_stored_is_an_error_and_nothing_is_written(items, memory):
    """Proves: OPS-5, SEARCH-2."""
    good = PutOp(("t",), "good", {"v": 1})
    for bad in (
        PutOp(("t",), "k", {"v": 1}, ttl=0),
        PutOp(("t",), "k", {"v": 1}, ttl=float("nan")),
        PutOp(("t",), "k", {"v": 1}, ttl="5"),
        PutOp((), "k", {"v": 1}),
        PutOp(("t",), "k", {"v": float("nan")}),
        PutOp(("t",), "k", {"v": object()}),
        PutOp(("t",), "k", {1: "v"}),
        PutOp(("t",), "k", "text"),
        PutOp(("t",), "k\ud800", {"v": 1}),
        PutOp(("t\ud800",), "k", {"v": 1}),
        PutOp(("t",), "k", {"v": 1}, index="v"),
        PutOp(("t",), "k", {"v": [str(at) for at in range(1001)]}, index=["v[*]"]),
    ):
        with pytest.raises(InvalidInputError):
            items.batch([good, bad])
    with pytest.raises(InvalidNamespaceError):
        items.put(("a.b",), "k", {"v": 1})
    for wrong in ({"limit": -1}, {"offset": -1}, {"limit": True}):
        with pytest.raises(InvalidInputError, match=r"limit|offset"):
            items.batch([SearchOp(("t",), **wrong)])
    for wrong in ({"limit": 1.5}, {"offset": None}, {"max_depth": 0}):
        with pytest.raises(InvalidInputError, match=r"limit|offset|max_depth"):
            items.batch([ListNamespacesOp(**wrong)])
    for bad in (GetOp(("a.b",), "k"), SearchOp(("a", "")), PutOp(("a.b",), "k", {"v": 1})):
        with pytest.raises(InvalidNamespaceError):
            items.batch([good, bad])
    for wrong, field in (
        (PutOp("users", "k", {"v": 1}), "namespace"),
        (PutOp(("t",), "k", {"v": "x" * 1_000_001}), "value"),
        (PutOp(("t",), "k" * 1_000_001, {"v": 1}, index=False), "key"),
        (PutOp(("t",) * 1_001, "k", {"v": 1}), "namespace"),
        *((PutOp(("t",), "k", {"v": 1}, index=["v", path]), r"index\[1\]") for path in ("v[", "v[x]", "v[]", "{v")),
        (GetOp("users", "k"), "namespace"),
        (SearchOp(None), "namespace_prefix"),
        (SearchOp(("t",), query=5), "query"),
        (SearchOp(("t",), filter=["v"]), "filter"),
        (ListNamespacesOp((MatchCondition("prefix", "users"),)), "prefix"),
    ):
        with pytest.raises(InvalidInputError, match=f"^{field}: got "):
            items.batch([good, wrong])
    for wrong in ({"kind": "message"}, {"fields": "v"}, {"fields": []}, {"tenant": ""}):
        with pytest.raises(InvalidInputError):
            RecallLoopStore(memory, **wrong)
    assert memory.count(Scope(tenant="acme")) == 0


def test_a_key_may_be_blank(memory, items):
    """As in LangGraph's own store, indexed or not. Proves: OPS-5."""
    for index in (None, False):
        other = InMemoryStore()
        for one in (items, other):
            for number, key in enumerate(("", " ", "\t")):
                one.put(("t",), key, {"v": f"lamp {number}"}, index=index)
            one.delete(("t",), " ")
        found = [[(item.key, item.value) for item in one.search(("t",))] for one in (items, other)]
        assert found[0] == found[1] == [("", {"v": "lamp 0"}), ("\t", {"v": "lamp 2"})]
        assert (items.get(("t",), "").value, items.get(("t",), " ")) == ({"v": "lamp 0"}, None)


def test_stores_of_other_tenants_users_and_agents_see_nothing(memory):
    """Proves: STORE-3, OPS-5."""
    bounds = [{}, {"tenant": "b"}, {"user_id": "u1"}, {"user_id": "u2"}, {"agent_id": "a1"}]
    stores = [RecallLoopStore(memory, **({"tenant": "a"} | bound)) for bound in bounds]
    for number, items in enumerate(stores[1:], start=1):
        items.put(("n",), "k", {"v": f"word{number}"})
    for number, items in enumerate(stores[1:], start=1):
        assert items.get(("n",), "k").value == {"v": f"word{number}"}
        assert [item.value["v"] for item in items.search((), query="word")] == [f"word{number}"]
        assert items.list_namespaces() == [("n",)]
    assert stores[0].get(("n",), "k") is None and stores[0].list_namespaces() == []  # of no user, and of no agent
    assert stores[0].search(()) == stores[0].search((), query="word") == []
    memory.upsert([{"id": "x", "kind": "archival", "text": "word of the house"}], tenant="b")
    assert len(stores[1].search((), query="word of the house")) == 1  # its own items only


async def test_concurrent_puts_from_threads_and_tasks(items):
    """Proves: OPS-5."""
    threads = [
        threading.Thread(target=items.put, args=(("c",), f"t{at}", {"text": "the same text"})) for at in range(12)
    ]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(items.aput(("c",), f"a{at % 6}", {"text": "the same text"}) for at in range(12)))
    for thread in threads:
        thread.join()
    assert len(await items.asearch(("c",), query="same text", limit=50)) == 18
    await items.adelete(("c",), "a0")
    assert await items.aget(("c",), "a0") is None
    assert await items.alist_namespaces() == [("c",)]


def test_a_graph_uses_it_as_its_store_and_the_loop_finds_what_it_put(memory):
    """Proves: OPS-5."""

    class State(TypedDict):
        town: str

    def note(state: State, runtime: Runtime) -> State:
        runtime.store.put(("users", "ann"), "home", {"content": f"Ann lives in {state['town']}."})
        return {"town": runtime.store.search(("users",), query="Ann")[0].value["content"]}

    builder = StateGraph(State)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    graph = builder.compile(store=RecallLoopStore(memory, tenant="acme"))
    assert graph.invoke({"town": "Bergen"}) == {"town": "Ann lives in Bergen."}
    result = retrieve({"messages": [{"content": "Where does Ann live?"}], "tenant": "acme"}, store=memory)
    assert result.facts[0].text == "Ann lives in Bergen." and result.facts[0].content_type == "archival"


def test_items_survive_a_restart(tmp_path):
    """Proves: OPS-5, STORE-4."""
    for turn in range(2):
        with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as memory:
            items = RecallLoopStore(memory, kind="fact")
            if turn == 0:
                items.put(("n",), "k", {"content": "gulls"})
            assert items.search(("n",), query="gulls")[0].value == {"content": "gulls"}
            assert memory.maintenance.verify().sound


# The same operations on LangGraph's own store

VALUES = st.fixed_dictionaries(
    {"text": st.sampled_from(["ferry", "lamp", "red boat", "ferry lamp"]), "n": st.integers(0, 3)}
)
NAMESPACES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(tuple)
PUTS = st.builds(
    PutOp, NAMESPACES, st.sampled_from(["k1", "k2"]), st.one_of(VALUES, VALUES, st.none()), st.just(None), st.just(None)
)
FILTERS = st.sampled_from(
    [None, None, {"n": 1}, {"n": {"$gte": 2}}, {"n": {"$ne": 0, "$lt": 3}}, {"text": "lamp"}, {"n": 1, "text": "ferry"}]
)
PREFIXES = st.one_of(st.just(()), NAMESPACES)
ASKS = st.one_of(
    st.builds(GetOp, NAMESPACES, st.sampled_from(["k1", "k2"]), st.just(True)),
    st.builds(
        SearchOp,
        PREFIXES,
        FILTERS,
        st.just(100),
        st.just(0),
        st.sampled_from([None, "ferry", "red lamp"]),
        st.just(True),
    ),
)


def told(result: Any) -> Any:
    """Return what both stores must agree on: which items, with which values."""
    if isinstance(result, list):
        return sorted(json.dumps(told(item)) for item in result)
    return None if result is None else [list(result.namespace), result.key, result.value]


@settings(max_examples=15, phases=[Phase.explicit, Phase.generate])
@given(st.lists(st.lists(st.one_of(PUTS, PUTS, ASKS), min_size=1, max_size=6), max_size=5))
def test_random_batches_match_langgraphs_own_store(batches):
    """Proves: OPS-5."""
    index = {"dims": 32, "embed": lambda texts: WordHashEmbedder().embed_documents(texts).tolist(), "fields": ["text"]}
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as memory:
        ours, theirs = RecallLoopStore(memory, fields=["text"]), InMemoryStore(index=index)
        living: set[tuple[str, ...]] = set()
        for batch in batches:
            assert list(map(told, ours.batch(batch))) == list(map(told, _theirs(theirs, batch)))
            living = {item.namespace for item in theirs.search((), limit=1000)}
            # LangGraph's own goes on to list namespaces whose last item was deleted.
            assert set(ours.list_namespaces()) == living


def _theirs(store: InMemoryStore, batch: list[Any]) -> list[Any]:
    """Do a batch; two puts with one text in a batch make LangGraph's own store fail, so they go one by one."""
    reads = store.batch([op for op in batch if not isinstance(op, PutOp)])
    last = {(op.namespace, op.key): op for op in batch if isinstance(op, PutOp)}
    for op in last.values():
        store.batch([op])
    answers = iter(reads)
    return [None if isinstance(op, PutOp) else next(answers) for op in batch]


# langmem


def test_langmems_tools_run_on_it(memory):
    """Proves: OPS-5."""
    langmem = pytest.importorskip("langmem", reason="langmem brings a client of a vendor; install it to run this")
    items = RecallLoopStore(memory, tenant="acme")
    manage = langmem.create_manage_memory_tool(namespace=("memories", "ann"), store=items)
    look = langmem.create_search_memory_tool(namespace=("memories", "ann"), store=items)
    made = manage.invoke({"content": "Ann lives in Oslo.", "action": "create"})
    manage.invoke({"content": "Ann likes herring.", "action": "create"})
    key = made.rsplit(" ", 1)[-1]
    manage.invoke({"content": "Ann lives in Bergen.", "action": "update", "id": key})
    found = json.loads(look.invoke({"query": "where does Ann live", "limit": 1}))
    assert found[0]["value"]["content"] == "Ann lives in Bergen." and found[0]["key"] == key
    manage.invoke({"action": "delete", "id": key})
    assert len(json.loads(look.invoke({"query": "Ann"}))) == 1
    result = retrieve({"messages": [{"content": "What does Ann like?"}], "tenant": "acme"}, store=memory)
    assert result.facts[0].text == "Ann likes herring."
