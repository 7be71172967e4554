"""The loop as a node of parents whose messages have other reducers than LangGraph's own (GRAPH-2)."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from recall_loop.graph.builder import build_graph
from recall_loop.state.context import Context
from tests.integration.graph.worlds import DIRECT, TWO_HOPS, VALLEY, filled_store


class Appending(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]


class Plain(TypedDict, total=False):
    messages: list[Any]


def trim(old: list[Any], new: list[Any]) -> list[Any]:
    return [*old, *new][-50:]


class Trimming(TypedDict, total=False):
    messages: Annotated[list[Any], trim]


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


def talk(parent: Any, *turns: Any) -> list[list[Any]]:
    """Return the messages after each turn; a parent that overwrites them is handed all of them again."""
    heard: list[list[Any]] = []
    for number, turn in enumerate(turns):
        config = {"configurable": {"thread_id": "one"}}
        before = heard[-1] if number and parent.builder.state_schema is Plain else []
        heard.append(parent.invoke({"messages": [*before, turn]}, config, context=Context(tenant=VALLEY))["messages"])
    return heard


def recalling(schema: Any, world: Any, **options: Any) -> Any:
    builder = StateGraph(schema, context_schema=Context)
    builder.add_node("recall", build_graph(world, **options))
    builder.add_edge(START, "recall")
    return builder.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("schema", [Appending, Trimming, Plain, MessagesState])
def test_each_recall_adds_one_message(world, schema):
    """Proves: GRAPH-2, LOOP-10 (whatever the parent's key does with what it gets)."""
    turns = [HumanMessage(DIRECT), HumanMessage(TWO_HOPS), HumanMessage(DIRECT)]
    heard = talk(recalling(schema, world), *turns)
    assert [len(messages) for messages in heard] == [2, 4, 6]
    names = [[message.name for message in messages] for messages in heard]
    assert names == [[None, "recall_loop"] * turn for turn in (1, 2, 3)]
    assert len({message.id for message in heard[-1][1::2]}) == 3


@pytest.mark.parametrize("question", [("user", DIRECT), {"role": "user", "content": DIRECT}, HumanMessage(DIRECT)])
def test_a_second_recall_of_a_turn_appends_nothing(world, question):
    """Proves: GRAPH-2 (also where neither the parent nor its messages have ids)."""
    builder = StateGraph(Appending, context_schema=Context)
    builder.add_node("recall", build_graph(world))
    builder.add_node("think", lambda _: {"messages": [AIMessage("let me think")]})
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "think")
    builder.add_conditional_edges("think", lambda state: "recall" if len(state["messages"]) < 4 else END)
    messages = builder.compile().invoke({"messages": [question]}, context=Context(tenant=VALLEY))["messages"]
    assert messages[0] == question
    assert [getattr(message, "name", None) for message in messages] == [None, "recall_loop", None, None]


def test_a_key_that_the_block_alone_is_written_to(world):
    """Proves: GRAPH-1, GRAPH-2."""

    class Desk(TypedDict, total=False):
        question: str
        log: Annotated[list[Any], operator.add]

    builder = StateGraph(Desk, context_schema=Context)
    keys = {"inputs": {"messages": "question"}, "outputs": {"messages": "log"}}
    builder.add_node("recall", build_graph(world, **keys))
    builder.add_edge(START, "recall")
    output = builder.compile().invoke({"question": DIRECT, "log": ["begun"]}, context=Context(tenant=VALLEY))
    assert output["log"][0] == "begun"
    assert [message.name for message in output["log"][1:]] == ["recall_loop"]
