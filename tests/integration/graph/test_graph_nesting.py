"""The loop as a subgraph, on threads, with checkpointers and interrupts."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages

from recall_loop.graph.builder import build_graph
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings
from tests.integration.graph.worlds import (
    BY_ID,
    COAST,
    COAST_TEXTS,
    DIRECT,
    NOW,
    TWO_HOPS,
    VALLEY,
    comparable_json,
    filled_store,
    validated_result,
    valley_request,
)
from tests.processes.forked_process import run_forked

STAMP = {"timestamp": NOW}
WORKING = ("tried_queries", "query_results", "tool_calls", "evidence_pool", "new_facts_by_iteration")


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


def human(text: str, **more: Any) -> HumanMessage:
    return HumanMessage(text, additional_kwargs=STAMP, **more)


def chat_parent(child: Any, recalls: int = 1, **compiled: Any) -> Any:
    """A chat graph that knows messages only: recall (once or more), then an answer."""
    builder = StateGraph(MessagesState, context_schema=Context)
    names = [f"recall{number}" for number in range(recalls)]
    for name in names:
        builder.add_node(name, child)
    builder.add_node("answer", lambda state: {"messages": [AIMessage(f"answer {len(state['messages'])}")]})
    for before, after in zip([START, *names], [*names, "answer"], strict=True):
        builder.add_edge(before, after)
    builder.add_edge("answer", END)
    return builder.compile(**compiled)


def kinds(messages: list[AnyMessage]) -> list[str]:
    return ["recall" if message.name == "recall_loop" else message.type for message in messages]


@pytest.mark.parametrize("recalls", [1, 2, 3])
async def test_under_a_parent_that_knows_messages_only(world, recalls):
    """Proves: LOOP-10, OPS-2, GRAPH-2 (one context message per turn and node)."""
    parent, one_turn = chat_parent(build_graph(world), recalls), ["human", *["recall"] * recalls, "ai"]
    output = parent.invoke({"messages": [human(DIRECT)]}, context=Context(tenant=VALLEY))
    assert kinds(output["messages"]) == one_turn
    assert "[f-tallinn]" in output["messages"][1].content
    again = await parent.ainvoke({"messages": [human(DIRECT)]}, context=Context(tenant=VALLEY))
    assert kinds(again["messages"]) == one_turn
    assert again["messages"][1].content == output["messages"][1].content
    turn = parent.invoke({"messages": [*output["messages"], human(TWO_HOPS)]}, context=Context(tenant=VALLEY))
    assert kinds(turn["messages"]) == one_turn * 2
    assert turn["messages"][: len(one_turn)] == output["messages"]
    assert len({message.id for message in turn["messages"]}) == 2 * len(one_turn)


def test_an_agent_that_recalls_between_its_own_steps_gets_one_message(world):
    """Proves: LOOP-10, GRAPH-2 (the turn is known by its question, not by what an agent appended since)."""
    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("recall", build_graph(world))
    builder.add_node("think", lambda _: {"messages": [AIMessage("let me think")]})
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "think")
    builder.add_conditional_edges("think", lambda state: "recall" if len(state["messages"]) < 4 else END)
    output = builder.compile().invoke({"messages": [human(DIRECT)]}, context=Context(tenant=VALLEY))
    assert kinds(output["messages"]) == ["human", "recall", "ai", "ai"]


def test_state_output_leaves_the_parents_messages_alone(world):
    """Proves: LOOP-10, OPS-2."""
    given = [human(DIRECT, id="one"), AIMessage("I look it up", id="two")]
    parent = chat_parent(build_graph(world, output="state"))
    output = parent.invoke({"messages": given}, context=Context(tenant=VALLEY))
    assert output["messages"][:2] == given
    assert kinds(output["messages"]) == ["human", "ai", "ai"]


class Desk(TypedDict, total=False):
    """The state of a parent that shares some keys and has others of its own."""

    messages: Annotated[list[AnyMessage], add_messages]
    ticket: str
    facts: list[dict[str, Any]]
    context: str
    stop: dict[str, Any]


def test_under_a_parent_with_another_state(world):
    """Proves: OPS-2 (the parent gets those of the result's keys that it has, and keeps its own)."""
    builder = StateGraph(Desk, context_schema=Context)
    builder.add_node("recall", build_graph(world, output="state"))
    builder.add_edge(START, "recall")
    desk = builder.compile()
    output = desk.invoke({"messages": [human(DIRECT)], "ticket": "T-1"}, context=Context(tenant=VALLEY))
    assert set(output) == {"messages", "ticket", "facts", "context", "stop"}
    assert output["ticket"] == "T-1"
    assert output["facts"][0]["id"] in BY_ID
    assert kinds(output["messages"]) == ["human"]


@dataclasses.dataclass
class Session:
    """The context of a parent that was written without ours in mind."""

    tenant: str
    database: object
    locale: str = "et"


@pytest.mark.parametrize("tenant", [VALLEY, COAST])
def test_the_context_object_of_a_foreign_parent(world, tenant):
    """Proves: OPS-2, STORE-3 (its tenant is taken, what is not ours is passed over)."""
    builder = StateGraph(MessagesState, context_schema=Session)
    builder.add_node("recall", build_graph(world, settings=Settings(context_floor=0.0)))
    builder.add_edge(START, "recall")
    parent = builder.compile()
    output = parent.invoke({"messages": [human(TWO_HOPS)]}, context=Session(tenant, object()))
    found = any(text[:30] in output["messages"][-1].content for text in COAST_TEXTS)
    assert found == (tenant == COAST)


def test_a_parents_plain_mapping_as_context(world):
    """Proves: OPS-2 (a parent may carry a mapping with keys of its own)."""
    builder = StateGraph(MessagesState)
    builder.add_node("recall", build_graph(world))
    builder.add_edge(START, "recall")
    parent = builder.compile()
    output = parent.invoke({"messages": [human(DIRECT)]}, context={"tenant": VALLEY, "locale": "et"})
    assert "[f-tallinn]" in output["messages"][-1].content


def test_a_foreign_context_with_an_impossible_value_is_an_error(world):
    """Proves: SEARCH-2 (a field named like ours isn't silently ignored)."""
    builder = StateGraph(MessagesState, context_schema=Session)
    builder.add_node("recall", build_graph(world))
    builder.add_edge(START, "recall")
    with pytest.raises(InvalidInputError, match=r"context\.tenant"):
        builder.compile().invoke({"messages": [human(DIRECT)]}, context=Session("", object()))


def test_configurable_fills_what_the_context_leaves_open(world):
    """Proves: STORE-3, OPS-2."""
    output = build_graph(world).invoke({"messages": [human(DIRECT)]}, {"configurable": {"tenant": VALLEY}})
    assert {item["id"] for item in output["facts"]} & set(BY_ID)


def check_second_turn(first: dict[str, Any], second: dict[str, Any], fresh: dict[str, Any]) -> None:
    """The second turn of a thread is what a new thread would have given."""
    assert first["request_id"] != second["request_id"]
    assert comparable_json(second) == comparable_json(fresh)


def turns() -> tuple[dict[str, Any], dict[str, Any]]:
    later = {"timestamp": "2024-07-09T08:00:00+00:00"}
    return (
        {"messages": [human(TWO_HOPS)], "tenant": VALLEY, "debug": True},
        {"messages": [HumanMessage("Which animals did Quist count?", additional_kwargs=later)], "tenant": VALLEY},
    )


def test_nothing_leaks_from_turn_to_turn(world):
    """Proves: LOOP-2, LOOP-9 (tried queries, evidence, iterations, request_id and reference_time)."""
    graph = build_graph(world, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "one"}}
    one, two = turns()
    first = graph.invoke(one, thread)
    second = graph.invoke(two, thread)
    bare = build_graph(world)
    fresh = bare.invoke({**two, "messages": [*one["messages"], *two["messages"]]})
    check_second_turn(first, second, fresh)
    assert second["reference_time"].startswith("2024-07-09T08:00:00")
    tried = graph.get_state(thread).values["tried_queries"]
    assert len(tried) == second["metadata"]["queries_executed"]
    assert kinds(second["messages"]) == ["human", "recall", "human", "recall"]


@pytest.mark.parametrize("paused", [["plan_queries"], ["execute_tool"], []])
async def test_no_input_of_an_unfinished_turn_is_one_of_the_next(world, paused):
    """A value that isn't allowed would end every later turn. Proves: LOOP-2, LOOP-9."""
    graph = build_graph(world, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "one"}}
    one, two = turns()
    left = {"user_id": "nobody", "request_id": "left", "reference_time": "2020-01-01T00:00:00Z"}
    if paused:
        await graph.ainvoke({**one, **left}, thread, interrupt_before=paused)
    else:
        with pytest.raises(InvalidInputError, match="max_facts"):
            graph.invoke({**one, **left, "max_facts": 100_000}, thread)
    second = graph.invoke(two, thread)
    assert second["facts"] and second["request_id"] != "left"
    assert second["reference_time"].startswith("2024-07-09T08:00:00")


def test_the_same_question_twice_on_a_thread(world):
    """Proves: LOOP-2, LOOP-9 (asked again, nothing counts as tried)."""
    graph = build_graph(world, checkpointer=InMemorySaver(), output="state")
    thread = {"configurable": {"thread_id": "one"}}
    first, second = (graph.invoke(valley_request(TWO_HOPS), thread) for _ in range(2))
    assert comparable_json(first) == comparable_json(second)
    assert first["request_id"] != second["request_id"]


@pytest.mark.parametrize("child", [None, True, False])
def test_children_with_and_without_their_own_checkpoints(world, child):
    """Proves: LOOP-2, OPS-2."""
    recall = build_graph(world, checkpointer=child)
    parent = chat_parent(recall, checkpointer=InMemorySaver())
    thread, context = {"configurable": {"thread_id": "one"}}, Context(tenant=VALLEY)
    parent.invoke({"messages": [human(DIRECT)]}, thread, context=context)
    later = HumanMessage("Which animals did Quist count?", additional_kwargs={"timestamp": "2024-07-09T08:00:00Z"})
    second = parent.invoke({"messages": [later]}, thread, context=context)
    assert kinds(second["messages"]) == ["human", "recall", "ai", "human", "recall", "ai"]
    fresh = chat_parent(build_graph(world)).invoke({"messages": second["messages"][:4]}, context=context)
    assert second["messages"][4].content == fresh["messages"][4].content


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("at", ["sqlite", "memory"])
def test_interrupts_around_the_recall_node(world, tmp_path: Path, when, at):
    """Proves: OPS-2 (resumed from a checkpoint, the run ends as if it hadn't been interrupted)."""
    plain = chat_parent(build_graph(world)).invoke({"messages": [human(DIRECT)]}, context=Context(tenant=VALLEY))
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as sqlite:
        saver = sqlite if at == "sqlite" else InMemorySaver()
        parent = chat_parent(build_graph(world), checkpointer=saver, **{when: ["recall0"]})
        thread, context = {"configurable": {"thread_id": "one"}}, Context(tenant=VALLEY)
        stopped = parent.invoke({"messages": [human(DIRECT)]}, thread, context=context)
        assert kinds(stopped["messages"]) == ["human", "recall"][: 1 + (when == "interrupt_after")]
        assert parent.get_state(thread).next
        output = parent.invoke(None, thread, context=context)
    assert [message.content for message in output["messages"]] == [message.content for message in plain["messages"]]


async def test_asynchronous_checkpoints(world, tmp_path: Path):
    """Proves: OPS-2, LOOP-2."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        parent = chat_parent(build_graph(world), checkpointer=saver, interrupt_before=["recall0"])
        thread, context = {"configurable": {"thread_id": "one"}}, Context(tenant=VALLEY)
        await parent.ainvoke({"messages": [human(DIRECT)]}, thread, context=context)
        output = await parent.ainvoke(None, thread, context=context)
    assert kinds(output["messages"]) == ["human", "recall", "ai"]
    assert "[f-tallinn]" in output["messages"][1].content


NODES = ["plan_queries", "execute_tool", "evaluate_progress", "refine", "synthesize"]


def test_a_run_resumed_at_every_step_ends_the_same(world, tmp_path: Path):
    """Proves: LOOP-2, LOOP-9 (everything that a step needs stands in the checkpoint)."""
    plain = build_graph(world).invoke(valley_request(TWO_HOPS, debug=True))
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        thread = {"configurable": {"thread_id": "one"}}
        given: Any = valley_request(TWO_HOPS, debug=True)
        for _ in range(100):
            graph = build_graph(world, checkpointer=saver)
            output = graph.invoke(given, thread, interrupt_after=NODES)
            given = None
            if not graph.get_state(thread).next:
                break
    assert comparable_json(output) == comparable_json(plain)


def test_checkpoints_under_strict_msgpack(tmp_path: Path):
    """Proves: LOOP-2 (nothing but plain JSON in the state: no warning, and it reads back equal)."""
    code = textwrap.dedent(
        """
        import os, sys, warnings, logging
        os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
        assert "langgraph" not in sys.modules  # which reads it once
        warnings.simplefilter("error")
        logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
        from langgraph.checkpoint.sqlite import SqliteSaver
        from recall_loop.graph.builder import build_graph
        from tests.integration.graph.worlds import TWO_HOPS, filled_store, valley_request
        thread = {"configurable": {"thread_id": "one"}}
        with filled_store() as store, SqliteSaver.from_conn_string(sys.argv[1]) as saver:
            graph = build_graph(store, checkpointer=saver)
            values = {}
            for values in graph.stream(valley_request(TWO_HOPS, debug=True), thread, stream_mode="values"):
                pass
            read = graph.get_state(thread).values
            assert {name: read[name] for name in values} == values
            assert graph.get_state(thread).next == ()
            assert sum(1 for _ in graph.get_state_history(thread)) > 4
            pool = read["evidence_pool"]
            assert pool and all(type(entry) is dict for entry in pool.values())
        """
    )
    done = run_forked(code, str(tmp_path / "checkpoints.sqlite"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_everything_in_a_checkpoint_is_json_but_the_messages(world):
    """Proves: LOOP-2."""
    graph = build_graph(world, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "one"}}
    graph.invoke(valley_request(TWO_HOPS, debug=True), thread)
    for snapshot in graph.get_state_history(thread):
        values = {name: value for name, value in snapshot.values.items() if name != "messages"}
        assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_records_with_numbers_that_no_checkpoint_takes(world):
    """Proves: LOOP-2, STORE-1 (attributes take any JSON; a checkpoint still holds the run)."""
    with filled_store() as store:
        store.upsert(
            [{"id": "big", "kind": "fact", "text": "Zebedee counted the stars.", "attributes": {"stars": 10**30}}],
            tenant=VALLEY,
        )
        graph = build_graph(store, checkpointer=InMemorySaver())
        output = graph.invoke(
            valley_request("How many stars did Zebedee count?"), {"configurable": {"thread_id": "one"}}
        )
    assert "big" in [item.id for item in validated_result(output).facts]
