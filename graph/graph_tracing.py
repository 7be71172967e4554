"""The compiled graph with one span around each run, however it is called (OPS-7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from functools import wraps
from time import perf_counter
from typing import Any, cast

from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from opentelemetry.trace import Span

from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.run_context import RunHolder, RunInputs, current_holder
from recall_loop.state.agent_state import AgentState, InputState
from recall_loop.state.context import Context
from recall_loop.state.run.cancellation import raise_if_cancelled
from recall_loop.telemetry import metrics, names
from recall_loop.telemetry.run_span import RunSpan, current_run
from recall_loop.telemetry.spans import allow_content, set_attributes, span

# A node returns a partial update of the state.
GraphNode = Callable[[Any, Runtime[Context], GraphResources], dict[str, Any]]
_PLANNING = ("plan_queries", "refine")


class TracedGraph(CompiledStateGraph[AgentState, Context, InputState, Any]):
    """A graph whose every run is watched; all of LangGraph's ways of running end in these two methods.

    The watch is current only while the graph works, never while its consumer holds a part of the stream: a
    generator shares its context with whoever iterates over it.
    """

    @classmethod
    def from_compiled(cls, graph: CompiledStateGraph[AgentState, Context, InputState, Any]) -> TracedGraph:
        """Return a compiled graph as one that is watched."""
        return cls(**{name: value for name, value in vars(graph).items() if name != "__orig_class__"})

    @wraps(CompiledStateGraph.stream)
    def stream(self, *args: Any, inputs: RunInputs | None = None, **options: Any) -> Iterator[Any]:  # type: ignore[override]
        """Stream a run; see LangGraph's own. `inputs` are what a run gets besides its state."""
        holder, steps = RunHolder(inputs), cast("Generator[Any]", super().stream(*args, **options))
        with RunSpan(self.name) as watch, closing(steps):
            while True:
                with watch.current(), holder.current():
                    try:
                        part = next(steps)
                    except StopIteration:
                        return
                yield part

    @wraps(CompiledStateGraph.astream)
    async def astream(  # type: ignore[override]
        self, *args: Any, inputs: RunInputs | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Stream a run on the event loop; see LangGraph's own."""
        holder, steps = RunHolder(inputs), cast("AsyncGenerator[Any]", super().astream(*args, **options))
        with RunSpan(self.name) as watch:
            async with aclosing(steps):
                while True:
                    with watch.current(), holder.current():
                        try:
                            part = await anext(steps)
                        except StopAsyncIteration:
                            return
                    yield part


def traced_node(name: str, node: GraphNode, resources: GraphResources) -> Callable[..., dict[str, Any]]:
    """Return a node as LangGraph calls it, with a span around each call."""

    def call(state: Mapping[str, Any], *, runtime: Runtime[Context]) -> dict[str, Any]:
        began = perf_counter()
        # The first node is handed what the thread's last run left: its id isn't this run's.
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
