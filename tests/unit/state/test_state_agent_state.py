"""The graph's state: plain JSON, so that any checkpointer reads it back as it was."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import pytest
from langgraph.graph import StateGraph

from recall_loop.state import agent_state
from recall_loop.state.run import events

PLAIN = (str, int, float, bool, type(None), Any)
MANAGED = {"messages", "remaining_steps"}
SCHEMAS = [
    schema
    for module in (agent_state, events)
    for schema in vars(module).values()
    if is_typeddict(schema) and schema.__module__ == module.__name__
]


def _leaves(annotation: Any) -> Iterator[Any]:
    """The types at the ends of an annotation; a nested TypedDict is tested for itself."""
    origin = get_origin(annotation)
    if is_typeddict(annotation):
        return
    if origin in (list, dict, Union, types.UnionType, NotRequired, Required):
        for part in get_args(annotation):
            yield from _leaves(part)
    elif origin is Literal:
        yield from (type(value) for value in get_args(annotation))
    elif origin is Annotated:
        yield from _leaves(get_args(annotation)[0])
    else:
        yield annotation


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.__name__)
def test_only_json_types(schema: type) -> None:
    """Proves: LOOP-2 (no vector, no tuple, no object of ours in a checkpoint)."""
    for name, annotation in get_type_hints(schema, include_extras=True).items():
        if name not in MANAGED:
            assert set(_leaves(annotation)) <= set(PLAIN), name


def test_state_carries_what_the_loop_needs() -> None:
    """Proves: LOOP-2."""
    assert {
        "tried_queries",
        "query_results",
        "tool_calls",
        "evidence_pool",
        "new_facts_last_iteration",
        "novelty_streak_without_gain",
        "unique_facts_seen",
        "coverage_score",
        "coverage_gain",
        "iteration",
        "strategies_used",
        "stop_reason",
    } <= get_type_hints(agent_state.AgentState).keys()
    assert {
        "name",
        "input",
        "strategy",
        "result_count",
        "new_facts",
        "mean_similarity",
        "success",
        "attempts",
    } | {
        "duration_ms",
        "error",
    } <= get_type_hints(agent_state.ToolCallEntry).keys()


def test_only_messages_has_a_reducer() -> None:
    """Proves: LOOP-2 (a thread invoked twice starts clean: nothing accumulates by itself)."""
    channels = StateGraph(agent_state.AgentState).channels
    reducing = {name for name, channel in channels.items() if type(channel).__name__ == "BinaryOperatorAggregate"}
    assert reducing == {"messages"}


def test_input_and_output_are_narrow() -> None:
    """Proves: OPS-2 (a parent's working keys are neither read nor written)."""
    inner = get_type_hints(agent_state.AgentState).keys()
    given = get_type_hints(agent_state.InputState).keys()
    result = get_type_hints(agent_state.MessageOutput).keys()
    assert given < inner
    assert result < inner
    assert given & result == {"messages", "request_id", "reference_time"}
