"""Results of a search over past runs: items, labels, notes."""

from __future__ import annotations

from math import floor
from typing import Any

from pydantic import Field

from recall_loop.state.records.trajectories import FrozenModel, RunData
from recall_loop.state.scope import ExecutionStatus
from recall_loop.state.types import ComplexityLevel, Timestamp

EXECUTION_HEADING = "Execution"
LEARNING_VALUE_HEADING = "Learning value"
UNSCORED_LABEL = "not scored"
UNSCORED_PENDING = "not scored yet, waiting to be scored"

_SIGNS = {
    ExecutionStatus.COMPLETED: "✅",
    ExecutionStatus.INCOMPLETE: "⏸",
    ExecutionStatus.FAILED: "❌",
    ExecutionStatus.ERROR: "⚠",
    ExecutionStatus.UNKNOWN: "❔",
}
EXECUTION_EXPLAINED = (
    "How the run ended, technically. It says nothing about the quality of the result or about what can be learned "
    "from the run."
)
STATUS_EXPLAINED = {
    ExecutionStatus.COMPLETED: "The run went on to its own end.",
    ExecutionStatus.INCOMPLETE: "A limit cut the run short (tokens, steps, time), or it waits to be continued.",
    ExecutionStatus.FAILED: "The run gave up, was refused or was cancelled.",
    ExecutionStatus.ERROR: "An exception or a tool's error ended the run.",
    ExecutionStatus.UNKNOWN: "Nothing in the record says how the run ended.",
}
LEARNING_EXPLAINED = (
    "How much can be learned from the run, from 0 to 1: depth of the interaction (35 %), complexity of the task "
    "(30 %), use of tools (20 %), value as an example (15 %). A run that ended in an error may score high, and one "
    "that completed may score low."
)
UNSCORED_EXPLAINED = "Nobody has judged what can be learned from the run; that is not the same as a low score."


def format_stars(score: float) -> str:
    """Return five stars of which floor(5 × score + 0.5) are full; `score` in [0,1]."""
    # Rounding first keeps 0.3 (whose product is slightly below 1.5) on the arithmetically correct side.
    full = floor(round(5 * min(max(score, 0.0), 1.0) + 0.5, 9))
    return "⭐" * full + "☆" * (5 - full)


def format_execution(status: ExecutionStatus) -> str:
    """Return sign and word, such as "✅ Completed"."""
    return f"{_SIGNS[status]} {status.value.capitalize()}"


def execution_text(status: ExecutionStatus) -> str:
    """Return "Execution: ✅ Completed"."""
    return f"{EXECUTION_HEADING}: {format_execution(status)}"


def format_score(score: float | None) -> str:
    """Return the score with two decimals; 0.0 is "0.00", and an absent one is said to be so."""
    return UNSCORED_LABEL if score is None else f"{score:.2f}"


def format_learning_value(score: float | None, *, pending: bool = False) -> str:
    """Return stars and number, such as "⭐⭐⭐☆☆ (0.50)", or that there is no score."""
    if score is None:
        return UNSCORED_PENDING if pending else UNSCORED_LABEL
    return f"{format_stars(score)} ({score:.2f})"


def learning_value_text(score: float | None, *, pending: bool = False) -> str:
    """Return "Learning value: ⭐⭐⭐☆☆ (0.50)"."""
    return f"{LEARNING_VALUE_HEADING}: {format_learning_value(score, pending=pending)}"


def execution_tooltip(status: ExecutionStatus) -> str:
    """Say what the status means, and what it doesn't."""
    return f"{STATUS_EXPLAINED[status]} {EXECUTION_EXPLAINED}"


def learning_value_tooltip(score: float | None) -> str:
    """Say what the learning value means, and what its absence does."""
    return UNSCORED_EXPLAINED if score is None else LEARNING_EXPLAINED


def run_texts(run: RunData) -> tuple[str, str]:
    """Return the two labels of a run, one under the other on every surface."""
    return execution_text(run.execution.status), learning_value_text(run.outcome_score, pending=run.scoring_pending)


class TrajectoryDetails(FrozenModel):
    """Facts about a run that say nothing about its learning value."""

    status: ExecutionStatus
    tools_used: tuple[str, ...] = ()
    step_count: int = 0
    task_category: str | None = None
    complexity_level: ComplexityLevel | None = None

    @classmethod
    def from_run(cls, run: RunData) -> TrajectoryDetails:
        """Return the details of a run."""
        return cls(
            status=run.execution.status,
            tools_used=run.metadata.tools_used,
            step_count=run.metadata.step_count,
            task_category=run.task_category,
            complexity_level=run.complexity_level,
        )


class TrajectoryItem(FrozenModel):
    """One run. `outcome_score` is its learning value in [0,1], None if it wasn't scored."""

    id: str
    similarity: float = Field(ge=0, le=1)
    outcome_score: float | None = Field(ge=0, le=1, description="Learning value; absent if not scored.")
    scoring_pending: bool = False
    summary: str
    errors: tuple[str, ...] = Field(
        (),
        description="Errors in the run, most relevant to the query first, each with the call that followed and worked.",
    )
    note: str = Field(description="Possible use of the run.")
    details: TrajectoryDetails
    tags: tuple[str, ...] = ()
    agent_id: str | None = None
    created_at: Timestamp | None = None

    def to_display(self) -> dict[str, Any]:
        """Return the item in words: a score of 0.0 is "0.00", and none at all is said to be none."""
        details = self.details.model_dump(mode="json", exclude_none=True)
        return {
            "id": self.id,
            "similarity": f"{self.similarity:.2f}",
            "outcome_score": format_score(self.outcome_score),
            "learning_value": format_learning_value(self.outcome_score, pending=self.scoring_pending),
            "execution": format_execution(self.details.status),
            "summary": self.summary,
            **({"errors": list(self.errors)} if self.errors else {}),
            "note": self.note,
            "details": details,
        }


class TrajectorySearchResult(FrozenModel):
    """Runs that match a query.

    Without contrasts they are `trajectories`, best first. With contrasts each stands in its tier, or, where neither a
    success nor a failure was found, in `relevant_experiences`, and all tiers are empty. `allowed` counts the
    trajectories that scope and filters leave, whatever their similarity.
    """

    query: str
    message: str
    include_contrasts: bool
    trajectories: tuple[TrajectoryItem, ...] = ()
    successes: tuple[TrajectoryItem, ...] = ()
    moderate: tuple[TrajectoryItem, ...] = ()
    failures: tuple[TrajectoryItem, ...] = ()
    unscored: tuple[TrajectoryItem, ...] = Field((), description="Not scored yet; this is not a low learning value.")
    relevant_experiences: tuple[TrajectoryItem, ...] = ()
    allowed: int = Field(0, description="Runs within scope and filters, whatever their similarity.")
    degraded_reason: str | None = None

    def to_display(self) -> dict[str, Any]:
        """Return the result in words; groups that this kind of search doesn't have are left out."""
        names = ["successes", "moderate", "failures", "unscored"] if self.include_contrasts else ["trajectories"]
        names += ["relevant_experiences"] if self.relevant_experiences else []
        return {"message": self.message, **{name: [one.to_display() for one in getattr(self, name)] for name in names}}
