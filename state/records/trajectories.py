"""The structure of a stored run (TRAJ-1, TRAJ-2): its turns, how it ended, and its learning value.

A run is kept as a `Trajectory` record. The record's `text` is shown and searched; the whole run is
its `attributes`, in the shape of `RunData`. Two things are never mixed up (TRAJ-3): `execution` says how the
run ended, `outcome_score` says how much can be learned from it, and neither enters the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainSerializer, ValidationError

from recall_loop.state.errors import validate_model
from recall_loop.state.records.legacy_trajectories import is_legacy, merge_extra, upgrade_legacy
from recall_loop.state.records.records import Record, Trajectory
from recall_loop.state.scope import ExecutionStatus
from recall_loop.state.types import (
    MAX_TEXT_CHARS,
    ComplexityLevel,
    FiniteFloat,
    Integer,
    Role,
    Timestamp,
    UnitFloat,
    Utf8Text,
)

NonNegativeCount = Annotated[Integer, Field(ge=0)]
NonNegativeSeconds = Annotated[FiniteFloat, Field(ge=0)]


# Written with its offset, so that a run reads back equal to what was stored.
_ISO_FORMAT = PlainSerializer(datetime.isoformat, return_type=str, when_used="json-unless-none")
OffsetTimestamp = Annotated[Timestamp, _ISO_FORMAT]


class FrozenModel(BaseModel):
    """A model that can't be changed and has no other fields than its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Execution(FrozenModel):
    """How a run ended, how sure that is in [0,1], and why (TRAJ-1). Never a judgement of its worth."""

    status: ExecutionStatus
    confidence: UnitFloat = 0.5
    reasoning: Utf8Text = ""


class ToolUse(FrozenModel):
    """One call of a tool; `arguments` stay text where they can't be read as a JSON object."""

    name: Utf8Text
    arguments: dict[str, JsonValue] | Utf8Text = Field(default_factory=dict)
    id: Utf8Text | None = None
    error: Utf8Text | None = None
    extra: dict[str, JsonValue] = Field(default_factory=dict, description="Whatever else the source gave.")


class TurnMessage(FrozenModel):
    """One message of a run. `error` is set for a tool result that reports one."""

    role: Role
    content: Utf8Text = ""
    name: Utf8Text | None = None
    tool_calls: tuple[ToolUse, ...] = ()
    tool_call_id: Utf8Text | None = None
    timestamp: OffsetTimestamp | None = None
    error: Utf8Text | None = None
    extra: dict[str, JsonValue] = Field(default_factory=dict, description="Whatever else the source gave.")


class Turn(FrozenModel):
    """Messages of one step; messages without a step form turns with `step_id` None."""

    step_id: Utf8Text | None = None
    model: Utf8Text | None = None
    input_tokens: NonNegativeCount | None = None
    output_tokens: NonNegativeCount | None = None
    stop_reason: Utf8Text | None = None
    messages: tuple[TurnMessage, ...] = ()


class RunMetadata(FrozenModel):
    """Counts and times of a run; times are UTC, `tools_used` in order of first use.

    `step_count` counts the steps of the agent itself: turns in which it spoke.
    """

    run_id: Utf8Text | None = None
    start_time: OffsetTimestamp | None = None
    end_time: OffsetTimestamp | None = None
    duration_seconds: NonNegativeSeconds | None = None
    step_count: NonNegativeCount = 0
    message_count: NonNegativeCount = 0
    tools_used: tuple[Utf8Text, ...] = ()
    input_tokens: NonNegativeCount | None = None
    output_tokens: NonNegativeCount | None = None
    models: tuple[Utf8Text, ...] = ()
    run_type: Utf8Text | None = None
    stop_reason: Utf8Text | None = None
    error: Utf8Text | None = None
    extra: dict[str, JsonValue] = Field(default_factory=dict, description="Whatever else the source gave.")


class SubScores(FrozenModel):
    """The four parts of the learning value, each in [0,1]; weights 35, 30, 20 and 15 % (TRAJ-2)."""

    interaction_depth: UnitFloat
    task_complexity: UnitFloat
    tool_usage: UnitFloat
    learning_value: UnitFloat


class Scoring(FrozenModel):
    """Who scored a run (`rules-2`, or `llm:` and the model), with the parts and the reasons.

    `sub_scores` is absent only for a score that was read from an old record.
    """

    scorer: Utf8Text
    sub_scores: SubScores | None = None
    reasoning: Utf8Text = ""
    scored_at: OffsetTimestamp | None = None


class RunData(FrozenModel):
    """A whole run. `outcome_score` is its learning value in [0,1], None while it is unscored."""

    task: Utf8Text = ""
    summary: Utf8Text | None = None
    execution: Execution = Execution(status=ExecutionStatus.UNKNOWN)
    outcome_score: UnitFloat | None = None
    scoring: Scoring | None = None
    scoring_pending: bool = False
    scoring_error: Utf8Text | None = None
    task_category: Utf8Text | None = None
    complexity_level: ComplexityLevel | None = None
    metadata: RunMetadata = RunMetadata()
    turns: tuple[Turn, ...] = ()
    extra: dict[str, JsonValue] = Field(default_factory=dict, description="Whatever else the source gave.")

    def messages(self) -> list[TurnMessage]:
        """Return the messages of all turns, oldest first."""
        return [message for turn in self.turns for message in turn.messages]


def run_attributes(run: RunData) -> dict[str, JsonValue]:
    """Return `run` as the attributes of a record: JSON, without None and default values."""
    return run.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


def run_from_record(record: Record, *, warn: bool = True) -> RunData:
    """Read the run that a stored trajectory holds.

    Shapes from before `execution` (an `outcome` with a `type`) are read too, with a DeprecationWarning
    (TRAJ-4) unless `warn` is off. A search must not break on one odd record, so a field that doesn't validate
    goes to `extra` as it is, and a record that holds no run at all gives its text as the task, with status unknown.
    """
    attributes: Mapping[str, Any] = record.attributes
    if is_legacy(attributes):
        attributes = upgrade_legacy(attributes, warn=warn)
    try:
        run = RunData.model_validate(attributes)
    except ValidationError:
        run = _salvage(attributes)
    return run if run.task or run.turns else run.model_copy(update={"task": record.text})


def _salvage(attributes: Mapping[str, Any]) -> RunData:
    """Keep each field that validates; put every other value under `extra`, so that nothing is lost."""
    extra: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for name, value in attributes.items():
        if name == "extra":
            continue
        try:
            kept[name] = getattr(RunData.model_validate({name: value}), name)
        except ValidationError:
            extra[name] = value
    return RunData(**kept, extra=merge_extra(attributes.get("extra"), extra))


def run_as_text(run: RunData) -> str:
    """Return a run in a few lines: task, summary, tools and how it ended. Never empty."""
    tools = ", ".join(run.metadata.tools_used)
    lines = [run.task, run.summary or "", f"Tools: {tools}" if tools else "", f"Execution: {run.execution.status}"]
    return "\n".join(line for line in lines if line.strip())


def trajectory_record(run: RunData, *, id: str, text: str | None = None, **fields: Any) -> Trajectory:
    """Make the record that is stored for `run`.

    Args:
        run: the run; secrets must be masked already.
        id: id of the record, unique within its tenant.
        text: the text to show and search; absent, `run_as_text(run)`. Cut at a million characters, the bound of a
            record's text; the run itself stays whole in the attributes.
        **fields: further fields of the record, such as `agent_id`, `tags` or `created_at`. Without a
            `created_at` the run's end (else its start) is taken.

    Raises:
        InvalidInputError: a field is not allowed.
    """
    shown = (text if text is not None and text.strip() else run_as_text(run))[:MAX_TEXT_CHARS]
    moment = run.metadata.end_time or run.metadata.start_time
    values = {"created_at": moment, **fields, "id": id, "text": shown, "attributes": run_attributes(run)}
    return validate_model(Trajectory, values, "trajectory")
