"""Search of past runs as a LangChain tool (TRAJ-5, TRAJ-8).

Scope and tenant are bound where the tool is made; the model never chooses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field

from recall_loop.memory.adapters.tool_queries import MAX_TOOL_LIMIT, ScopeProvider, make_memory_tool
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.state.errors import validate_model
from recall_loop.state.scope import ExecutionStatus, Scope
from recall_loop.state.search import (
    DEFAULT_TRAJECTORY_LIMIT,
    FAILURE_THRESHOLD,
    SUCCESS_THRESHOLD,
    TRAJECTORY_MIN_SIMILARITY,
    TrajectorySearchParams,
)
from recall_loop.state.types import BodyText, ComplexityLevel, UnitFloat, Utf8Text

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore

TRAJECTORY_TOOL_NAME = "search_trajectories"
TRAJECTORY_TOOL_DESCRIPTION = (
    "Search past runs of agents for experience with a similar task. Each result says two different things: "
    "`execution` is how the run ended (completed, incomplete, failed, error), `outcome_score` is its learning value "
    "from 0 to 1, how much can be learned from it. A run that ended in an error may have a high learning value. "
    "With include_contrasts the results come in tiers of learning value: successes, moderate, failures, and those "
    "that nobody has scored."
)
_FILTERS = frozenset({"execution_status", "tags", "tools_used", "task_category", "complexity_level"})


class TrajectoryQuery(BaseModel):
    """A search of past runs."""

    model_config = ConfigDict(extra="forbid")

    query: BodyText = Field(description="What the runs should be about, in words.")
    min_score: UnitFloat | None = Field(None, description="Least learning value, 0 to 1; leaves out runs without one.")
    max_score: UnitFloat | None = Field(None, description="Most learning value, 0 to 1; leaves out runs without one.")
    min_similarity: UnitFloat | None = Field(None, description="Least similarity to the query, 0 to 1.")
    limit: int = Field(
        DEFAULT_TRAJECTORY_LIMIT, ge=1, le=MAX_TOOL_LIMIT, description="Most results; with contrasts for each tier."
    )
    include_contrasts: bool = Field(False, description="Group by learning value, for what worked and what didn't.")
    execution_status: ExecutionStatus | None = Field(None, description="Only runs that ended so.")
    tags: tuple[Utf8Text, ...] | None = Field(None, description="Only runs with all of these tags.")
    tools_used: tuple[Utf8Text, ...] | None = Field(None, description="Only runs that used all of these tools.")
    task_category: Utf8Text | None = Field(None, description="Only runs with this category of task.")
    complexity_level: ComplexityLevel | None = Field(None, description="Only runs with tasks as hard as this.")


def trajectory_tool(
    store: MemoryStore,
    scope: ScopeProvider | None,
    *,
    min_similarity: float = TRAJECTORY_MIN_SIMILARITY,
    success_threshold: float = SUCCESS_THRESHOLD,
    failure_threshold: float = FAILURE_THRESHOLD,
) -> BaseTool:
    """Return the tool for the runs that `scope` may read; it answers with JSON.

    A function as the scope derives it from each call's configuration. Wrong values, and a store that can't be read,
    come back to the model as the tool's answer.

    Raises:
        InvalidInputError: `scope` or a number is not allowed.
    """
    numbers = {"success_threshold": success_threshold, "failure_threshold": failure_threshold}
    defaults = validate_model(TrajectorySearchParams, {"min_similarity": min_similarity, **numbers})

    def answer(reach: Scope, query: TrajectoryQuery) -> dict[str, Any]:
        given = query.model_dump(exclude_none=True, exclude={"query", *_FILTERS})
        filters = {name: value for name in _FILTERS if (value := getattr(query, name))}
        params = validate_model(
            TrajectorySearchParams, {**defaults.model_dump(exclude_unset=True), **given, "filters": filters}
        )
        return search_trajectories(store, query.query, scope=reach, params=params).to_display()

    return make_memory_tool(TRAJECTORY_TOOL_NAME, TRAJECTORY_TOOL_DESCRIPTION, TrajectoryQuery, scope, answer)
