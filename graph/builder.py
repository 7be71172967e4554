"""build_graph: the compiled state machine, with a span around each run and each node (OPS-7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from opentelemetry.trace import Span
from typing_extensions import TypedDict

from recall_loop.graph.nesting.parent_keys import KeyNames, ParentKeys
from recall_loop.graph.nesting.parent_messages import MESSAGES
from recall_loop.graph.traced_graph import TracedGraph
from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.evaluate_progress import evaluate_progress
from recall_loop.nodes.execute_tool import execute_tool
from recall_loop.nodes.plan_queries import plan_queries
from recall_loop.nodes.refine import refine
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.run_context import (
    DEFAULT_RETRIEVAL_PARTS,
    RetrievalParts,
)
from recall_loop.nodes.runtime.run_holder import current_holder
from recall_loop.nodes.synthesize import synthesize
from recall_loop.state.agent_state import AgentState, InputState, MessageOutput, ResultState
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.run.cancellation import raise_if_cancelled
from recall_loop.state.run.patience import waiting_at_most
from recall_loop.state.settings.settings import Settings, checked_settings
from recall_loop.state.types import Route
from recall_loop.telemetry import metrics, names
from recall_loop.telemetry.run_span import current_run
from recall_loop.telemetry.spans import allow_content, set_attributes, span

# A node returns a partial update of the state.
GraphNode = Callable[[Any, Runtime[Context], GraphResources], dict[str, Any]]
_PLANNING = ("plan_queries", "refine")


def traced_node(name: str, node: GraphNode, resources: GraphResources) -> Callable[..., dict[str, Any]]:
    """Return a node as LangGraph calls it, with a span around each call."""

    def call(state: Mapping[str, Any], *, runtime: Runtime[Context]) -> dict[str, Any]:
        began = perf_counter()
        # The first node receives the state of the thread's last run: its id isn't this run's.
        attributes = {names.NODE: name, names.REQUEST_ID: None if name == "plan_queries" else state.get("request_id")}
        try:
            with (
                allow_content(resources.settings.trace_content),
                span(names.NODE_SPAN.format(node=name), attributes) as opened,
            ):
                raise_if_cancelled()
                update = node(state, runtime, resources)
                _record_node(opened, name, state, update)
        finally:
            metrics.NODE_DURATION.record(perf_counter() - began, {names.NODE: name})
        return update

    return call


def _within_deadline(node: GraphNode) -> GraphNode:
    """Return a node of a run on its way, which waits for a backend no longer than until the run's deadline."""

    def call(state: Any, runtime: Runtime[Context], resources: GraphResources) -> dict[str, Any]:
        with waiting_at_most(resources.run(state, runtime).seconds_left(state["started"])):
            return node(state, runtime, resources)

    return call


def _record_node(opened: Span, name: str, state: Mapping[str, Any], update: Mapping[str, Any]) -> None:
    """Record the outcome of the call in the node's span and in the run's."""
    now = {**state, **update}
    watch, run = current_run(), current_holder().run
    if watch is not None and run is not None:
        watch.record_request(now.get("request_id"), run.request.question.content)
        if name == "synthesize":
            watch.record_result(now)
    if opened.is_recording():
        set_attributes(opened, _plan_attributes(now) if name in _PLANNING else _progress_attributes(name, now))


def _plan_attributes(state: Mapping[str, Any]) -> dict[str, Any]:
    plan = state["plan"]
    return {
        names.REQUEST_ID: state["request_id"],
        names.ITERATION: state["iteration"] + 1,
        names.ORIGIN: plan["origin"],
        names.STRATEGY: plan["strategy"],
        names.TOOL: plan["tool"],
        names.QUERIES: len(plan["queries"]),
    }


def _progress_attributes(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {
        names.ITERATION: state["iteration"],
        names.STRATEGY: state["plan"]["strategy"],
        names.UNIQUE_FACTS: state["unique_facts_seen"],
        names.DEGRADED: state["degraded"],
    }
    if name == "evaluate_progress":
        attributes |= {
            names.NEW_FACTS: state["new_facts_last_iteration"],
            names.COVERAGE: state["coverage_score"],
            names.ROUTE: state["route"],
            names.STOP_REASON: state["stop_reason"] or None,
        }
    if name == "synthesize":
        attributes |= {names.FACTS: len(state["facts"]), names.STOP_REASON: state["stop"]["reason"]}
    return attributes


Checkpointer = bool | BaseCheckpointSaver[Any] | None
OUTPUTS = ("message", "state")


def build_graph(
    store: MemoryStore | None = None,
    llm: ChatModel | str | None = None,
    settings: Settings | None = None,
    checkpointer: Checkpointer = None,
    output: Literal["message", "state"] | None = None,
    name: str = "recall_loop",
    *,
    inputs: KeyNames | None = None,
    outputs: KeyNames | None = None,
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS,
) -> TracedGraph:
    """Return the retrieval loop as a compiled graph.

    Args:
        store: the memory to search; None = `Context.store_path` or `Settings.store_path`, opened for reading at the
            first run. Until the settings' store exists, nothing is found.
        llm: any LangChain chat model, also with fallbacks or bound arguments, or its name as in `Settings.llm_model`
            ("provider:model"), which plans, judges and answers; None = `Context.llm_model` or `Settings.llm_model`;
            everything works without one.
        settings: None = read from the environment now.
        checkpointer: as in LangGraph's `compile`; leave it out for a subgraph or the dev server.
        output: "message" = the result's keys and one appended message with the cited context; "state" = the
            result's keys only; None = what `outputs` names, else as "message".
        name: name of the graph in traces and drawings.
        inputs: inputs to read from a parent graph's state besides `messages`: names, or a mapping of the graph's own
            names to the parent's keys, such as {"goal": "task_goal"}. Other keys of a parent are not read. A direct
            call and a `Send` use the graph's own names.
        outputs: outputs to write to a parent graph's state and to return from a direct call: names of the result's keys
            and `messages`, or a mapping of them to the parent's keys. None = in a parent `messages`, or with
            output="state" every key of the result; in a direct call everything.
        parts: the components of a retrieval; measurements pass others.

    Raises:
        InvalidInputError: a setting in the environment, the calibration file, `llm`, `store`, `output`, `inputs` or
            `outputs` is not allowed, or `output` and `outputs` exclude each other. At run time: the parent has no such
            key, its value doesn't fit, or `inputs` names an owner (`tenant`, `agent_id`, `user_id`,
            `conversation_id`) that has none.
    """
    if output not in (*OUTPUTS, None):
        raise InvalidInputError("output", output, "message or state")
    resources = GraphResources(store, checked_settings(settings), llm, parts=parts)
    resources.calibration  # noqa: B018  # a bad file is reported now, not at the end of the first run
    keys = ParentKeys.parse(inputs, outputs, with_message=output != "state")
    if output == "message" and MESSAGES not in keys.outputs:
        raise InvalidInputError("outputs", outputs, 'names with `messages`, or no output="message", which writes them')
    builder = _wired(resources, keys, ResultState if output == "state" else MessageOutput)
    return TracedGraph.from_compiled(builder.compile(checkpointer=checkpointer, name=name), keys)


def _wired(
    resources: GraphResources, keys: ParentKeys, output: type[ResultState]
) -> StateGraph[AgentState, Context, InputState, Any]:
    """Return the graph with its nodes and edges, not compiled yet."""
    schema = keys.output_schema(output)
    builder = StateGraph(AgentState, context_schema=Context, input_schema=InputState, output_schema=schema)
    nodes: dict[str, GraphNode] = {
        "plan_queries": plan_queries,
        "refine": _within_deadline(refine),
        "execute_tool": _within_deadline(execute_tool),
        "evaluate_progress": _within_deadline(evaluate_progress),
        "synthesize": _within_deadline(partial(synthesize, append_message=MESSAGES in keys.outputs)),
    }
    for step, node in nodes.items():
        builder.add_node(step, traced_node(step, node, resources))
    builder.add_edge(START, "plan_queries")
    builder.add_edge("plan_queries", "execute_tool")
    builder.add_edge("refine", "execute_tool")
    builder.add_edge("execute_tool", "evaluate_progress")
    builder.add_conditional_edges("evaluate_progress", route_after_evaluation)
    builder.add_edge("synthesize", END)
    return builder


class RouteState(TypedDict):
    """The part of the state that the decision reads; LangGraph reads no more for it."""

    route: str


def route_after_evaluation(state: RouteState) -> Literal["plan_queries", "refine", "synthesize"]:
    """Return the node that follows evaluate_progress (LOOP-1)."""
    if state["route"] == Route.STOP:
        return "synthesize"
    return "refine" if state["route"] == Route.REFINE else "plan_queries"
