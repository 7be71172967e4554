"""Keys that a parent doesn't have: read as absent, a misspelt user would be everybody (GRAPH-1)."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

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


def test_a_key_that_has_no_value_yet_is_not_given() -> None:
    """Proves: GRAPH-1."""
    with MemoryStore.in_memory() as store:
        desk = recalling(Desk, store, inputs={"user_id": "customer"}, outputs={"context": "notes"})
        assert desk.invoke({"messages": [("user", "Where is the key?")]})["notes"] == ""
