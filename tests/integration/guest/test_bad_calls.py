"""Input that a program hands to the graph and that is none: each is an error that names its field (SEARCH-2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Overwrite, Send

from recall_loop import MemoryStore, build_graph
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
def test_an_input_that_is_no_mapping_says_what_is_wanted(store: MemoryStore, wrong: Any, key: str) -> None:
    """Proves: GRAPH-1, SEARCH-2."""
    with pytest.raises(InvalidInputError) as caught:
        build_graph(store, inputs={"messages": key}).invoke(wrong)
    assert (caught.value.field, caught.value.allowed) == ("input", f"a mapping with `{key}`")


@pytest.mark.parametrize("wrap", [Overwrite, lambda value: {"type": "__overwrite__", "value": value}])
def test_messages_may_replace_those_of_a_thread(store: MemoryStore, wrap: Any) -> None:
    """Proves: GRAPH-1 (LangGraph's own way of saying so)."""
    output = build_graph(store).invoke({"messages": wrap([HumanMessage(QUESTION)]), "tenant": "acme"})
    assert "[n1]" in output["context"]
