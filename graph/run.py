"""retrieve, aretrieve, stream_retrieve, and the same as a LangChain tool: one request in, one validated result out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, cast
from weakref import WeakKeyDictionary

from langchain_core.messages import HumanMessage

from recall_loop.graph.builder import build_graph
from recall_loop.graph.request_parsing import RequestInput, parse_request
from recall_loop.graph.traced_graph import TracedGraph
from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.run_holder import RunInputs
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError, StoreUnavailableError, validate_model
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.run.cancellation import cancellable
from recall_loop.state.run.events import ProgressEvent
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings, checked_settings
from recall_loop.state.types import StopReason

_MAX_GRAPHS = 16
_RECURSION_LIMIT = 1000
_RESULT_KEYS = frozenset(RetrieveResult.model_fields)
# Concurrent runs on one event loop: two, so that one computes in NumPy or ONNX while the other runs Python.
_COMPUTING_RUNS = 2
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_lock = threading.Lock()


def retrieve(
    request: RequestInput,
    *,
    store: MemoryStore | None = None,
    settings: Settings | None = None,
    context: Context | Mapping[str, Any] | None = None,
    llm: ChatModel | str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    conversation_id: str | None = None,
    tenant: str | None = None,
) -> RetrieveResult:
    """Run one request to its end.

    `request` is a question, a mapping of `RetrieveRequest` fields, whose messages may also be LangChain's, or a
    `RetrieveRequest`. Without a store, the context's or the settings' path is opened for reading; if the settings' path
    holds no store yet, nothing is found, and `warnings` name the path. Without settings, those of the current
    environment apply. `llm` is any LangChain chat model, also with fallbacks or bound arguments, or its name as
    "provider:model"; None = that of the context or the settings, if any.

    `user_id`, `agent_id`, `conversation_id` and `tenant` limit the search, as the request's fields of these names do.

    Raises:
        InvalidInputError: a field is out of its range, or the request names another scope than the arguments.
        StoreError: the store can't be opened.
    """
    inputs = RunInputs(request_in_scope(request, user_id, agent_id, conversation_id, tenant), store, llm)
    return run_graph(_graph(settings), inputs, context)


def run_graph(
    graph: TracedGraph, inputs: RunInputs, context: Context | Mapping[str, Any] | None = None
) -> RetrieveResult:
    """Return the result of one run of a graph whose output is its state."""
    return _result(graph.invoke(**_arguments(inputs, context)))


async def aretrieve(
    request: RequestInput,
    *,
    store: MemoryStore | None = None,
    settings: Settings | None = None,
    context: Context | Mapping[str, Any] | None = None,
    llm: ChatModel | str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    conversation_id: str | None = None,
    tenant: str | None = None,
) -> RetrieveResult:
    """As `retrieve`, in a thread: nothing of it runs on the event loop.

    Without a chat model, a run is pure computation, so few run at a time and the others wait: running many at a time
    would be no faster, and would hold up the event loop. A cancelled call ends at the run's next step.
    """

    def prepare() -> tuple[TracedGraph, RunInputs, Context, bool]:
        inputs = RunInputs(request_in_scope(request, user_id, agent_id, conversation_id, tenant), store, llm)
        chosen, resolved = checked_settings(settings), Context.resolve(context)
        waits = any(model is not None for model in (llm, resolved.llm_model, chosen.llm_model))
        return _graph(chosen), inputs, resolved, waits

    with cancellable(threading.Event()) as cancelled:
        graph, inputs, resolved, waits = await asyncio.to_thread(prepare)
        try:
            async with nullcontext() if waits else _computing():
                return await asyncio.to_thread(run_graph, graph, inputs, resolved)
        except asyncio.CancelledError:
            cancelled.set()
            raise


def _computing() -> asyncio.Semaphore:
    """Return the semaphore of runs that only compute, on this event loop."""
    return _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_COMPUTING_RUNS))


def stream_retrieve(
    request: RequestInput,
    *,
    store: MemoryStore | None = None,
    settings: Settings | None = None,
    context: Context | Mapping[str, Any] | None = None,
    llm: ChatModel | str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    conversation_id: str | None = None,
    tenant: str | None = None,
) -> Iterator[ProgressEvent | RetrieveResult]:
    """Yield the run's progress events as they come, and the result last; raises as `retrieve`."""
    inputs = RunInputs(request_in_scope(request, user_id, agent_id, conversation_id, tenant), store, llm)
    yield from stream_graph(_graph(settings), inputs, context)


def stream_graph(
    graph: TracedGraph, inputs: RunInputs, context: Context | Mapping[str, Any] | None = None
) -> Iterator[ProgressEvent | RetrieveResult]:
    """Yield a run's progress events as they come, and the result last, of a graph whose output is its state."""
    output: dict[str, Any] = {}
    for mode, part in graph.stream(**_arguments(inputs, context), stream_mode=["custom", "values"]):
        if mode == "custom":
            yield cast("ProgressEvent", part)
        else:
            output = part
    yield _result(output)


def follow(
    steps: Iterable[ProgressEvent | RetrieveResult], on_event: Callable[[ProgressEvent], object] | None = None
) -> RetrieveResult:
    """Hand on each event of a stream, and return the result, which comes last."""
    for step in steps:
        if isinstance(step, RetrieveResult):
            return step
        if on_event:
            on_event(step)
    raise RuntimeError("the run ended without a result")


def request_in_scope(
    request: RequestInput,
    user_id: str | None = None,
    agent_id: str | None = None,
    conversation_id: str | None = None,
    tenant: str | None = None,
) -> RetrieveRequest:
    """Return a validated request with the scope of flat arguments; another scope of its own raises."""
    parsed = parse_request(request)
    named = {"user_id": user_id, "agent_id": agent_id, "conversation_id": conversation_id, "tenant": tenant}
    wanted = {name: value for name, value in named.items() if value is not None}
    if not wanted:
        return parsed
    for name, value in wanted.items():
        own = getattr(parsed, name) if name in parsed.model_fields_set else None
        if own not in (None, value):
            raise InvalidInputError(name, value, f"{own!r}, as the request says, or none")
    checked = validate_model(Scope, wanted)
    return parsed.model_copy(update={name: getattr(checked, name) for name in wanted})


def check_searched(result: RetrieveResult) -> RetrieveResult:
    """Return a result for readers who see its memories alone; raise `StoreUnavailableError` if nothing was searched."""
    if result.stop.reason is StopReason.TOOL_FAILURE and not result.facts:
        raise StoreUnavailableError("; ".join(result.warnings))
    return result


def _arguments(inputs: RunInputs, context: Context | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the graph's input. The run reads `inputs`; the message is for LangChain's tracers."""
    return {
        "input": {"messages": [HumanMessage(inputs.request.question.content)]},
        "config": {"recursion_limit": _RECURSION_LIMIT},
        "context": Context.resolve(context),
        "inputs": inputs,
    }


def _graph(settings: Settings | None) -> TracedGraph:
    """Return the graph of some settings, compiled once; store and chat model come with each run's inputs."""
    chosen = checked_settings(settings)
    with _lock:  # two graphs with the same settings would open their store twice
        return _compiled(chosen)


@lru_cache(maxsize=_MAX_GRAPHS)
def _compiled(settings: Settings) -> TracedGraph:
    return build_graph(settings=settings, output="state")


def _result(output: Mapping[str, Any]) -> RetrieveResult:
    return RetrieveResult.model_validate({key: value for key, value in output.items() if key in _RESULT_KEYS})
