"""retrieve, aretrieve and stream_retrieve: one request in, one validated result out, for scripts."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from recall_loop.graph.builder import Graph, build_graph
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.agent_state import InputState
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.events import ProgressEvent
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import Role

RequestInput = RetrieveRequest | Mapping[str, Any] | str
GraphCache = dict[tuple[Settings, int], Graph]
_graphs: weakref.WeakKeyDictionary[MemoryStore, GraphCache] = weakref.WeakKeyDictionary()
_unbound_graphs: GraphCache = {}
_MAX_GRAPHS = 16
_lock = threading.Lock()
_RESULT_KEYS = frozenset(RetrieveResult.model_fields)


def retrieve(
    request: RequestInput,
    *,
    store: MemoryStore | None = None,
    settings: Settings | None = None,
    context: Context | Mapping[str, Any] | None = None,
    llm: BaseChatModel | None = None,
) -> RetrieveResult:
    """Run one request to its end.

    `request` is a question, a mapping of `RetrieveRequest` fields, or a `RetrieveRequest`. Without a store
    the context's or the settings' path is opened for reading. `llm` is any LangChain chat model; None = that of
    the context or the settings, if they name one.

    Raises:
        InvalidInputError: a field is out of its range.
        StoreError: the store can't be opened.
    """
    checked = parse_request(request)
    return invoke_graph(_graph(store, settings, llm), checked, context)


def invoke_graph(
    graph: Graph, request: RetrieveRequest, context: Context | Mapping[str, Any] | None = None
) -> RetrieveResult:
    """Run one request to its end in a graph that gives its state; see `build_graph`."""
    return _result(graph.invoke(graph_input(request), _config(), context=_context(context)))


async def aretrieve(
    request: RequestInput,
    *,
    store: MemoryStore | None = None,
    settings: Settings | None = None,
    context: Context | Mapping[str, Any] | None = None,
    llm: BaseChatModel | None = None,
) -> RetrieveResult:
    """As `retrieve`; nothing that blocks runs on the event loop."""
    checked = parse_request(request)
    graph = await asyncio.to_thread(_graph, store, settings, llm)
    output = await graph.ainvoke(graph_input(checked), _config(), context=_context(context))
    return _result(output)


def stream_retrieve(
    request: RequestInput,
    *,
    store: MemoryStore | None = None,
    settings: Settings | None = None,
    context: Context | Mapping[str, Any] | None = None,
    llm: BaseChatModel | None = None,
) -> Iterator[ProgressEvent | RetrieveResult]:
    """Yield the run's progress events as they come, and the result last; raises as `retrieve`."""
    checked = parse_request(request)
    yield from stream_graph(_graph(store, settings, llm), checked, context)


def stream_graph(
    graph: Graph, request: RetrieveRequest, context: Context | Mapping[str, Any] | None = None
) -> Iterator[ProgressEvent | RetrieveResult]:
    """Yield a run's progress events as they come, and the result last, of a graph that gives its state."""
    output: dict[str, Any] = {}
    parts = graph.stream(graph_input(request), _config(), context=_context(context), stream_mode=["custom", "values"])
    for mode, part in cast("Iterator[tuple[str, dict[str, Any]]]", parts):
        if mode == "custom":
            yield cast("ProgressEvent", part)
        else:
            output = part
    yield _result(output)


def parse_request(request: RequestInput) -> RetrieveRequest:
    """Return a validated request.

    Raises:
        InvalidInputError: names the field, its value and what is allowed.
    """
    if isinstance(request, RetrieveRequest):
        return request
    raw = {"messages": [{"content": request}]} if isinstance(request, str) else request
    if not isinstance(raw, Mapping):
        raise InvalidInputError("request", raw, "a question, a mapping of RetrieveRequest fields, or a RetrieveRequest")
    return validate_model(RetrieveRequest, raw)


def graph_input(request: RetrieveRequest) -> InputState:
    """Return the graph's input for a request; fields that it leaves open stay open."""
    fields = request.model_dump(mode="json", exclude_unset=True, exclude={"messages", "id"})
    state = cast("InputState", fields)
    state["messages"] = [_message(message, at) for at, message in enumerate(request.messages)]
    if request.id is not None:
        state["request_id"] = request.id
    return state


def _message(message: ChatMessage, at: int) -> AnyMessage:
    timestamp = message.timestamp.isoformat() if message.timestamp else None
    common: dict[str, Any] = {
        "content": message.content,
        "name": message.author,
        "additional_kwargs": {"timestamp": timestamp} if timestamp else {},
    }
    if message.role is Role.TOOL:
        return ToolMessage(tool_call_id=f"message-{at}", **common)
    if message.role is Role.ASSISTANT:
        return AIMessage(**common)
    return SystemMessage(**common) if message.role is Role.SYSTEM else HumanMessage(**common)


def _graph(store: MemoryStore | None, settings: Settings | None, llm: BaseChatModel | None) -> Graph:
    """Return the compiled graph for a store, settings and a chat model, built once."""
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidInputError("settings", settings, "a Settings object")
    key = (settings or Settings.from_env(), id(llm))
    with _lock:
        known = _unbound_graphs if store is None else _graphs.setdefault(store, {})
        if key not in known:
            # The graph must not keep its store alive through this cache; it does keep its model, and so its id.
            bound: Any = None if store is None else weakref.proxy(store)
            known[key] = build_graph(bound, llm, settings=key[0], output="state")
            while len(known) > _MAX_GRAPHS:
                del known[next(iter(known))]
        return known[key]


def _config() -> RunnableConfig:
    return {"recursion_limit": 1000}


def _context(context: Context | Mapping[str, Any] | None) -> Context:
    return Context.resolve(context)


def _result(output: Mapping[str, Any]) -> RetrieveResult:
    return RetrieveResult.model_validate({key: value for key, value in output.items() if key in _RESULT_KEYS})
