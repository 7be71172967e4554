"""Reads runs from JSON Lines files, one run a line of any shape, as records (TRAJ-1).

A line holds `messages` (of any kind that `chat_messages` reads) or `states` (a checkpoint history's values, oldest
first), and beside them further fields of the run. A verdict on the result, such as a reward or a status of
`success`, is kept with the run and never read as how it ended. A line that is a record already (the output
of `recall-loop trajectories convert`) is taken as it is, with its secrets masked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from recall_loop.memory.parsing.foreign_json import (
    InvalidLine,
    parse_object,
    raw_lines,
    to_count,
    to_datetime,
    to_error,
    to_json_object,
    to_printable,
    to_seconds,
    to_text,
)
from recall_loop.memory.parsing.message_fields import check_known_fields
from recall_loop.memory.store.encoding.indexing import text_hash
from recall_loop.memory.trajectories.capture.convert import DEFAULT_MASKING, RunInfo, convert_run
from recall_loop.memory.trajectories.capture.execution_status import is_run_status, is_status_or_verdict
from recall_loop.memory.trajectories.capture.history import OF_RUNS, convert_history
from recall_loop.memory.trajectories.capture.masking import Masking
from recall_loop.memory.trajectories.indexing_text import searchable_text
from recall_loop.state.errors import InvalidInputError, RecallError, validate_model
from recall_loop.state.records.records import Trajectory
from recall_loop.state.records.trajectories import RunData, trajectory_record

# Names that sources use for the same field, the preferred one first.
_READERS: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "task": (to_text, ("task", "instruction", "goal", "question", "prompt")),
    "summary": (to_text, ("summary", "searchable_summary")),
    "stop_reason": (to_text, ("stop_reason", "termination", "termination_reason", "finish_reason")),
    "model": (to_text, ("model", "agent_model")),
    "run_type": (to_text, ("run_type",)),
    "error": (to_error, ("error", "exception")),
    "input_tokens": (to_count, ("input_tokens", "prompt_tokens")),
    "output_tokens": (to_count, ("output_tokens", "completion_tokens")),
    "start_time": (to_datetime, ("start_time", "started_at", "created_at", "timestamp")),
    "end_time": (to_datetime, ("end_time", "ended_at", "finished_at", "completed_at")),
    "duration_seconds": (to_seconds, ("duration_seconds", "duration_s", "duration")),
}
_JUDGEMENTS = ("outcome_score", "task_category")
_OWNER_FIELDS = ("agent_id", "agent_name", "group_id", "user_id", "conversation_id", "label")
_RECORD_FIELDS = (*_OWNER_FIELDS, "expires_at")


def read_runs(path: Path, masking: Masking = DEFAULT_MASKING) -> Iterator[tuple[int, Trajectory | InvalidLine]]:
    """Yield the lines of a file by number, as records; a bad line is reported and spoils no other."""
    for line in raw_lines(path, max_bytes=-1):  # one run may have any length
        given = parse_object(line, json.loads)
        try:
            yield line.number, given if isinstance(given, InvalidLine) else record_from_run(given, masking)
        except RecallError as error:
            yield line.number, InvalidLine(str(error), to_printable(line.data))


def record_from_run(given: Mapping[str, Any], masking: Masking = DEFAULT_MASKING) -> Trajectory:
    """Return one run as a record; without an id it gets one that is derived from its content.

    Raises `InvalidInputError` where it holds no run, or a value that no record can hold.
    """
    if "attributes" in given:
        masked = masking.value(to_json_object(given))
        return validate_model(Trajectory, masked if isinstance(masked, dict) else {}, "record")
    run, run_id = _run(dict(given), masking)
    fields = {name: given[name] for name in _RECORD_FIELDS if given.get(name) is not None}
    tags = given.get("tags")
    if isinstance(tags, list):
        fields["tags"] = tuple(dict.fromkeys(str(tag) for tag in tags if str(tag).strip()))
    return trajectory_record(run, id=run_id or derive_run_id(run, fields), text=searchable_text(run), **fields)


def derive_run_id(run: RunData, fields: Mapping[str, Any]) -> str:
    """Return an id that the same line always gets; an equal run at another time, or of another agent, gets another."""
    owner = {name: fields[name] for name in _OWNER_FIELDS if name in fields}
    content = run.model_dump_json(include={"task", "turns", "execution", "metadata"})
    return f"run-{text_hash(content + json.dumps(owner, default=str)).hex()}"


def _run(fields: dict[str, Any], masking: Masking) -> tuple[RunData, str | None]:
    name = next((name for name in ("messages", "states") if isinstance(fields.get(name), list)), None)
    if name is None:
        raise InvalidInputError("messages", fields.get("messages"), "a list of messages (or of `states`)")
    body = fields.pop(name)
    if isinstance(fields.get("states"), list):
        raise InvalidInputError("states", fields["states"], "nothing beside `messages`: a run has one of both")
    run_id = to_text(fields.pop("id", None) or fields.get("run_id"))
    fields.pop("run_id", None)
    judged = validate_model(RunData, {name: fields.pop(name) for name in _JUDGEMENTS if fields.get(name) is not None})
    info = _info(fields, run_id)
    if name == "messages":
        for index, message in enumerate(body):
            check_known_fields(message, f"messages.{index}", OF_RUNS)
    run = convert_run(body, info, masking) if name == "messages" else convert_history(body, info, masking)
    if not run.task and not run.turns:
        raise InvalidInputError(name, body, "at least one message, or a `task`")
    return run.model_copy(update={name: getattr(judged, name) for name in judged.model_fields_set}), run_id


def _check_contradictions(fields: Mapping[str, Any]) -> None:
    """Raise `InvalidInputError` for a status that is none, and for an end before the start."""
    word = to_text(fields.get("run_status"))
    if word and not is_status_or_verdict(word):
        words = "how the run stands, such as completed, failed, cancelled, error, incomplete or running"
        raise InvalidInputError("run_status", fields["run_status"], f"{words}; a verdict on its result is a `status`")
    (began, start), (ended, end) = _time_among(fields, "start_time"), _time_among(fields, "end_time")
    if start and end and end < start:
        raise InvalidInputError(ended, fields[ended], f"a time not before {began}, which is {start.isoformat()}")


def _time_among(fields: Mapping[str, Any], name: str) -> tuple[str, datetime | None]:
    """Return a time of a run, and under which of its names it is given."""
    found = ((spelling, to_datetime(fields.get(spelling))) for spelling in _READERS[name][1])
    return next((pair for pair in found if pair[1] is not None), (name, None))


def _info(fields: dict[str, Any], run_id: str | None) -> RunInfo:
    """Take the known fields of a run out of a line's fields; all others become `extra`."""
    _check_contradictions(fields)
    known: dict[str, Any] = {}
    for name, (read, spellings) in _READERS.items():
        for spelling in spellings:
            value = read(fields.get(spelling))
            if value is not None and name not in known:
                known[name] = value
                fields.pop(spelling)
    for spelling in ("run_status", "status"):
        word = to_text(fields.get(spelling))
        if word and is_run_status(word) and "run_status" not in known:
            known["run_status"] = word
            fields.pop(spelling)
    taken = (*_RECORD_FIELDS, "tags") if isinstance(fields.get("tags"), list) else _RECORD_FIELDS
    others = {name: value for name, value in fields.items() if name not in taken}
    return RunInfo(run_id=run_id, extra=to_json_object(others), **known)
