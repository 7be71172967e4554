"""What a recall node leaves in the keys of a parent that have messages (GRAPH-1, GRAPH-2)."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

from recall_loop import MemoryStore, build_graph

QUESTION = "When does the ferry Birk leave?"
TENANT = {"tenant": "acme"}


class Plain(TypedDict):
    """A conversation without a reducer, and a question."""

    messages: list[AnyMessage]
    question: str


class Added(TypedDict):
    """A conversation with LangGraph's reducer, and a question."""

    messages: Annotated[list[AnyMessage], add_messages]
    question: str


class Appended(TypedDict):
    """A conversation that only grows, and a question."""

    messages: Annotated[list[AnyMessage], operator.add]
    question: str


class Remembering(MessagesState):
    """A conversation, and what is recalled for it in a key of its own."""

    memories: Annotated[list[AnyMessage], add_messages]


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory() as store:
        store.upsert([{"id": "n1", "kind": "archival", "text": "The ferry Birk leaves at nine."}], tenant="acme")
        yield store


def talk() -> list[AnyMessage]:
    return [HumanMessage("hello", id="1"), AIMessage("hi", id="2")]


def run(state: type, given: dict[str, Any], graph: Any) -> dict[str, Any]:
    builder = StateGraph(state)
    builder.add_node("recall", graph)
    builder.add_edge(START, "recall")
    output: dict[str, Any] = builder.compile().invoke(given, context=TENANT)  # type: ignore[arg-type]
    return output


def shown(messages: list[AnyMessage]) -> list[str]:
    return ["block" if message.name == "recall_loop" else str(message.content) for message in messages]


@pytest.mark.parametrize("state", [Plain, Added, Appended])
def test_a_question_of_another_key_adds_one_message(state: type, store: MemoryStore) -> None:
    """Proves: GRAPH-1, GRAPH-2."""
    graph = build_graph(store, inputs={"messages": "question"})
    output = run(state, {"messages": talk(), "question": QUESTION}, graph)
    assert shown(output["messages"]) == ["hello", "hi", "block"]


def test_messages_that_go_to_another_key_are_the_block_alone(store: MemoryStore) -> None:
    """Proves: GRAPH-1, GRAPH-2."""
    graph = build_graph(store, outputs={"messages": "memories"})
    output = run(Remembering, {"messages": [*talk(), HumanMessage(QUESTION, id="3")], "memories": []}, graph)
    assert shown(output["memories"]) == ["block"] and shown(output["messages"]) == ["hello", "hi", QUESTION]


@pytest.mark.parametrize("state", [Plain, Added, Appended])
def test_a_send_keeps_the_conversation(state: type, store: MemoryStore) -> None:
    """Proves: GRAPH-2."""
    builder = StateGraph(state)
    builder.add_node("recall", build_graph(store))
    builder.add_conditional_edges(START, lambda state: [Send("recall", {**state, **TENANT})], ["recall"])
    given = {"messages": [*talk(), HumanMessage(QUESTION, id="3")], "question": ""}
    output = builder.compile().invoke(given)  # type: ignore[arg-type]
    assert shown(output["messages"]) == ["hello", "hi", QUESTION, "block"]


@pytest.mark.parametrize(
    ("field", "values"),
    [("max_facts", (1, 2)), ("reference_time", ("2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z")), ("fuzzy", (0, 1))],
)
def test_sends_that_differ_in_one_input_have_a_message_each(field: str, values: Any, store: MemoryStore) -> None:
    """Proves: GRAPH-2."""
    builder = StateGraph(MessagesState)
    builder.add_node("recall", build_graph(store))
    sends = [Send("recall", {"messages": [HumanMessage(QUESTION, id="3")], **TENANT, field: one}) for one in values]
    builder.add_conditional_edges(START, lambda _: sends, ["recall"])
    given: Any = {"messages": [HumanMessage(QUESTION, id="3")]}
    for _ in range(2):
        given = builder.compile().invoke(given)
        assert shown(given["messages"]) == [QUESTION, "block", "block"]


@pytest.mark.parametrize("name", ["edit", "zedit"])
@pytest.mark.parametrize(
    ("change", "left"),
    [(HumanMessage("redacted", id="1"), ["redacted", "hi"]), (RemoveMessage(id="1"), ["hi"])],
    ids=["redacted", "removed"],
)
def test_what_another_branch_does_to_a_message_stays(
    change: AnyMessage, left: list[str], name: str, store: MemoryStore
) -> None:
    """Proves: GRAPH-2."""
    builder = StateGraph(MessagesState)
    builder.add_node("recall", build_graph(store))
    builder.add_node(name, lambda _: {"messages": [change]})
    builder.add_edge(START, "recall")
    builder.add_edge(START, name)
    given: Any = {"messages": [*talk(), HumanMessage(QUESTION, id="3")]}
    output = builder.compile().invoke(given, context=TENANT)  # type: ignore[arg-type]
    assert shown(output["messages"]) == [*left, QUESTION, "block"]


def test_a_reducer_sees_no_message_that_nobody_wrote(store: MemoryStore) -> None:
    """Proves: GRAPH-1."""
    seen: list[AnyMessage] = []

    def audited(left: list[AnyMessage] | None, right: list[AnyMessage]) -> Any:
        seen.extend(right)
        return add_messages(left or [], right)  # type: ignore[arg-type]

    state: Any = TypedDict("Audited", {"messages": Annotated[list[AnyMessage], audited]})  # type: ignore[misc]
    run(state, {"messages": [HumanMessage(QUESTION, id="3")]}, build_graph(store))
    assert shown(seen) == [QUESTION, "block"]


def test_a_direct_call_of_the_second_version_has_the_named_outputs(store: MemoryStore) -> None:
    """Proves: GRAPH-1."""
    graph = build_graph(store, outputs={"context": "notes"})
    output = graph.invoke({"messages": [("user", QUESTION)]}, context=TENANT, version="v2")  # type: ignore[arg-type]
    assert list(output.value) == ["notes"] and "[n1]" in output.value["notes"]
