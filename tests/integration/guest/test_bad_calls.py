"""Input that a program hands to the graph and that is none: each is an error that names its field (SEARCH-2)."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Overwrite, Send

from recall_loop import MemoryStore, build_graph, retrieve
from recall_loop.state.errors import InvalidInputError

QUESTION = "When does the ferry Birk leave?"


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory() as store:
        store.upsert([{"id": "n1", "kind": "archival", "text": "The ferry Birk leaves at nine."}], tenant="acme")
        yield store


@pytest.mark.parametrize("inputs", [None, ["goal"], {"messages": "question"}])
@pytest.mark.parametrize(
    "wrong",
    [
        None,
        3,
        [3],
        [None],
        [("user", None)],
        [{"content": "x"}],
        [("bogus", "x")],
        [{"role": "ai", "content": "", "name": 3}],
    ],
)
async def test_messages_that_are_none_are_named(store: MemoryStore, wrong: Any, inputs: Any) -> None:
    """Proves: GRAPH-1, SEARCH-2."""
    graph = build_graph(store, inputs=inputs)
    with pytest.raises(InvalidInputError) as caught:
        graph.invoke({"messages": wrong})
    assert caught.value.field == "messages"
    with pytest.raises(InvalidInputError, match="messages"):
        await graph.ainvoke({"messages": wrong})
    with pytest.raises(InvalidInputError, match="messages"):
        list(graph.stream({"messages": wrong}))


def test_messages_of_a_send_that_are_none_are_named(store: MemoryStore) -> None:
    """Proves: GRAPH-1, SEARCH-2."""
    builder = StateGraph(MessagesState)
    builder.add_node("recall", build_graph(store))
    builder.add_conditional_edges(START, lambda _: [Send("recall", {"messages": [3]})], ["recall"])
    with pytest.raises(InvalidInputError) as caught:
        builder.compile().invoke({"messages": [("user", QUESTION)]})  # type: ignore[arg-type]
    assert caught.value.field == "messages"


@pytest.mark.parametrize("wrong", [[], "hello", 5, HumanMessage("hello")])
@pytest.mark.parametrize("key", ["messages", "question"])
def test_an_input_that_is_not_a_mapping_is_an_error(store: MemoryStore, wrong: Any, key: str) -> None:
    """Proves: GRAPH-1, SEARCH-2."""
    with pytest.raises(InvalidInputError) as caught:
        build_graph(store, inputs={"messages": key}).invoke(wrong)
    assert (caught.value.field, caught.value.allowed) == ("input", f"a mapping with `{key}`")


class Form(TypedDict, total=False):
    question: Any
    notes: str


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "question"),
        ({"question": None}, "question"),
        ({"question": []}, "question"),
        ({"question": " "}, "question.content"),
        ({"question": [("ai", "Hello?"), ("user", "a\0b")]}, "question.1.content"),
    ],
)
def test_an_invalid_mapped_question_is_named(store: MemoryStore, given: Any, field: str) -> None:
    """Proves: GRAPH-1."""
    graph = build_graph(store, inputs={"messages": "question"}, outputs={"context": "notes"})
    builder = StateGraph(Form)
    builder.add_node("recall", graph)
    builder.add_edge(START, "recall")
    with pytest.raises(InvalidInputError) as caught:
        builder.compile().invoke({"notes": "", **given})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("context", "field"),
    [
        ("acme", "context"),
        (3, "context"),
        (["a"], "context"),
        ({"tennant": "acme"}, "context.tennant"),
        ({"max_facts": 0}, "context.max_facts"),
    ],
)
async def test_a_context_of_a_direct_call_that_is_none_is_named(store: MemoryStore, context: Any, field: str) -> None:
    """Proves: SEARCH-2."""
    graph, given = build_graph(store), {"messages": [("user", QUESTION)]}
    with pytest.raises(InvalidInputError) as caught:
        graph.invoke(given, context=context)
    assert caught.value.field == field
    with pytest.raises(InvalidInputError, match=field):
        await graph.ainvoke(given, context=context)
    with pytest.raises(InvalidInputError, match=field):
        retrieve(QUESTION, store=store, context=context)


class Told(NamedTuple):
    tenant: str


@pytest.mark.parametrize("context", [Told("acme"), SimpleNamespace(tenant="acme"), {"tenant": "acme", "tool": 3}])
def test_a_parents_context_of_any_class_is_read(store: MemoryStore, context: Any) -> None:
    """Proves: OPS-2."""
    builder = StateGraph(MessagesState)
    builder.add_node("recall", build_graph(store))
    builder.add_edge(START, "recall")
    given: Any = {"messages": [("user", QUESTION)]}
    assert "[n1]" in builder.compile().invoke(given, context=context)["messages"][-1].content
    builder.compile().invoke(given, context="acme")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrap", [Overwrite, lambda value: {"type": "__overwrite__", "value": value}])
def test_messages_may_replace_those_of_a_thread(store: MemoryStore, wrap: Any) -> None:
    """Proves: GRAPH-1 (LangGraph's own way of saying so)."""
    output = build_graph(store).invoke({"messages": wrap([HumanMessage(QUESTION)]), "tenant": "acme"})
    assert "[n1]" in output["context"]


@pytest.mark.filterwarnings("ignore:This API is in beta")
def test_as_a_tool_without_named_inputs_names_the_tool_that_there_is() -> None:
    """Proves: GRAPH-1, SEARCH-2 (LangChain's own would have a model fill in all inputs, the user too)."""
    with MemoryStore.in_memory() as store:
        store.upsert([{"id": "k1", "kind": "archival", "text": "The key is under the stone."}])
        graph = build_graph(store)
        with pytest.raises(InvalidInputError, match=r"args_schema: got None; allowed: retrieve_tool\(store, scope\)"):
            graph.as_tool(name="recall")
        tool = graph.as_tool(arg_types={"messages": list[str]}, name="recall", description="Recalls.")
        assert tool.invoke({"messages": ["Where is the key?"]})["facts"]
