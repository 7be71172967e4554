"""Checkpoint histories of real graphs, and this agent's own runs, as trajectories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.history import convert_history
from recall_loop.memory.trajectories.capture.runs_file import record_from_run
from recall_loop.memory.trajectories.capture.self_capture import capture_run
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Fact
from recall_loop.state.records.trajectories import RunData, run_from_record
from recall_loop.state.request import RetrieveRequest
from tests.embedders import WordHashEmbedder

CONFIG: Any = {"configurable": {"thread_id": "t1"}}
CALL = {"name": "login", "args": {"user": "ada", "password": "hunter-22"}, "id": "c1"}


def ask(state: MessagesState) -> Any:
    return {"messages": [AIMessage("", tool_calls=[CALL])]}


def use(state: MessagesState) -> Any:
    return {"messages": [ToolMessage("welcome hunter-22", tool_call_id="c1")]}


def answer(state: MessagesState) -> Any:
    asked = state["messages"][0].content
    if asked == "break":
        raise ValueError("broken by hunter-22")
    if asked == "wait":
        interrupt("go on?")
    return {"messages": [AIMessage("Done.")]}


@pytest.fixture
def graph() -> Any:
    builder = StateGraph(MessagesState)
    for name, node in (("ask", ask), ("use", use), ("answer", answer)):
        builder.add_node(name, node)
    for edge in ((START, "ask"), ("ask", "use"), ("use", "answer"), ("answer", END)):
        builder.add_edge(*edge)
    return builder.compile(checkpointer=InMemorySaver())


def contents(run: RunData) -> list[tuple[str | None, str, str]]:
    return [(turn.step_id, one.role.value, one.content) for turn in run.turns for one in turn.messages]


def test_a_history_becomes_a_run_with_its_steps(graph: Any) -> None:
    """Proves: TRAJ-1."""
    graph.invoke({"messages": [HumanMessage("hello")]}, CONFIG)
    history = list(graph.get_state_history(CONFIG))
    run = convert_history(history)
    assert contents(run) == [
        ("0", "user", "hello"),
        ("1", "assistant", ""),
        ("2", "tool", "welcome [masked]"),
        ("3", "assistant", "Done."),
    ]
    assert (run.execution.status, run.metadata.run_id, run.metadata.run_type) == ("completed", "t1", "langgraph")
    assert run.metadata.start_time is not None
    assert run.metadata.tools_used == ("login",)
    assert convert_history(reversed(history)) == run


def test_values_alone_are_read_too(graph: Any) -> None:
    """Proves: TRAJ-1."""
    graph.invoke({"messages": [HumanMessage("hello")]}, CONFIG)
    values = [snapshot.values for snapshot in reversed(list(graph.get_state_history(CONFIG)))]
    run = convert_history(values)
    assert [content for _, _, content in contents(run)] == ["hello", "", "welcome [masked]", "Done."]
    assert [content for _, _, content in contents(convert_history([values[-1]]))] == [
        "hello",
        "",
        "welcome [masked]",
        "Done.",
    ]
    with pytest.raises(InvalidInputError, match=r"states\.0"):
        convert_history([3])


@pytest.mark.parametrize(
    ("wrong", "field"), [({"contents": "Done."}, "contents"), ({"body": "Done."}, "content")], ids=["near", "far"]
)
def test_a_misspelt_field_in_a_state_is_named_by_state_and_message(wrong: dict[str, str], field: str) -> None:
    """Proves: TRAJ-1, API-2 (as in a list of messages; the run would lack what was said)."""
    first = {"role": "user", "content": "hello", "status": "read", "thread": "t"}
    states = [{"messages": [first]}, {"messages": [first, {"role": "user", **wrong}]}]
    with pytest.raises(InvalidInputError) as caught:
        record_from_run({"id": "r", "states": states})
    assert caught.value.field == f"states.1.messages.1.{field}"
    assert "content" in caught.value.allowed
    assert record_from_run({"id": "r", "states": states[:1]}).id == "r"


def test_an_exception_and_an_interrupt_are_distinguished(graph: Any) -> None:
    """Proves: TRAJ-1."""
    with pytest.raises(ValueError, match="broken"):
        graph.invoke({"messages": [HumanMessage("break")]}, CONFIG)
    run = convert_history(graph.get_state_history(CONFIG))
    assert (run.execution.status, run.execution.confidence) == ("error", 0.95)
    assert run.metadata.error is not None
    assert "broken by [masked]" in run.metadata.error
    other: Any = {"configurable": {"thread_id": "t2"}}
    graph.invoke({"messages": [HumanMessage("wait")]}, other)
    assert convert_history(graph.get_state_history(other)).execution.status == "incomplete"


def as_json(history: Any) -> Any:
    """Return snapshots as LangGraph's server writes them."""
    return [
        {
            "values": {"messages": [message.model_dump() for message in state.values.get("messages", ())]},
            "next": list(state.next),
            "tasks": [{"name": task.name, "error": task.error and repr(task.error)} for task in state.tasks],
            "created_at": state.created_at,
            "metadata": state.metadata,
        }
        for state in history
    ]


@pytest.mark.parametrize(("said", "status"), [("hello", "completed"), ("break", "error"), ("wait", "incomplete")])
def test_snapshots_as_json_have_times_and_the_ending_too(graph: Any, said: str, status: str) -> None:
    """In any order. Proves: TRAJ-1."""
    with suppress(ValueError):
        graph.invoke({"messages": [HumanMessage(said)]}, CONFIG)
    history = list(graph.get_state_history(CONFIG))
    run = convert_history(as_json(history))
    assert run.execution.status == status and run.metadata.run_type == "langgraph"
    assert run.metadata.start_time == convert_history(history).metadata.start_time is not None
    assert contents(run) == contents(convert_history(history)) == contents(convert_history(as_json(history[::-1])))


def test_a_message_that_was_trimmed_later_is_kept(graph: Any) -> None:
    """Proves: TRAJ-1."""
    graph.invoke({"messages": [HumanMessage("hello", id="h"), HumanMessage("hello", id="h2")]}, CONFIG)
    graph.update_state(CONFIG, {"messages": [RemoveMessage("h")]})
    run = convert_history(graph.get_state_history(CONFIG))
    assert [content for _, _, content in contents(run)] == ["hello", "hello", "", "welcome [masked]", "Done."]


@pytest.fixture
def memory() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert([Fact(id="f1", text="The ferry leaves at nine."), Fact(id="f2", text="Ada repaired the boat.")])
        yield store


def test_a_captured_run_lists_productive_strategies_and_queries(memory: MemoryStore) -> None:
    """Proves: TRAJ-9."""
    request = RetrieveRequest(messages=[{"content": "When does the ferry leave?"}], agent_id="a", debug=True)
    result = retrieve(request.model_copy(update={"agent_id": None}), store=memory)
    record = capture_run(result, request)
    run = run_from_record(record)
    assert (record.text, record.agent_id, record.tags) == ("When does the ferry leave?", "a", ("recall-loop-run",))
    assert record == capture_run(result, request)
    assert (run.execution.status, run.metadata.run_type, run.outcome_score) == ("completed", "retrieval", None)
    assert list(run.extra["strategies"]) == result.metadata["strategies_used"]  # type: ignore[arg-type]
    queries: Any = run.extra["queries"]
    assert sum(query["new_facts"] for query in queries) == sum(result.metadata["new_facts_by_iteration"])
    assert {"query", "source", "strategy", "new_facts"} <= set(queries[0])
    assert run.metadata.extra["stop"] == result.stop.reason
    assert "nine" not in record.model_dump_json()
    memory.upsert([record])
    assert run_from_record(memory.get([record.id], scope=request.read_scope())[0]) == run


def test_without_a_trace_the_counters_are_kept(memory: MemoryStore) -> None:
    """Proves: TRAJ-9."""
    request = RetrieveRequest(messages=[{"content": "When does the ferry leave?"}], max_iterations=1)
    run = run_from_record(capture_run(retrieve(request, store=memory), request))
    assert run.extra == {"strategies": {}, "queries": []}
    assert run.metadata.extra["iterations"] == 1
    assert run.execution.status in ("incomplete", "completed")
