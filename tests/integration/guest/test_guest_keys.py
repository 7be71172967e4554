"""The loop as a guest in somebody else's graph: which of the parent's keys it reads, and which it writes."""

from __future__ import annotations

import dataclasses
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send
from pydantic import BaseModel

from recall_loop.graph.builder import build_graph
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings
from tests.integration.graph.worlds import DIRECT, NOW, VALLEY, filled_store

IN_VALLEY = {"context": Context(tenant=VALLEY)}
STAMP = {"timestamp": NOW}


EVERYTHING = Settings(context_floor=0.0)


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


class Office(TypedDict, total=False):
    """A parent whose own keys share names with ours, mostly with other types."""

    messages: Annotated[list[AnyMessage], add_messages]
    answer: str
    metadata: dict[str, Any]
    warnings: list[str]
    facts: list[str]
    context: str
    degraded: str
    confidence: float
    stop: bool
    request_id: str
    reference_time: float
    scope: list[str]
    filters: str
    goal: dict[str, Any]
    user_id: int
    tenant: int
    max_facts: str
    debug: dict[str, Any]
    content_types: int
    plan: str
    route: str
    made_up: str
    task_goal: Any
    customer: Any
    task_plan: str


OWN: dict[str, Any] = {
    "answer": "mine",
    "metadata": {"ticket": "T-1"},
    "warnings": ["mine"],
    "facts": ["mine"],
    "context": "mine",
    "degraded": "no",
    "confidence": 0.5,
    "stop": False,
    "request_id": "R-9",
    "reference_time": 12.5,
    "scope": ["billing"],
    "filters": "none",
    "goal": {"sell": 3},
    "user_id": 7,
    "tenant": 3,
    "max_facts": "many",
    "debug": {"on": 1},
    "content_types": 4,
    "plan": "gold",
    "route": "north",
    "made_up": "story",
}


def office(child: Any, schema: Any = Office, **compiled: Any) -> Any:
    builder = StateGraph(schema, context_schema=Context)
    builder.add_node("recall", child)
    builder.add_edge(START, "recall")
    return builder.compile(**compiled)


def asked(**more: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(DIRECT, additional_kwargs=STAMP)], **more}


def own(output: Any) -> dict[str, Any]:
    return {name: output[name] for name in OWN}


def ids(output: Any) -> set[str]:
    return {fact["id"] for fact in output["facts"]}


async def test_a_parents_own_keys_stay_as_they_are(world):
    """Proves: GRAPH-1 (neither read nor written, whatever their types; the context message comes as before)."""
    parent = office(build_graph(store=world))
    for output in (
        parent.invoke(asked(**OWN), **IN_VALLEY),
        await parent.ainvoke(asked(**OWN), **IN_VALLEY),
    ):
        assert own(output) == OWN
        assert [message.name for message in output["messages"]] == [None, "recall_loop"]
        assert "[f-tallinn]" in output["messages"][-1].content
    assert set(parent.invoke(asked(), **IN_VALLEY)) == {"messages"}


def test_own_keys_of_the_right_type_are_not_read_either(world):
    """Proves: GRAPH-1 (a key that merely shares a name changes nothing)."""
    plain = office(build_graph(store=world)).invoke(asked(), **IN_VALLEY)
    same = {"user_id": "nobody", "goal": "Sell a boat.", "scope": "local", "filters": {"label": "none"}, "debug": True}
    output = office(build_graph(store=world)).invoke(asked(**same), **IN_VALLEY)
    assert output["messages"][-1].content == plain["messages"][-1].content
    assert {name: output[name] for name in same} == same


@dataclasses.dataclass
class Desk:
    messages: Annotated[list[AnyMessage], add_messages]
    goal: int = 3
    answer: str = "mine"


class Form(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]
    goal: int = 3
    answer: str = "mine"


@pytest.mark.parametrize("schema", [Desk, Form])
@pytest.mark.parametrize("inputs", [None, {"max_facts": "goal"}])
def test_parents_with_other_kinds_of_state(world, schema, inputs):
    """Proves: GRAPH-1 (a dataclass or a pydantic model as the parent's state)."""
    parent = office(build_graph(store=world, inputs=inputs), schema)
    output = parent.invoke(asked(goal=3, answer="mine"), **IN_VALLEY)
    assert "[f-tallinn]" in output["messages"][-1].content
    assert (output["goal"], output["answer"]) == (3, "mine")
    assert (output["messages"][-1].content.count("\n[") <= 3) == (inputs is not None)


def test_a_child_with_its_own_checkpoints_keeps_to_its_keys(world):
    """Proves: GRAPH-1, LOOP-2 (also on the second turn of a thread)."""
    parent = office(build_graph(store=world, checkpointer=True), checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "one"}}
    parent.invoke(asked(**OWN), thread, **IN_VALLEY)
    output = parent.invoke({"messages": [HumanMessage("Which animals did Quist count?")]}, thread, **IN_VALLEY)
    assert own(output) == OWN
    assert [message.name for message in output["messages"]] == [None, "recall_loop"] * 2


def test_the_parent_gets_the_outputs_that_it_asked_for(world):
    """Proves: GRAPH-1 (names, or names with those of the parent; nothing else is written)."""
    child = build_graph(store=world, outputs=("context", "confidence"))
    output = office(child).invoke(asked(**OWN), **IN_VALLEY)
    assert "[f-tallinn]" in output["context"]
    assert output["confidence"]["label"]
    assert own(output) == OWN | {name: output[name] for name in ("context", "confidence")}
    assert len(output["messages"]) == 1
    renamed = build_graph(store=world, outputs={"context": "task_plan", "messages": "messages", "facts": "plan"})
    output = office(renamed).invoke(asked(**OWN), **IN_VALLEY)
    assert "[f-tallinn]" in output["task_plan"]
    assert output["plan"][0]["id"] == "f-tallinn"
    assert own(output) == OWN | {"plan": output["plan"]}
    assert len(output["messages"]) == 2
    both = build_graph(store=world, output="message", outputs=["messages", "facts"])
    output = office(both).invoke(asked(**OWN), **IN_VALLEY)
    assert output["facts"][0]["id"] == "f-tallinn" and len(output["messages"]) == 2


async def test_asked_outputs_of_a_direct_call(world):
    """Proves: GRAPH-1 (what was asked for is what comes back; nothing asked, everything)."""
    request = {"messages": [("user", DIRECT)], "tenant": VALLEY}
    child = build_graph(store=world, outputs={"context": "notes", "answer": "answer"})
    assert set(child.invoke(request)) == set(await child.ainvoke(request)) == {"notes", "answer"}
    assert set(child.get_output_jsonschema()["properties"]) == {"context", "answer"}
    assert {"facts", "context", "messages", "stop"} <= set(build_graph(store=world).invoke(request))


def test_state_output_writes_no_answer_where_nothing_writes_answers(world):
    """Proves: GRAPH-1, LOOP-10 (all keys of the result, but no None over the parent's own answer)."""

    class Shared(TypedDict, total=False):
        messages: Annotated[list[AnyMessage], add_messages]
        answer: str | None
        facts: list[dict[str, Any]]

    output = office(build_graph(store=world, output="state"), Shared).invoke(asked(answer="mine"), **IN_VALLEY)
    assert output["answer"] == "mine"
    assert output["facts"][0]["id"] == "f-tallinn"
    named = build_graph(store=world, output="state", outputs=("answer",))
    assert office(named, Shared).invoke(asked(answer="last turn's"), **IN_VALLEY)["answer"] is None


def test_mapped_inputs_are_read(world):
    """Proves: GRAPH-1 (our input from their key; one that names no owner may be absent)."""
    child = build_graph(store=world, inputs={"user_id": "customer", "goal": "task_goal"}, outputs=("facts",))
    parent = office(child)
    found = parent.invoke(asked(**OWN, customer="u-joel"), **IN_VALLEY)["facts"]
    assert {"f-birk", "f-honey"} & {fact["id"] for fact in found}
    assert "f-tallinn" not in {fact["id"] for fact in found}
    with pytest.raises(InvalidInputError, match="customer: got None"):
        parent.invoke(asked(**OWN, customer=None), **IN_VALLEY)


def test_same_names_and_crossed_names(world):
    """Proves: GRAPH-1 (a list of names maps each to itself; a key that is mapped is not read under its own name)."""

    class Crossed(TypedDict, total=False):
        messages: Annotated[list[AnyMessage], add_messages]
        goal: str
        user_id: str
        facts: list[dict[str, Any]]

    same = office(build_graph(store=world, inputs=["user_id"], outputs=["facts"]), Crossed)
    found = ids(same.invoke(asked(user_id="u-joel", goal=5), **IN_VALLEY))
    assert "f-honey" in found
    assert "f-tallinn" not in found
    child = build_graph(store=world, inputs={"goal": "user_id", "user_id": "goal"}, outputs=["facts"])
    crossed = asked(goal="u-joel", user_id="Find it.")
    assert ids(office(child, Crossed).invoke(crossed, **IN_VALLEY)) == found
    assert ids(child.invoke({**crossed, "tenant": VALLEY})) == found
    for mode in ("values", "updates"):
        parts = list(child.stream({**crossed, "tenant": VALLEY}, stream_mode=mode))
        assert ids(parts[-1] if mode == "values" else parts[-1]["synthesize"]) == found


def test_the_conversation_may_stand_under_another_key(world):
    """Proves: GRAPH-1 (messages are an input like any other)."""

    class Chat(TypedDict, total=False):
        messages: int
        question: str
        notes: str

    child = build_graph(store=world, inputs={"messages": "question"}, outputs={"context": "notes"})
    output = office(child, Chat).invoke({"messages": 4, "question": DIRECT}, **IN_VALLEY)
    assert "[f-tallinn]" in output["notes"]
    assert (output["messages"], output["question"]) == (4, DIRECT)


@pytest.mark.parametrize(
    ("inputs", "given", "named"),
    [
        ({"goal": "task_goal"}, {"task_goal": {"sell": 3}}, ["task_goal", "'sell': 3", "text", "goal"]),
        ({"max_facts": "task_goal"}, {"task_goal": 5000}, ["task_goal", "5000", "1 to 1000"]),
        ({"filters": "task_goal"}, {"task_goal": {"role": "king"}}, ["task_goal.role", "king", "assistant"]),
        ({"scope": "task_goal"}, {"task_goal": "planet"}, ["task_goal", "planet", "constellation"]),
        ({"request_id": "task_goal"}, {"task_goal": 7}, ["task_goal", "7", "text"]),
        ({"messages": "task_goal"}, {"task_goal": 7}, ["task_goal", "7", "messages"]),
    ],
)
async def test_a_mapped_key_of_the_wrong_type_is_an_error(world, inputs, given, named):
    """Proves: GRAPH-1 (the parent's key, its value and what is allowed)."""
    parent = office(build_graph(store=world, inputs=inputs))
    with pytest.raises(InvalidInputError) as caught:
        parent.invoke(asked(**given), **IN_VALLEY)
    assert all(part in str(caught.value) for part in named), str(caught.value)
    with pytest.raises(InvalidInputError, match=named[0]):
        await parent.ainvoke(asked(**given), **IN_VALLEY)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"inputs": {"golas": "goal"}}, "inputs"),
        ({"inputs": "goal"}, "inputs"),
        ({"inputs": [["goal"]]}, "inputs"),
        ({"parts": 3}, "parts"),
        ({"inputs": {"goal": ""}}, "inputs"),
        ({"inputs": {"goal": 3}}, "inputs"),
        ({"inputs": {"goal": "task", "user_id": "task"}}, "inputs"),
        ({"outputs": ["notes"]}, "outputs"),
        ({"outputs": "context"}, "outputs"),
        ({"outputs": []}, "outputs"),
        ({"outputs": {"context": "x", "facts": "x"}}, "outputs"),
        ({"outputs": ["messages"], "output": "state"}, "outputs"),
        ({"outputs": ["facts"], "output": "message"}, "outputs.*messages"),
    ],
)
def test_bad_maps_are_errors(options, field):
    """Proves: GRAPH-1 (named when the graph is built)."""
    with pytest.raises(InvalidInputError, match=field):
        build_graph(**options)


class Results(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[str], operator.add]
    user_id: str


@pytest.mark.parametrize("how", ["plain", "configured", "asynchronous"])
async def test_what_a_node_of_the_parent_hands_in_is_read(world, how):
    """Proves: GRAPH-1 (a function that calls the graph names the inputs itself, and gets the whole result)."""
    graph = build_graph(store=world)

    def given(state: Any) -> dict[str, Any]:
        return {"messages": state["messages"], "user_id": state["user_id"], "tenant": VALLEY}

    def plain(state: Results) -> dict[str, Any]:
        return {"notes": [graph.invoke(given(state))["context"]]}

    def configured(state: Results, config: RunnableConfig) -> dict[str, Any]:
        return {"notes": [graph.invoke(given(state), config)["context"]]}

    async def asynchronous(state: Results, config: RunnableConfig) -> dict[str, Any]:
        return {"notes": [(await graph.ainvoke(given(state), config))["context"]]}

    nodes = {"plain": plain, "configured": configured, "asynchronous": asynchronous}
    parent = office(nodes[how], Results)
    output = await parent.ainvoke(asked(user_id="u-joel"))
    assert "[f-tallinn]" not in output["notes"][0]
    assert "[f-" in output["notes"][0]


def test_a_copy_with_a_config_is_the_same_guest(world):
    """Proves: GRAPH-1 (with_config)."""
    child = build_graph(store=world, inputs={"user_id": "customer"}, outputs=("context",)).with_config(tags=["memory"])
    output = office(child).invoke(asked(**OWN, customer="u-mara"), **IN_VALLEY)
    assert own(output) == OWN | {"context": output["context"]}
    assert "[f-tallinn]" in output["context"]


USERS = ("u-mara", "u-joel", "u-ines")


def fan_out(child: Any, payload: Any) -> Any:
    builder = StateGraph(Results, context_schema=Context)
    builder.add_node("recall", child)
    builder.add_conditional_edges(START, lambda state: [Send("recall", payload(state, user)) for user in USERS])
    return builder.compile()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("inputs", [None, ["user_id"], {"user_id": "who"}])
async def test_a_fan_out_over_users_loses_nothing(world, inputs, asynchronous):
    """Proves: GRAPH-2, GRAPH-1 (the same question for each user: a message each, by that user's memory)."""
    name = "who" if isinstance(inputs, dict) else "user_id"
    parent = fan_out(
        build_graph(store=world, inputs=inputs, settings=EVERYTHING),
        lambda state, user: {"messages": state["messages"], name: user},
    )
    for _ in range(2):
        output = await parent.ainvoke(asked(), **IN_VALLEY) if asynchronous else parent.invoke(asked(), **IN_VALLEY)
        blocks = [message for message in output["messages"] if message.name == "recall_loop"]
        assert len(output["messages"]) == 1 + len(USERS)
        assert sum("[f-tallinn]" in block.content for block in blocks) == 1
        assert sum("[f-birk]" in block.content for block in blocks) == 1
        assert sum("[f-quist]" in block.content for block in blocks) == 1


def test_what_a_send_hands_in_is_not_written_back(world):
    """Proves: GRAPH-2 (a question without an id stands there once, under any reducer)."""

    class Plain(TypedDict, total=False):
        messages: Annotated[list[Any], operator.add]

    for state in (Plain, MessagesState):
        builder = StateGraph(state, context_schema=Context)
        builder.add_node("recall", build_graph(store=world))
        builder.add_conditional_edges(
            START, lambda state: [Send("recall", {**state, "user_id": user}) for user in USERS]
        )
        output = builder.compile().invoke({"messages": [("user", DIRECT)]}, **IN_VALLEY)
        assert len(output["messages"]) == 1 + len(USERS)
        assert {getattr(message, "name", None) for message in output["messages"]} == {None, "recall_loop"}


def test_two_recall_nodes_lose_nothing(world):
    """Proves: GRAPH-2 (one after the other, side by side, and one graph inside two others)."""
    for edges in ([(START, "wide"), ("wide", "narrow")], [(START, "wide"), (START, "narrow")]):
        builder = StateGraph(MessagesState, context_schema=Context)
        builder.add_node("wide", build_graph(store=world))
        builder.add_node("narrow", build_graph(store=world))
        for edge in edges:
            builder.add_edge(*edge)
        output = builder.compile().invoke(asked(), **IN_VALLEY)
        assert [message.name for message in output["messages"]] == [None, "recall_loop", "recall_loop"]
        inner = builder.compile()
        outer = StateGraph(MessagesState, context_schema=Context)
        outer.add_node("left", inner)
        outer.add_node("right", inner)
        outer.add_edge(START, "left")
        outer.add_edge(START, "right")
        output = outer.compile().invoke(asked(), **IN_VALLEY)
        assert [message.name for message in output["messages"]] == [None, *["recall_loop"] * 4]


def test_the_same_node_again_does_not_append_again(world):
    """Proves: GRAPH-2 (an agent that comes back to the node, a turn that is run again, a run that is resumed)."""
    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("recall", build_graph(store=world))
    builder.add_node("think", lambda _: {"messages": [("ai", "let me think")]})
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "think")
    builder.add_conditional_edges("think", lambda state: "recall" if len(state["messages"]) < 5 else "__end__")
    saver = InMemorySaver()
    parent = builder.compile(checkpointer=saver, interrupt_before=["think"])
    thread = {"configurable": {"thread_id": "one"}}
    given: Any = asked()
    while given is not None or parent.get_state(thread).next:
        output = parent.invoke(given, thread, **IN_VALLEY)
        given = None
    kinds = [message.name or message.type for message in output["messages"]]
    assert kinds == ["human", "recall_loop", "ai", "ai", "ai"]
    again = office(build_graph(store=world), MessagesState)
    once = again.invoke(asked(), **IN_VALLEY)["messages"]
    assert again.invoke({"messages": once}, **IN_VALLEY)["messages"] == once


def test_a_turn_that_failed_half_way_is_appended_once(world):
    """Proves: GRAPH-2 (a retry after the recall, on the thread's checkpoint)."""
    fails = [RuntimeError("down"), None]

    def think(_: Any) -> dict[str, Any]:
        error = fails.pop(0)
        if error is not None:
            raise error
        return {"messages": [("ai", "done")]}

    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("recall", build_graph(store=world))
    builder.add_node("think", think)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "think")
    parent = builder.compile(checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "one"}}
    question = HumanMessage(DIRECT, id="q", additional_kwargs=STAMP)
    with pytest.raises(RuntimeError, match="down"):
        parent.invoke({"messages": [question]}, thread, **IN_VALLEY)
    output = parent.invoke({"messages": [question]}, thread, **IN_VALLEY)
    assert [message.name or message.type for message in output["messages"]] == ["human", "recall_loop", "ai"]
