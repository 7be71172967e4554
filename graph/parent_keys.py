"""The keys of a parent graph that the loop reads and writes as one of its nodes (GRAPH-1).

LangGraph hands a compiled graph that is a node the parent's whole state, and writes to the parent whatever comes back
under names that both know. A name that only happens to be the same would be read and overwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, get_type_hints

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.channels.base import BaseChannel
from langgraph.types import Command, GraphOutput, Overwrite
from pydantic import ValidationError
from typing_extensions import TypedDict

from recall_loop.graph.parent_messages import (
    NO_MESSAGES,
    channels_of,
    has_reducer,
    is_handed_state,
    new_blocks,
    readable_thread,
    with_blocks,
    with_ids,
)
from recall_loop.memory.parsing.message_fields import check_known_fields
from recall_loop.nodes.runtime.inputs import chat_messages
from recall_loop.state.agent_state import AgentState, InputState, MessageOutput, ResultState
from recall_loop.state.errors import InvalidInputError, invalid_input
from recall_loop.state.request import RetrieveRequest

KeyNames = Mapping[str, str] | Collection[str]
_MESSAGES = "messages"
INPUTS = tuple(get_type_hints(InputState))
_RESULTS = tuple(get_type_hints(ResultState))
_OWN = tuple(get_type_hints(AgentState))
_WANTED = "messages as LangChain takes them, or a question as text"
_BY_SEND = "__pregel_push"
# LangGraph's own channels in a graph.
_INTERNAL = ("__", "branch:", "join:")


class _EnteredInput(dict[str, Any]):
    """An input in the graph's own names: `invoke` has translated it before `stream` gets it."""


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
        has_state = is_handed_state(graph, current)
        if has_state is None:
            return cls.direct(config)
        path = ((current or {}).get("metadata") or {}).get("langgraph_path") or ("",)
        is_sent = path[0] == _BY_SEND or not has_state
        return cls(is_node=True, is_sent=is_sent, channels=_of_state(channels_of(current)))

    @classmethod
    def direct(cls, config: RunnableConfig | None) -> GraphCall:
        """Return a call that isn't a node's; a `RemoteGraph` that is one tells no more of its parent than its node."""
        channels = channels_of(var_child_runnable_config.get()) | channels_of(config)
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
    return {name: one for name, one in channels.items() if not name.startswith(_INTERNAL)}


@dataclass(frozen=True)
class ParentKeys:
    """The two maps of a graph, by its own names: its inputs from the parent's keys, and its outputs to them.

    If the caller has named the outputs (`are_named`), a direct call returns no others either.
    """

    inputs: Mapping[str, str] = field(default_factory=lambda: {_MESSAGES: _MESSAGES})
    outputs: Mapping[str, str] = field(default_factory=lambda: {_MESSAGES: _MESSAGES})
    are_named: bool = False

    @classmethod
    def parse(cls, inputs: KeyNames | None, outputs: KeyNames | None, *, with_message: bool) -> ParentKeys:
        """Return the maps that `build_graph` was asked for; a collection of names maps each to itself.

        Raises `InvalidInputError` for a name that the graph doesn't have, a key that is no text, or one that is used
        twice.
        """
        read = {_MESSAGES: _MESSAGES} | _parse("inputs", inputs or {}, INPUTS)
        _check_unique("inputs", read)
        if outputs is None:
            names = (_MESSAGES,) if with_message else _RESULTS
            return cls(read, {name: name for name in names})
        written = _parse("outputs", outputs, (*_RESULTS, *((_MESSAGES,) if with_message else ())))
        if not written:
            raise InvalidInputError("outputs", outputs, "at least one name, or None")
        _check_unique("outputs", written)
        return cls(read, written, are_named=True)

    def output_schema(self, default: type) -> type:
        """Return the schema of the graph's output: `default`, or the outputs that were named."""
        if not self.are_named:
            return default
        hints = get_type_hints(MessageOutput, include_extras=True)
        schema: type = TypedDict("Output", {name: hints[name] for name in self.outputs}, total=False)  # type: ignore[misc]
        return schema

    def enter(self, given: Any, call: GraphCall) -> Any:
        """Return an input in the graph's own names.

        Of a parent's state only what `inputs` names is read. What is handed in by name (in a direct call, or in a
        `Send`) is read under the graph's own names too. Where the value of a mapped key doesn't fit, or the parent has
        no such key, `InvalidInputError` names it.
        """
        if given is None or isinstance(given, Command | _EnteredInput):
            return given
        self._check_known(call)
        taken = set(self.inputs.values())
        own = () if call.has_parents_state else [name for name in INPUTS if name not in taken]
        if not isinstance(given, Mapping) and not any(hasattr(given, name) for name in (*own, *taken)):
            raise InvalidInputError("input", given, f"a mapping with `{self.inputs[_MESSAGES]}`")
        if not (call.has_parents_state or call.is_remote):
            self._check_names(given, call, [*self.inputs.values(), *own])
        values = call.values(given, [*own, *taken])
        if not call.has_parents_state and _MESSAGES in values:
            _checked_messages(_MESSAGES, values[_MESSAGES], fields_too=True)
        if not call.is_node and len(self.inputs) == 1 and _MESSAGES in taken:
            if isinstance(given, Mapping) and given.get(_MESSAGES, ()) is None:
                raise InvalidInputError(_MESSAGES, None, _WANTED)
            return given
        if call.is_node and isinstance(thread := values.get(self.inputs[_MESSAGES]), list):
            values[self.inputs[_MESSAGES]] = readable_thread(thread)
        read = {
            ours: _checked(ours, theirs, values[theirs]) for ours, theirs in self.inputs.items() if theirs in values
        }
        if call.is_node and _MESSAGES not in read:
            raise InvalidInputError(self.inputs[_MESSAGES], None, _WANTED)
        # The id of the block is derived from the question's, which must be the same at each recall of a turn.
        if call.is_node and _MESSAGES in read and self.inputs[_MESSAGES] == self.outputs.get(_MESSAGES):
            read[_MESSAGES] = with_ids(read[_MESSAGES])
        return _EnteredInput({name: values[name] for name in own if name in values} | read)

    def _check_known(self, call: GraphCall) -> None:
        """Check that the parent has the keys: one that is misspelt would be read as absent, and written nowhere."""
        if not (call.is_node and call.channels):
            return
        read = self.inputs if call.has_parents_state else {}
        written = self.outputs if self.are_named or len(self.outputs) == 1 else {}
        for name, pairs in (("inputs", read), ("outputs", written)):
            for ours, theirs in pairs.items():
                if theirs not in call.channels:
                    allowed = f"a key of the parent's state: {', '.join(call.channels)}"
                    raise InvalidInputError(f"{name}.{ours}", theirs, allowed)

    def _check_names(self, given: Any, call: GraphCall, inputs: Collection[str]) -> None:
        """Refuse names that nobody knows: without a misspelt `user_id`, everybody's memory would be read."""
        known = {*inputs, *_OWN, *self.outputs.values(), *call.channels}
        for name, value in (given if isinstance(given, Mapping) else getattr(given, "__dict__", {})).items():
            if name not in known and value is not None and not str(name).startswith(_INTERNAL):
                raise InvalidInputError(str(name), value, f"an input of the graph: {', '.join(inputs)}")

    def leave(self, output: Any, call: GraphCall, given: Any) -> Any:
        """Return an output in the parent's names: for a parent, and where outputs were named, nothing else.

        `given` is the input of the call, in the parent's names.
        """
        if isinstance(output, GraphOutput):
            return replace(output, value=self.leave(output.value, call, given))
        if not isinstance(output, dict) or not (call.is_node or self.are_named):
            return output
        if call.is_node and _MESSAGES in output and (theirs := self.outputs.get(_MESSAGES)):
            known = call.held(theirs, given)
            blocks = new_blocks(output[_MESSAGES], known)
            reduced = has_reducer(call.channels.get(theirs))
            output = {**output, _MESSAGES: blocks if reduced else with_blocks(known, blocks)}
        written = {theirs: output[ours] for ours, theirs in self.outputs.items() if ours in output}
        asks_a_model = bool((output.get("metadata") or {}).get("llm"))
        if not self.are_named and output.get("answer") is None and not asks_a_model:
            written.pop("answer", None)  # this graph writes no answers: such a key belongs to the parent
        return {name: value for name, value in output.items() if name.startswith("__")} | written


def _parse(name: str, given: KeyNames, known: Collection[str]) -> dict[str, str]:
    """Return a map of names; `known` are those that the graph has."""
    allowed = f"names, or a mapping of names to the parent's keys; names: {', '.join(known)}"
    if isinstance(given, str | bytes) or not isinstance(given, Collection):
        raise InvalidInputError(name, given, allowed)
    pairs = list(given.items()) if isinstance(given, Mapping) else [(each, each) for each in given]
    for ours, theirs in pairs:
        if ours not in known:
            raise InvalidInputError(name, ours, allowed)
        if not isinstance(theirs, str) or not theirs.strip():
            raise InvalidInputError(f"{name}.{ours}", theirs, "the name of a key of the parent's state")
    return dict(pairs)


def _check_unique(name: str, pairs: Mapping[str, str]) -> None:
    used = list(pairs.values())
    twice = next((theirs for theirs in used if used.count(theirs) > 1), None)
    if twice is not None:
        raise InvalidInputError(name, twice, "each key of the parent once")


def _values(given: Any, names: Collection[str]) -> dict[str, Any]:
    """Return the values of a state (a mapping, a dataclass or a model) under `names`; None counts as absent."""
    if isinstance(given, Mapping):
        found = {name: given.get(name) for name in names}
    else:
        found = {name: getattr(given, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _checked(ours: str, theirs: str, value: Any) -> Any:
    """Return the value of a parent's key if it fits the input; errors name that key."""
    if ours == _MESSAGES:
        return _checked_messages(theirs, value)
    name = "id" if ours == "request_id" else ours
    try:
        RetrieveRequest.model_validate({"messages": [{"content": "?"}], name: value})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        found = invalid_input(first, _request_schema(), ".".join(map(str, (theirs, *first["loc"][1:]))))
        allowed = f"{found.allowed} (the graph reads it as `{ours}`)"
        raise InvalidInputError(found.field, first.get("input"), allowed) from error
    return value


def _overwrites(value: Any) -> bool:
    """Return whether a value replaces the thread's, as an object of LangGraph's or as JSON."""
    if isinstance(value, Mapping):
        return "__overwrite__" in (*value, value.get("type"))
    return isinstance(value, Overwrite)


def _checked_messages(theirs: str, value: Any, *, fields_too: bool = False) -> Any:
    if _overwrites(value):
        return value
    given = value if isinstance(value, list) else [value]
    for place, one in enumerate(given if fields_too else ()):
        check_known_fields(one, f"{theirs}.{place}")
    try:
        messages = convert_to_messages(given)
    except NO_MESSAGES as error:
        raise InvalidInputError(theirs, value, _WANTED) from error
    if theirs != _MESSAGES:  # the graph itself would report it under its own name
        chat_messages(messages, theirs)
    return value


_request_schema = cache(RetrieveRequest.model_json_schema)
