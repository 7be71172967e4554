"""A LangGraph checkpoint history as a run (TRAJ-1), without importing LangGraph.

`graph.get_state_history(config)` gives snapshots, newest first. The same as JSON, as of LangGraph's server, their
`values`, or plain state mappings, oldest first, are read too. A snapshot repeats the messages of those before it, so
each message is taken once, where it first appears; one that was changed or trimmed away later is kept as it was then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from recall_loop.memory.parsing.chat_messages import SourceMessage, parse_message
from recall_loop.memory.parsing.foreign_json import to_datetime, to_text
from recall_loop.memory.parsing.message_fields import check_known_fields
from recall_loop.memory.trajectories.capture.convert import DEFAULT_MASKING, RunInfo, convert_messages
from recall_loop.memory.trajectories.capture.masking import Masking
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.trajectories import RunData

_START_OF_INPUT = -1
_KEY = "messages"
OF_RUNS = ("type", "error", "is_error", "status", "model", "model_name", "step", "step_id", "usage", "stop_reason")
"""What is read of a run's messages beside what is read of any message."""


@dataclass(frozen=True, slots=True)
class _HistoryState:
    """One state of the run. `step` is LangGraph's superstep; -1 takes in the input. `place` is its place in errors."""

    place: str
    messages: Sequence[object]
    created_at: datetime | None = None
    step: int | None = None
    snapshot: Any = None


def convert_history(
    states: Iterable[object], info: RunInfo | None = None, masking: Masking = DEFAULT_MASKING
) -> RunData:
    """Convert a checkpoint history: snapshots in any order, or state mappings oldest first.

    Each message's step is the superstep in which it appeared. The last snapshot tells how the run ended:
    a failed task's exception, an interrupt, or steps that were still to come. A state that is neither, or holds what
    is no message, raises `InvalidInputError`.
    """
    history = [_history_state(state, index) for index, state in enumerate(states)]
    if any(state.snapshot is not None for state in history):
        history = _oldest_first(history)
    return convert_messages(list(_new_messages(history)), _info(history, info or RunInfo()), masking)


def _history_state(state: object, index: int) -> _HistoryState:
    place = f"states.{index}"
    if isinstance(state, Mapping):
        if not {"values", "next"} <= state.keys():
            return _HistoryState(place, _messages(state))
        state = SimpleNamespace(**{str(name): value for name, value in state.items()})
    values = getattr(state, "values", None)
    if values is None or callable(values):
        raise InvalidInputError(place, state, "a StateSnapshot, or a state as a mapping")
    metadata = getattr(state, "metadata", None) or {}
    step = metadata.get("step")
    created = to_datetime(getattr(state, "created_at", None))
    return _HistoryState(place, _messages(values), created, step if isinstance(step, int) else None, state)


def _messages(values: object) -> Sequence[object]:
    """Return a state's messages; the state may also be the list itself, or a snapshot that was written down."""
    if isinstance(values, Mapping) and _KEY not in values and isinstance(values.get("values"), Mapping | list | tuple):
        values = values["values"]
    messages = values.get(_KEY) if isinstance(values, Mapping) else getattr(values, _KEY, values)
    return list(messages) if isinstance(messages, list | tuple) else []


def _oldest_first(history: list[_HistoryState]) -> list[_HistoryState]:
    """Order snapshots by time; where some have none, by step, since a history comes newest first."""
    if all(state.created_at is not None for state in history):
        return sorted(reversed(history), key=lambda state: state.created_at or datetime.max)
    steps = [state.step for state in history if state.step is not None]
    return history[::-1] if steps and steps[0] >= steps[-1] else history


def _new_messages(history: Iterable[_HistoryState]) -> Iterator[SourceMessage]:
    """Yield every message that no earlier state had, with the step and the time at which it appeared."""
    known: Counter[str] = Counter()
    for state in history:
        current: Counter[str] = Counter()
        for at, given in enumerate(state.messages):
            place = f"{state.place}.{_KEY}.{at}"
            for message in parse_message(given, place):
                key = repr((message.id, message.role, message.content, message.calls, message.tool_call_id))
                current[key] += 1
                if current[key] > known[key]:
                    check_known_fields(given, place, OF_RUNS)
                    yield _with_step(message, state)
        known |= current


def _with_step(message: SourceMessage, state: _HistoryState) -> SourceMessage:
    if message.step_id is None and state.step is not None and state.step > _START_OF_INPUT:
        message = replace(message, step_id=str(state.step))
    return replace(message, timestamp=state.created_at) if message.timestamp is None else message


def _info(history: Sequence[_HistoryState], info: RunInfo) -> RunInfo:
    """Fill in what the last snapshot and the times of the history say; what the caller says comes first."""
    snapshot = history[-1].snapshot if history else None
    if snapshot is None:
        return info
    times = [state.created_at for state in history if state.created_at]
    waiting = bool(getattr(snapshot, "next", ())) or bool(getattr(snapshot, "interrupts", ()))
    error = _error(snapshot)
    configurable = (getattr(snapshot, "config", None) or {}).get("configurable", {})
    status = info.run_status or (None if waiting or error else "completed")
    return replace(
        info,
        run_id=info.run_id or to_text(configurable.get("thread_id")),
        error=info.error or error,
        waiting=info.waiting or waiting,
        run_status=status,
        start_time=info.start_time or min(times, default=None),
        end_time=info.end_time or max(times, default=None),
        run_type=info.run_type or "langgraph",
    )


def _error(snapshot: Any) -> str | None:
    """Return the exception of a task that failed."""
    for task in getattr(snapshot, "tasks", None) or ():
        error = task.get("error") if isinstance(task, Mapping) else getattr(task, "error", None)
        if error is not None:
            return to_text(error if isinstance(error, str) else f"{type(error).__name__}: {error}") or "error"
    return None
