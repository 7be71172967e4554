"""build_graph: the compiled state machine, for Studio, as a subgraph or on its own."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from recall_loop.graph.graph_tracing import GraphNode, TracedGraph, traced_node
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.evaluate_progress import evaluate_progress
from recall_loop.nodes.execute_tool import execute_tool
from recall_loop.nodes.plan_queries import plan_queries
from recall_loop.nodes.refine import refine
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.retrieval_parts import DEFAULT_RETRIEVAL_PARTS, RetrievalParts
from recall_loop.nodes.synthesize import synthesize
from recall_loop.state.agent_state import AgentState, InputState, MessageOutput, ResultState
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import Route

Checkpointer = bool | BaseCheckpointSaver[Any] | None
OUTPUTS = ("message", "state")


def build_graph(
    store: MemoryStore | None = None,
    llm: BaseChatModel | None = None,
    settings: Settings | None = None,
    checkpointer: Checkpointer = None,
    output: Literal["message", "state"] = "message",
    name: str = "recall_loop",
    *,
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS,
) -> TracedGraph:
    """Return the retrieval loop as a compiled graph.

    Args:
        store: the memory that is searched; None = `Context.store_path` or `Settings.store_path`, opened for
            reading at the first run.
        llm: any LangChain chat model, which plans, judges and answers; None = `Context.llm_model` or
            `Settings.llm_model`, and where neither is set everything works without.
        settings: knobs; None = read from the environment now.
        checkpointer: as in LangGraph's `compile`; leave it out for a subgraph or the dev server.
        output: "message" = the result's keys and one appended message with the cited context; "state" = the
            result's keys only.
        name: name of the graph, as traces and drawings show it.
        parts: what a retrieval is made of; measurements hand in others.

    Raises:
        InvalidInputError: a setting in the environment, the calibration file, `llm`, `store` or `output` is not
            allowed.
    """
    if output not in OUTPUTS:
        raise InvalidInputError("output", output, "message or state")
    resources = GraphResources(store, settings or Settings.from_env(), llm, parts=parts)
    resources.calibration  # noqa: B018  # a bad file is reported now, not at the end of the first run
    schema = MessageOutput if output == "message" else ResultState
    builder = StateGraph(AgentState, context_schema=Context, input_schema=InputState, output_schema=schema)
    nodes: dict[str, GraphNode] = {
        "plan_queries": plan_queries,
        "refine": refine,
        "execute_tool": execute_tool,
        "evaluate_progress": evaluate_progress,
        "synthesize": partial(synthesize, append_message=output == "message"),
    }
    for step, node in nodes.items():
        builder.add_node(step, traced_node(step, node, resources))
    builder.add_edge(START, "plan_queries")
    builder.add_edge("plan_queries", "execute_tool")
    builder.add_edge("refine", "execute_tool")
    builder.add_edge("execute_tool", "evaluate_progress")
    builder.add_conditional_edges("evaluate_progress", route_after_evaluation)
    builder.add_edge("synthesize", END)
    return TracedGraph.from_compiled(builder.compile(checkpointer=checkpointer, name=name))


class RouteState(TypedDict):
    """The part of the state that the decision reads; LangGraph reads no more for it."""

    route: str


def route_after_evaluation(state: RouteState) -> Literal["plan_queries", "refine", "synthesize"]:
    """Return the node that follows evaluate_progress (LOOP-1)."""
    if state["route"] == Route.STOP:
        return "synthesize"
    return "refine" if state["route"] == Route.REFINE else "plan_queries"
