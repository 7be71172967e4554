"""The keys of a parent graph that the loop reads and writes as one of its nodes (GRAPH-1).

LangGraph hands a compiled graph that is a node the parent's whole state, and writes to the parent whatever comes back
under names that both know. A name that only happens to be the same would be read and overwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, get_type_hints

from langgraph.types import Command, GraphOutput
from pydantic import ValidationError
from typing_extensions import TypedDict

from recall_loop.graph.nesting.parent_calls import INTERNAL, GraphCall
from recall_loop.graph.nesting.parent_messages import (
    MESSAGES,
    WANTED_MESSAGES,
    checked_messages,
    has_reducer,
    new_blocks,
    readable_thread,
    with_blocks,
    with_ids,
)
from recall_loop.state.agent_state import AgentState, InputState, MessageOutput, ResultState
from recall_loop.state.errors import InvalidInputError, invalid_input
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.scope import Scope

KeyNames = Mapping[str, str] | Collection[str]
INPUTS = tuple(get_type_hints(InputState))
# The inputs that say whose memory is read.
_OWNERS = tuple(name for name in INPUTS if name in Scope.model_fields)
_RESULTS = tuple(get_type_hints(ResultState))
_OWN = tuple(get_type_hints(AgentState))


class _EnteredInput(dict[str, Any]):
    """An input in the graph's own names: `invoke` has translated it before `stream` gets it."""


@dataclass(frozen=True)
class ParentKeys:
    """The two maps of a graph, by its own names: its inputs from the parent's keys, and its outputs to them.

    If the caller has named the outputs (`are_named`), a direct call returns no others either.
    """

    inputs: Mapping[str, str] = field(default_factory=lambda: {MESSAGES: MESSAGES})
    outputs: Mapping[str, str] = field(default_factory=lambda: {MESSAGES: MESSAGES})
    are_named: bool = False

    @classmethod
    def parse(cls, inputs: KeyNames | None, outputs: KeyNames | None, *, with_message: bool) -> ParentKeys:
        """Return the maps that `build_graph` was asked for; a collection of names maps each to itself.

        Raises `InvalidInputError` for a name that the graph doesn't have, a key that is no text, or one that is used
        twice.
        """
        read = {MESSAGES: MESSAGES} | _parse("inputs", inputs or {}, INPUTS)
        _check_unique("inputs", read)
        if outputs is None:
            names = (MESSAGES,) if with_message else _RESULTS
            return cls(read, {name: name for name in names})
        written = _parse("outputs", outputs, (*_RESULTS, *((MESSAGES,) if with_message else ())))
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
        `Send`) is read under the graph's own names too. Where the value of a mapped key doesn't fit, one that names an
        owner has none, or the parent has no such key, `InvalidInputError` names it.
        """
        if given is None or isinstance(given, Command | _EnteredInput):
            return given
        self._check_known(call)
        taken = set(self.inputs.values())
        own = () if call.has_parents_state else [name for name in INPUTS if name not in taken]
        if not isinstance(given, Mapping) and not any(hasattr(given, name) for name in (*own, *taken)):
            raise InvalidInputError("input", given, f"a mapping with `{self.inputs[MESSAGES]}`")
        if not (call.has_parents_state or call.is_remote):
            self._check_names(given, call, [*self.inputs.values(), *own])
        values = call.values(given, [*own, *taken])
        self._check_owners(given, call, own, values)
        if not call.has_parents_state and MESSAGES in values:
            checked_messages(MESSAGES, values[MESSAGES], fields_too=True)
        if not call.is_node and len(self.inputs) == 1 and MESSAGES in taken:
            if isinstance(given, Mapping) and given.get(MESSAGES, ()) is None:
                raise InvalidInputError(MESSAGES, None, WANTED_MESSAGES)
            return given
        if call.is_node and isinstance(thread := values.get(self.inputs[MESSAGES]), list):
            values[self.inputs[MESSAGES]] = readable_thread(thread)
        read = {
            ours: _checked(ours, theirs, values[theirs]) for ours, theirs in self.inputs.items() if theirs in values
        }
        if call.is_node and MESSAGES not in read:
            raise InvalidInputError(self.inputs[MESSAGES], None, WANTED_MESSAGES)
        # The id of the block is derived from the question's, which must be the same at each recall of a turn.
        if call.is_node and MESSAGES in read and self.inputs[MESSAGES] == self.outputs.get(MESSAGES):
            read[MESSAGES] = with_ids(read[MESSAGES])
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
            if name not in known and value is not None and not str(name).startswith(INTERNAL):
                raise InvalidInputError(str(name), value, f"an input of the graph: {', '.join(inputs)}")

    def _check_owners(self, given: Any, call: GraphCall, own: Collection[str], values: Mapping[str, Any]) -> None:
        """Refuse an owner that `inputs` names and that has no value: everybody's memory would be read.

        A direct call may leave it out, as it may where `inputs` doesn't name it.
        """
        for ours, theirs in self.inputs.items():
            if ours not in _OWNERS or theirs in values or (ours in own and ours in values):
                continue
            stated = theirs in given if isinstance(given, Mapping) else hasattr(given, theirs)
            if call.is_node or call.is_remote or stated:
                allowed = f"text (the graph reads it as `{ours}`; for runs without one, leave it out of `inputs`)"
                raise InvalidInputError(theirs, None, allowed)

    def leave(self, output: Any, call: GraphCall, given: Any) -> Any:
        """Return an output in the parent's names: for a parent, and where outputs were named, nothing else.

        `given` is the input of the call, in the parent's names.
        """
        if isinstance(output, GraphOutput):
            return replace(output, value=self.leave(output.value, call, given))
        if not isinstance(output, dict) or not (call.is_node or self.are_named):
            return output
        if call.is_node and MESSAGES in output and (theirs := self.outputs.get(MESSAGES)):
            known = call.held(theirs, given)
            blocks = new_blocks(output[MESSAGES], known)
            reduced = has_reducer(call.channels.get(theirs))
            output = {**output, MESSAGES: blocks if reduced else with_blocks(known, blocks)}
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


def _checked(ours: str, theirs: str, value: Any) -> Any:
    """Return the value of a parent's key if it fits the input; errors name that key."""
    if ours == MESSAGES:
        return checked_messages(theirs, value)
    name = "id" if ours == "request_id" else ours
    try:
        RetrieveRequest.model_validate({"messages": [{"content": "?"}], name: value})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        found = invalid_input(first, _request_schema(), ".".join(map(str, (theirs, *first["loc"][1:]))))
        allowed = f"{found.allowed} (the graph reads it as `{ours}`)"
        raise InvalidInputError(found.field, first.get("input"), allowed) from error
    return value


_request_schema = cache(RetrieveRequest.model_json_schema)
