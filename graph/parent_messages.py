"""The context block's way into a parent graph (GRAPH-2).

A parent's key with a reducer gets the block alone, so that nothing that others do to its messages meanwhile is undone.
One without a reducer is overwritten, and gets what it holds with the block behind it.
"""

from __future__ import annotations

import hashlib
import inspect
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableBranch, RunnableConfig, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from recall_loop.memory.parsing.chat_messages import is_recall_block
from recall_loop.nodes.runtime.inputs import asking

# LangChain's errors for values that aren't messages.
NO_MESSAGES = (NotImplementedError, AttributeError, TypeError, ValueError, KeyError)
_READER, _CALL = "__pregel_read", "__pregel_call"


def channels_of(config: RunnableConfig | None) -> dict[str, Any]:
    """Return the channels of the graph that calls a node with `config`, by key; LangGraph's own ones too.

    LangGraph hands a node a reader of the graph's channels; no public way leads to them.
    """
    reader = ((config or {}).get("configurable") or {}).get(_READER)
    parts = [part for part in getattr(reader, "args", ()) if isinstance(part, Mapping)]
    return {name: channel for part in parts for name, channel in part.items()}


def is_handed_state(graph: object, config: RunnableConfig | None) -> bool | None:
    """Return whether a node that is, or wraps, `graph` or one of its methods hands it the parent's state.

    False = in a chain, where it gets what the step before it returns; None = LangGraph calls another node.

    The callers' frames don't show it: an event loop runs each step as a task of its own. LangGraph hands a node
    a way to call others in its own task's name; no public way leads to that task.
    """
    call = ((config or {}).get("configurable") or {}).get(_CALL)
    if inspect.isfunction(call):  # a node's time limit puts a function of its own around it
        call = inspect.getclosurevars(call).nonlocals.get("call")
    tasks = [part() for part in getattr(call, "args", ()) if isinstance(part, weakref.ref)]
    return _find(graph, [getattr(task, "proc", None) for task in tasks])


def _find(graph: object, places: Iterable[object]) -> bool | None:
    """Return whether `graph` is first in one of the places; None = in none of them."""
    return next((found for place in places if (found := _is_first(graph, place)) is not None), None)


def _is_first(graph: object, step: object) -> bool | None:
    if step is graph:
        return True
    if isinstance(step, RunnableBindingBase):
        return _is_first(graph, step.bound)
    if isinstance(step, RunnableWithFallbacks | RunnableBranch):
        return _find(graph, _choices(step))
    if steps := getattr(step, "steps", None):
        first, *others = steps
        found = _is_first(graph, first)
        return False if found is None and _find(graph, others) is not None else found
    if inspect.ismethod(step):
        return True if step.__self__ is graph else None
    return _find(graph, [step.func] if isinstance(step, partial) else _functions(step))


def _choices(step: RunnableWithFallbacks[Any, Any] | RunnableBranch[Any, Any]) -> list[object]:
    """Return the steps one of which gets the state."""
    if isinstance(step, RunnableWithFallbacks):
        return [*step.runnables]
    return [*(each for _, each in step.branches), step.default]


def _functions(step: object) -> list[object]:
    """Return the functions of a step that get the state; those of a `@task` get its caller's arguments."""
    if getattr(step, "explode_args", False):
        return []
    return [each for each in (getattr(step, name, None) for name in ("func", "afunc")) if callable(each)]


def has_reducer(channel: Any) -> bool:
    """Return whether a channel combines new values with existing ones."""
    return callable(getattr(channel, "operator", None))


def readable_thread(thread: list[Any]) -> list[Any]:
    """Return a parent's thread with its question; anything that isn't a thread is unchanged."""
    try:
        return asking(convert_to_messages(thread))
    except NO_MESSAGES:
        return thread


def with_ids(given: Any) -> list[BaseMessage]:
    """Return messages with ids made of place and words for those that have none: the same for every recall of a turn.

    Elsewhere LangGraph gives them ids, and the parent gets them back; here it doesn't.
    """
    messages = convert_to_messages(given if isinstance(given, list) else [given])
    return [
        each if each.id else each.model_copy(update={"id": _derived_id(place, each)})
        for place, each in enumerate(messages)
    ]


def _derived_id(place: int, message: BaseMessage) -> str:
    said = f"{place}\n{message.type}\n{message.content}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(said).hexdigest()[:32]


def new_blocks(messages: Iterable[AnyMessage], known: Any) -> list[AnyMessage]:
    """Return the context blocks that are not among the `known` messages as they are."""
    before = [_mark(each) for each in known] if isinstance(known, list) else []
    return [each for each in messages if is_recall_block(each) and _mark(each) not in before]


def with_blocks(known: Any, blocks: Sequence[AnyMessage]) -> list[Any]:
    """Return the `known` messages with blocks behind them; one with the id of a block is replaced by it."""
    ids = {each.id for each in blocks}
    return [*(each for each in (known if isinstance(known, list) else []) if _mark(each)[0] not in ids), *blocks]


def _mark(message: Any) -> tuple[Any, Any]:
    if isinstance(message, Mapping):
        return message.get("id"), message.get("content")
    return getattr(message, "id", None), getattr(message, "content", None)
