"""How a graph is called: directly, or as a node of a parent graph, whose state and channels it then has (GRAPH-1)."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableBranch, RunnableConfig, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.channels.base import BaseChannel

_READER, _CALL = "__pregel_read", "__pregel_call"
_BY_SEND = "__pregel_push"
# LangGraph's own channels in a graph.
INTERNAL = ("__", "branch:", "join:")


@dataclass(frozen=True)
class GraphCall:
    """How a graph is called.

    `is_node`: by LangGraph, as a node of a parent; `is_sent`: as one to which a `Send`, or the step before it in a
    chain, hands an input of its own; `is_remote`: for a parent elsewhere, whose whole state may be the input.
    `channels` are those of the parent's state, by key, also where a function of the parent calls; empty where they
    aren't known.
    """

    is_node: bool = False
    is_sent: bool = False
    is_remote: bool = False
    channels: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_parents_state(self) -> bool:
        """Whether the input is the parent's state."""
        return self.is_node and not self.is_sent

    @classmethod
    def of_caller(cls, graph: object, config: RunnableConfig | None) -> GraphCall:
        """Return how `graph` was called with `config`, or where that is None with the one that is current.

        A function of a parent that calls the graph itself passes the same configuration on, so that only the node of
        the parent tells the two apart.
        """
        current = config or var_child_runnable_config.get()
        has_state = _is_handed_state(graph, current)
        if has_state is None:
            return cls.direct(config)
        path = ((current or {}).get("metadata") or {}).get("langgraph_path") or ("",)
        is_sent = path[0] == _BY_SEND or not has_state
        return cls(is_node=True, is_sent=is_sent, channels=_of_state(_channels_of(current)))

    @classmethod
    def direct(cls, config: RunnableConfig | None) -> GraphCall:
        """Return a call that isn't a node's; a `RemoteGraph` that is one tells no more of its parent than its node."""
        channels = _channels_of(var_child_runnable_config.get()) | _channels_of(config)
        in_node = "langgraph_node" in ((config or {}).get("metadata") or {})
        return cls(is_remote=in_node and not channels, channels=_of_state(channels))

    def held(self, key: str, given: Any) -> Any:
        """Return the value of the parent's state under a key: from its channel, else from the input."""
        channel = self.channels.get(key)
        if not isinstance(channel, BaseChannel):
            return _values(given, [key]).get(key)
        return channel.get() if channel.is_available() else None

    def values(self, given: Any, names: Collection[str]) -> dict[str, Any]:
        """Return the values of an input; a parent's state has them even if the node's `input_schema` lacks the keys."""
        missing = {name: self.held(name, given) for name in names} if self.has_parents_state else {}
        return {name: value for name, value in missing.items() if value is not None} | _values(given, names)


def _of_state(channels: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in channels.items() if not name.startswith(INTERNAL)}


def _values(given: Any, names: Collection[str]) -> dict[str, Any]:
    """Return the values of a state (a mapping, a dataclass or a model) under `names`; None counts as absent."""
    if isinstance(given, Mapping):
        found = {name: given.get(name) for name in names}
    else:
        found = {name: getattr(given, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _channels_of(config: RunnableConfig | None) -> dict[str, Any]:
    """Return the channels of the graph that calls a node with `config`, by key; LangGraph's own ones too.

    LangGraph hands a node a reader of the graph's channels; no public way leads to them.
    """
    reader = ((config or {}).get("configurable") or {}).get(_READER)
    parts = [part for part in getattr(reader, "args", ()) if isinstance(part, Mapping)]
    return {name: channel for part in parts for name, channel in part.items()}


def _is_handed_state(graph: object, config: RunnableConfig | None) -> bool | None:
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
