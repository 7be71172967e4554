"""Keys that a parent doesn't have: read as absent, a misspelt user would be everybody (GRAPH-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

from recall_loop.graph.builder import build_graph
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError


class Desk(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    customer: str
    notes: str


class Form(TypedDict, total=False):
    question: str


def recalling(schema: type, store: MemoryStore, **options: Any) -> Any:
    builder = StateGraph(schema)
    builder.add_node("recall", build_graph(store, **options))
    builder.add_edge(START, "recall")
    return builder.compile()


@pytest.mark.parametrize(
    ("schema", "options", "field", "value"),
    [
        (Desk, {"inputs": {"user_id": "custmer"}}, "inputs.user_id", "custmer"),
        (Desk, {"outputs": {"context": "note"}}, "outputs.context", "note"),
        (Desk, {"outputs": ["facts"]}, "outputs.facts", "facts"),
        (Form, {}, "inputs.messages", "messages"),
        (Form, {"inputs": {"messages": "question"}}, "outputs.messages", "messages"),
    ],
)
def test_a_key_that_the_parent_does_not_have_is_named(
    schema: type, options: dict[str, Any], field: str, value: str
) -> None:
    """Proves: GRAPH-1."""
    with MemoryStore.in_memory() as store, pytest.raises(InvalidInputError) as caught:
        recalling(schema, store, **options).invoke({"messages": [("user", "Where is the key?")], "question": "Where?"})
    assert (caught.value.field, caught.value.value) == (field, repr(value))
    assert caught.value.allowed == f"a key of the parent's state: {', '.join(schema.__annotations__)}"


@pytest.mark.parametrize("narrow", [{"messages": list[AnyMessage]}, {"notes": str}], ids=list)
def test_a_key_that_the_nodes_own_schema_lacks_is_read(narrow: dict[str, Any]) -> None:
    """Proves: GRAPH-1 (without the user, everybody's memory would be read)."""
    with MemoryStore.in_memory() as store:
        texts = {"ann": "The key is below the mat.", "bo": "The key is in the shed."}
        store.upsert([{"id": user, "kind": "archival", "text": text, "user_id": user} for user, text in texts.items()])
        builder = StateGraph(Desk)
        recall = build_graph(store, inputs={"user_id": "customer"}, outputs={"context": "notes"})
        builder.add_node("recall", recall, input_schema=TypedDict("Narrow", narrow))  # type: ignore[operator]
        builder.add_edge(START, "recall")
        asked = {"messages": [("user", "Where is the key?")], "customer": "ann", "notes": ""}
        notes = builder.compile().invoke(asked)["notes"]  # type: ignore[call-overload]
    assert "[ann]" in notes and "[bo]" not in notes


def test_a_key_of_no_owner_may_have_no_value_yet() -> None:
    """Proves: GRAPH-1."""
    with MemoryStore.in_memory() as store:
        store.upsert([{"id": "k1", "kind": "archival", "text": "The key is under the stone."}])
        desk = recalling(Desk, store, inputs={"goal": "customer"}, outputs={"context": "notes"})
        assert "[k1]" in desk.invoke({"messages": [("user", "Where is the key?")]})["notes"]


@pytest.mark.parametrize("given", [{}, {"customer": None}], ids=["absent", "none"])
@pytest.mark.parametrize("owner", ["user_id", "tenant", "agent_id", "conversation_id"])
def test_a_mapped_owner_without_a_value_is_an_error(owner: str, given: dict[str, Any]) -> None:
    """Proves: GRAPH-1 (as a node, by a Send, from a parent elsewhere: never everybody's memory)."""
    asked: Any = {"messages": [("user", "Where is the key?")], **given}
    with MemoryStore.in_memory() as store:
        graph = build_graph(store, inputs={owner: "customer"}, outputs={"context": "notes"})
        desk = StateGraph(Desk)
        desk.add_node("recall", graph)
        desk.add_edge(START, "recall")
        ways: list[Callable[[], Any]] = [
            lambda: desk.compile().invoke(asked),
            lambda: asyncio.run(desk.compile().ainvoke(asked)),
            lambda: sending(graph, {}).invoke(asked),
            lambda: graph.invoke(asked, {"metadata": {"langgraph_node": "recall"}}),
        ]
        for way in ways:
            with pytest.raises(InvalidInputError) as caught:
                way()
            assert (caught.value.field, caught.value.value) == ("customer", "None")
            assert f"`{owner}`" in caught.value.allowed
        assert sending(graph, {owner: "ada"}).invoke(asked)["notes"] == ""


def test_a_direct_call_names_the_owner_or_none() -> None:
    """Proves: GRAPH-1 (an owner that is given as None is one that is missing)."""
    with MemoryStore.in_memory() as store:
        store.upsert([{"id": "k1", "kind": "archival", "text": "The key is under the stone."}])
        graph = build_graph(store, inputs={"user_id": "customer"})
        assert graph.invoke(QUESTION)["facts"]
        assert graph.invoke({**QUESTION, "customer": "ada"})["facts"] == []
        for call in (graph.invoke, lambda given: list(graph.stream(given))):
            with pytest.raises(InvalidInputError, match="customer: got None; allowed: text"):
                call({**QUESTION, "customer": None})


QUESTION: dict[str, Any] = {"messages": [("user", "Where is the key?")]}


@pytest.fixture(scope="module")
def graph() -> Iterator[Any]:
    with MemoryStore.in_memory() as store:
        store.upsert([{"id": "k1", "kind": "archival", "text": "The key is under the stone.", "user_id": "bo"}])
        yield build_graph(store)


def called_by(parent: type, call: Callable[[Any], Any]) -> Any:
    """Return a graph with a function of its own that calls the loop."""
    builder = StateGraph(parent)
    builder.add_node("ask", lambda state: {"notes": str(len(call(state)["facts"]))})
    builder.add_edge(START, "ask")
    return builder.compile()


def sending(graph: Any, payload: dict[str, Any]) -> Any:
    builder = StateGraph(Desk)
    builder.add_node("recall", graph)
    builder.add_conditional_edges(START, lambda state: [Send("recall", {**state, **payload})])
    return builder.compile()


@pytest.mark.parametrize("name", ["user", "userid", "tenant_id", "conversation", "filter"])
async def test_an_input_that_the_graph_does_not_have_is_named(graph: Any, name: str) -> None:
    """Proves: GRAPH-1, SEARCH-2 (called directly, in a batch, streamed, in a function of a parent, by a Send)."""
    misspelt = {**QUESTION, name: "ada"}
    ways: list[Callable[[], Any]] = [
        lambda: graph.invoke(misspelt),
        lambda: graph.batch([QUESTION, misspelt]),
        lambda: list(graph.stream(misspelt, stream_mode="custom")),
        lambda: called_by(Desk, lambda state: graph.invoke(misspelt)).invoke(QUESTION),
        lambda: sending(graph, {name: "ada"}).invoke(QUESTION),
        lambda: asyncio.run(graph.ainvoke(misspelt)),
    ]
    for way in ways:
        with pytest.raises(InvalidInputError) as caught:
            await asyncio.to_thread(way)
        assert (caught.value.field, caught.value.value) == (name, "'ada'")
        assert "messages, request_id, goal, tenant, agent_id, user_id" in caught.value.allowed


def test_keys_that_are_the_parents_are_passed_over(graph: Any) -> None:
    """Proves: GRAPH-1 (its whole state, handed on by a function, with a configuration of its own, or by a Send)."""
    given = {**QUESTION, "customer": "ada"}
    assert called_by(Desk, graph.invoke).invoke(given)["notes"] == "1"
    assert called_by(Desk, lambda state: graph.invoke(state, {"tags": ["x"]})).invoke(given)["notes"] == "1"
    assert "under the stone" in sending(graph, {}).invoke(given)["messages"][-1].content
    # What LangGraph's client tells of a parent elsewhere whose node the graph is.
    remote: Any = {"metadata": {"langgraph_node": "recall"}}
    assert graph.invoke(given, remote)["facts"]


def test_an_earlier_output_may_be_handed_in_again(graph: Any) -> None:
    """Proves: GRAPH-1."""
    output = graph.invoke({**QUESTION, "user_id": "bo"})
    assert graph.invoke({**output, **QUESTION})["facts"]
