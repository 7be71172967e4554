"""Request and response models of past runs; how a run ended and its learning value are separate (TRAJ-3)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from recall_loop.memory.trajectories.contrast.results import (
    EXECUTION_HEADING,
    LEARNING_VALUE_HEADING,
    TrajectoryDetails,
    TrajectoryItem,
    TrajectorySearchResult,
    execution_tooltip,
    format_execution,
    format_learning_value,
    learning_value_tooltip,
)
from recall_loop.service.models.record_models import WriteResult
from recall_loop.service.models.search_models import QueryText, ScopeFields
from recall_loop.state.records.records import Record
from recall_loop.state.records.trajectories import RunData, run_attributes, run_from_record
from recall_loop.state.scope import ExecutionStatus
from recall_loop.state.search import TrajectorySearchParams
from recall_loop.state.types import Integer, Timestamp

ScorerName = Literal["auto", "rules", "llm"]
MAX_SCORED_RUNS = 200


class Label(BaseModel):
    """One of the two values of a run, in the wording used everywhere."""

    label: str = Field(examples=[EXECUTION_HEADING, LEARNING_VALUE_HEADING])
    value: str = Field(examples=["✅ Completed", "⭐⭐⭐☆☆ (0.50)"])
    tooltip: str = Field(description="Explanation of the value.")


def make_labels(status: ExecutionStatus, score: float | None, *, pending: bool) -> dict[str, Any]:
    """Return both labels of a run: how it ended, and its learning value."""
    learning_value = format_learning_value(score, pending=pending)
    return {
        "execution": Label(label=EXECUTION_HEADING, value=format_execution(status), tooltip=execution_tooltip(status)),
        "learning_value": Label(
            label=LEARNING_VALUE_HEADING, value=learning_value, tooltip=learning_value_tooltip(score)
        ),
    }


def labels_of(run: RunData) -> dict[str, Any]:
    """Return both labels of a stored run."""
    return make_labels(run.execution.status, run.outcome_score, pending=run.scoring_pending)


class _LabelledModel(BaseModel):
    execution: Label = Field(description="How the run ended, independent of its learning value.")
    learning_value: Label = Field(description="How much can be learned from the run, however it ended.")


class TrajectorySearchRequest(TrajectorySearchParams, ScopeFields):
    """A search of past runs."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "book a ferry", "include_contrasts": True},
                {"query": "deploy failed", "min_score": 0.5, "filters": {"execution_status": "error"}},
            ]
        }
    )

    query: QueryText = Field(description="What the runs should be about; may end in a time, such as `< 3 days`.")


class TrajectoryHit(TrajectoryItem, _LabelledModel):
    """One run that matches."""

    @classmethod
    def from_item(cls, item: TrajectoryItem) -> TrajectoryHit:
        """Return an item with its labels."""
        labels = make_labels(item.details.status, item.outcome_score, pending=item.scoring_pending)
        return cls(**dict(item), **labels)


_RunGroup = tuple[TrajectoryHit, ...]


class TrajectoryResults(TrajectorySearchResult):
    """Runs, best match first. Without contrasts they stand in `trajectories`, with them in tiers.

    Where neither a success nor a failure matches, all tiers are empty and the best matches of any learning value are
    in `relevant_experiences`; `message` says why.
    """

    trajectories: _RunGroup
    successes: _RunGroup
    moderate: _RunGroup
    failures: _RunGroup
    unscored: _RunGroup = Field(description="Not scored yet; this is not a low learning value.")
    relevant_experiences: _RunGroup
    degraded: bool

    @classmethod
    def from_result(cls, result: TrajectorySearchResult) -> TrajectoryResults:
        """Return a result with labels."""
        fields: dict[str, Any] = dict(result)
        for name, value in fields.items():
            if isinstance(value, tuple):
                fields[name] = tuple(TrajectoryHit.from_item(item) for item in value)
        return cls(**fields, degraded=result.degraded_reason is not None)


class TrajectoryRecord(Record):
    """A stored run. `attributes` is the run itself: written back as they are, the fields give the same run."""

    attributes: RunData  # type: ignore[assignment]  # the same JSON, with its fields named


class StoredTrajectory(_LabelledModel):
    """A stored run with its labels."""

    trajectory: TrajectoryRecord

    @classmethod
    def from_record(cls, record: Record) -> dict[str, JsonValue]:
        """Return a stored run as plain JSON, without empty fields."""
        run = run_from_record(record)
        fields = record.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        fields |= {"kind": record.kind.value, "attributes": run_attributes(run)}
        labels = {name: label.model_dump() for name, label in labels_of(run).items()}
        return {"trajectory": fields, **labels}


class TrajectorySummary(_LabelledModel):
    """A stored run without its turns."""

    id: str
    task: str
    summary: str | None = None
    outcome_score: float | None = Field(None, ge=0, le=1, description="Learning value; absent if not scored.")
    scoring_pending: bool = False
    details: TrajectoryDetails
    tags: tuple[str, ...] = ()
    agent_id: str | None = None
    user_id: str | None = None
    conversation_id: str | None = None
    created_at: Timestamp | None = None

    @classmethod
    def from_record(cls, record: Record) -> TrajectorySummary:
        """Return the fields of a stored run except its turns."""
        slim = {name: value for name, value in record.attributes.items() if name != "turns"}
        run = run_from_record(record.model_copy(update={"attributes": slim}))
        names = ("id", "tags", "agent_id", "user_id", "conversation_id", "created_at")
        return cls(
            **{name: getattr(record, name) for name in names},
            task=run.task,
            summary=run.summary,
            outcome_score=run.outcome_score,
            scoring_pending=run.scoring_pending,
            details=TrajectoryDetails.from_run(run),
            **labels_of(run),
        )


class TrajectoriesPage(BaseModel):
    """Stored runs by ascending id."""

    trajectories: list[TrajectorySummary]
    next_cursor: str | None = Field(None, description="`cursor` of the next page; absent at the end.")


class TrajectoryWriteResult(WriteResult, _LabelledModel):
    """The outcome of writing or scoring a run."""

    outcome_score: float | None = Field(None, ge=0, le=1, description="Learning value; absent if not scored yet.")


class AddTrajectoryParams(BaseModel):
    """How a run is added."""

    model_config = ConfigDict(extra="forbid")

    score: Literal["auto", "rules", "llm", "later"] = Field(
        "auto",
        description="Scorer of the learning value: `rules`, the language model `llm`, the model if one is set "
        "(`auto`), or none yet (`later`). A score that the run already has is kept.",
    )


class ScoringParams(BaseModel):
    """Who scores."""

    model_config = ConfigDict(extra="forbid")

    scorer: ScorerName = Field("auto", description="`rules`, `llm`, or `auto`: the model if one is set.")


class ScoringRequest(ScopeFields, ScoringParams):
    """The runs without a learning value to score."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"scorer": "rules", "limit": 50}]})

    limit: Integer = Field(20, ge=1, le=MAX_SCORED_RUNS, description="Maximum runs to try, 1 to 200.")
    queued_only: bool = Field(False, description="Only runs that are queued, not all without a score.")


class ScoringSummary(BaseModel):
    """The outcome of scoring."""

    scored: int
    failed: int = Field(description="Runs that stay unscored and queued.")
    errors: dict[str, str] = Field(description="Reasons, by id.")
