"""`POST /api/trajectories/search`: past runs of a similar task, with or without contrasts (TRAJ-5, TRAJ-6, TRAJ-8)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.service.core.deadline import blocking
from recall_loop.service.core.problems import NoQueryParams, json_response
from recall_loop.service.middleware.dependencies import CallerDep, JsonBody, StoreDep
from recall_loop.service.models.trajectory_models import TrajectoryResults, TrajectorySearchRequest

router = APIRouter(prefix="/api/trajectories", tags=["trajectories"], dependencies=[JsonBody, NoQueryParams])


@router.post("/search", summary="Search past runs", response_model=TrajectoryResults)
@blocking
def search_runs(body: TrajectorySearchRequest, caller: CallerDep, store: StoreDep) -> Response:
    """Find runs of a similar task. Runs of other agents are searched only where no agent, or its group, is asked for.

    With `include_contrasts` they come in tiers of learning value, each searched for itself. As long as one run in
    scope is similar enough, the answer is not empty.
    """
    found = search_trajectories(store, body.query, scope=body.read_scope(caller.tenant), params=body)
    return json_response(TrajectoryResults.from_result(found), nulls=True)
