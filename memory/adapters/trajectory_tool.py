"""Search of past runs as a LangChain tool (TRAJ-5, TRAJ-8).

Whose runs are searched is settled where the tool is made: scope and tenant are never the model's to choose.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field

from recall_loop.memory.adapters.tool_queries import ScopeProvider, format_validation_error, resolve_scope
from recall_loop.memory.trajectories.contrast.contrast_search import (
    DEFAULT_TRAJECTORY_LIMIT,
    TRAJECTORY_MIN_SIMILARITY,
    search_trajectories,
)
from recall_loop.memory.trajectories.contrast.tiers import FAILURE_THRESHOLD, SUCCESS_THRESHOLD
from recall_loop.state.errors import EmbedderError, InvalidInputError, StoreError, validate_model
from recall_loop.state.scope import ExecutionStatus, Filters
from recall_loop.state.types import ComplexityLevel, UnitFloat, Utf8Text

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
_FILTERS = ("execution_status", "tags", "tools_used", "task_category", "complexity_level")
_MAX_RESULTS = 50


class TrajectoryQuery(BaseModel):
    """What a model may ask of the tool."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(description="What the runs should be about, in words.")
    min_score: UnitFloat | None = Field(None, description="Least learning value, 0 to 1; leaves out runs without one.")
    max_score: UnitFloat | None = Field(None, description="Most learning value, 0 to 1; leaves out runs without one.")
    min_similarity: UnitFloat | None = Field(None, description="Least similarity to the query, 0 to 1.")
    limit: int = Field(
        DEFAULT_TRAJECTORY_LIMIT, ge=1, le=_MAX_RESULTS, description="Most results; with contrasts for each tier."
    )
    include_contrasts: bool = Field(False, description="Group by learning value, for what worked and what didn't.")
    execution_status: ExecutionStatus | None = Field(None, description="Only runs that ended so.")
    tags: tuple[Utf8Text, ...] | None = Field(None, description="Only runs with all of these tags.")
    tools_used: tuple[Utf8Text, ...] | None = Field(None, description="Only runs that used all of these tools.")
    task_category: Utf8Text | None = Field(None, description="Only runs with this category of task.")
    complexity_level: ComplexityLevel | None = Field(None, description="Only runs with tasks as hard as this.")


def trajectory_tool(
    store: MemoryStore,
    scope: ScopeProvider,
    *,
    min_similarity: float = TRAJECTORY_MIN_SIMILARITY,
    success_threshold: float = SUCCESS_THRESHOLD,
    failure_threshold: float = FAILURE_THRESHOLD,
) -> StructuredTool:
    """Return the tool for the runs that `scope` may read; it answers with JSON.

    A function as the scope makes it of each call's configuration. Wrong values, and a store that can't be read, come
    back to the model as the tool's answer.
    """

    def search(config: RunnableConfig, **given: Any) -> str:
        reach = resolve_scope(scope, config)
        asked = {name: value for name, value in given.items() if value is not None}
        values = {name: asked.pop(name) for name in _FILTERS if asked.get(name)}
        for name in _FILTERS:
            asked.pop(name, None)
        asked.setdefault("min_similarity", min_similarity)
        try:
            found = search_trajectories(
                store,
                scope=reach,
                filters=validate_model(Filters, values, "filters"),
                success_threshold=success_threshold,
                failure_threshold=failure_threshold,
                **asked,
            )
        except InvalidInputError as error:
            raise ToolException(str(error)) from error
        except (StoreError, EmbedderError) as error:
            raise ToolException(f"The memory can't be searched now ({type(error).__name__}).") from error
        return json.dumps(found.to_display(), ensure_ascii=False)

    return StructuredTool.from_function(
        search,
        name=TRAJECTORY_TOOL_NAME,
        description=TRAJECTORY_TOOL_DESCRIPTION,
        args_schema=TrajectoryQuery,
        handle_tool_error=True,
        handle_validation_error=format_validation_error,
    )
