"""Results of a search of trajectories (TRAJ-5, TRAJ-6), also as JSON for a tool or a page."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.memory.trajectories.contrast.labels import format_execution, format_learning_value, format_score
from recall_loop.state.records.trajectories import RunData
from recall_loop.state.scope import ExecutionStatus
from recall_loop.state.types import ComplexityLevel, Timestamp


class _ResultModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrajectoryDetails(_ResultModel):
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


class TrajectoryItem(_ResultModel):
    """One run. `outcome_score` is its learning value in [0,1], None if it wasn't scored."""

    id: str
    similarity: float = Field(ge=0, le=1)
    outcome_score: float | None = Field(ge=0, le=1, description="Learning value; null where nobody scored it.")
    scoring_pending: bool = False
    summary: str
    note: str = Field(description="What the run may be good for.")
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
            "note": self.note,
            "details": details,
        }


class TrajectorySearchResult(_ResultModel):
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
    unscored: tuple[TrajectoryItem, ...] = Field(
        (), description="Nobody has judged these; that is not a low learning value."
    )
    relevant_experiences: tuple[TrajectoryItem, ...] = ()
    allowed: int = Field(0, description="Runs that scope and filters leave, whatever their similarity.")
    degraded_reason: str | None = None

    @property
    def all_items(self) -> tuple[TrajectoryItem, ...]:
        """All items, of all groups."""
        return tuple(item for name in _group_names(self) for item in getattr(self, name))

    def to_display(self) -> dict[str, Any]:
        """Return the result in words; groups that this kind of search doesn't have are left out."""
        groups = {name: [item.to_display() for item in getattr(self, name)] for name in _group_names(self)}
        return {"message": self.message, **groups}


def _group_names(result: TrajectorySearchResult) -> tuple[str, ...]:
    if not result.include_contrasts:
        return ("trajectories",)
    tiers = ("successes", "moderate", "failures", "unscored")
    return (*tiers, "relevant_experiences") if result.relevant_experiences else tiers
