"""The compiled graph: every run is watched (OPS-7), and as a node it keeps to its keys of the parent (GRAPH-1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from functools import wraps
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

from recall_loop.graph.nesting.parent_calls import GraphCall
from recall_loop.graph.nesting.parent_keys import INPUTS, ParentKeys
from recall_loop.nodes.runtime.run_holder import RunHolder, RunInputs
from recall_loop.state.agent_state import AgentState, InputState
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.telemetry.run_span import RunSpan


class TracedGraph(CompiledStateGraph[AgentState, Context, InputState, Any]):
    """A graph whose every run is watched; all of LangGraph's ways of running end in `stream` and `astream`.

    The watch is current only while the graph works, never while its consumer holds a part of the stream: a
    generator shares its context with whoever iterates over it.

    As a node of another graph it is called through `invoke` and `ainvoke`, which read and write no more of the
    parent's state than `keys` says.
    """

    def __init__(self, *, keys: ParentKeys | None = None, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.keys = keys or ParentKeys()

    @classmethod
    def from_compiled(
        cls, graph: CompiledStateGraph[AgentState, Context, InputState, Any], keys: ParentKeys
    ) -> TracedGraph:
        """Return a compiled graph as one that is watched."""
        return cls(keys=keys, **{name: value for name, value in vars(graph).items() if name != "__orig_class__"})

    @wraps(CompiledStateGraph.invoke)
    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # type: ignore[override]
        """Run to the end; see LangGraph's own."""
        call = GraphCall.of_caller(self, config)
        output = super().invoke(self.keys.enter(input, call), config, **options)
        return self.keys.leave(output, call, input)

    @wraps(CompiledStateGraph.ainvoke)
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # type: ignore[override]
        """Run to the end on the event loop; see LangGraph's own."""
        call = GraphCall.of_caller(self, config)
        output = await super().ainvoke(self.keys.enter(input, call), config, **options)
        return self.keys.leave(output, call, input)

    @wraps(CompiledStateGraph.as_tool)
    def as_tool(self, args_schema: type[BaseModel] | None = None, **options: Any) -> BaseTool:  # type: ignore[override]
        """Return the graph as LangChain's tool of the inputs that are named, which must be some; see LangChain's own.

        LangChain would ask a model for every input, with none left out, whose memory is read among them.
        """
        if args_schema is None and not options.get("arg_types"):
            allowed = "retrieve_tool(store, scope) instead, or the inputs that a model may fill in"
            raise InvalidInputError("args_schema", args_schema, allowed)
        return super().as_tool(args_schema, **options)

    @wraps(CompiledStateGraph.stream)
    def stream(  # type: ignore[override]
        self, input: Any, config: RunnableConfig | None = None, *, inputs: RunInputs | None = None, **options: Any
    ) -> Iterator[Any]:
        """Stream a run; see LangGraph's own. `inputs` are the run's arguments besides its state."""
        holder = RunHolder(inputs)
        given = self._afresh(self.keys.enter(input, GraphCall.direct(config)))
        steps = cast("Generator[Any]", super().stream(given, config, **_checked(options)))
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
        self, input: Any, config: RunnableConfig | None = None, *, inputs: RunInputs | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Stream a run on the event loop; see LangGraph's own."""
        holder = RunHolder(inputs)
        given = self._afresh(self.keys.enter(input, GraphCall.direct(config)))
        steps = cast("AsyncGenerator[Any]", super().astream(given, config, **_checked(options)))
        with RunSpan(self.name) as watch:
            async with aclosing(steps):
                while True:
                    with watch.current(), holder.current():
                        try:
                            part = await anext(steps)
                        except StopAsyncIteration:
                            return
                    yield part

    def _afresh(self, given: Any) -> Any:
        """Return an input that names every field: on a thread, those of a run that failed or paused would stay."""
        if not self.checkpointer or not isinstance(given, Mapping) or not given:
            return given
        return {**dict.fromkeys(name for name in INPUTS if name != "messages"), **given}


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a call; only a direct one names a context, a node has its parent's."""
    given = options.get("context")
    return options if given is None else {**options, "context": Context.resolve(given)}
