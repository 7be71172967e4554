"""Results of a search of trajectories (TRAJ-5, TRAJ-6), also as JSON for a tool or a page."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from recall_loop.memory.trajectories.contrast.labels import format_execution, format_learning_value, format_score
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


class TrajectoryItem(_ResultModel):
    """One run. `outcome_score` is its learning value in [0,1], None if it wasn't scored."""

    id: str
    similarity: float
    outcome_score: float | None
    scoring_pending: bool = False
    summary: str
    note: str
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
    unscored: tuple[TrajectoryItem, ...] = ()
    relevant_experiences: tuple[TrajectoryItem, ...] = ()
    allowed: int = 0
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
