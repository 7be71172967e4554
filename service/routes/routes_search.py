"""Single searches, without the loop: of the memory (SEARCH-1 to SEARCH-10), of past runs (TRAJ-5, TRAJ-6, TRAJ-8)."""

from __future__ import annotations

from starlette.responses import Response

from recall_loop.memory.search.engine import search
from recall_loop.memory.search.present.result_display import parse_profile, response_to_json
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.service.core.deadline import blocking
from recall_loop.service.core.problems import json_response
from recall_loop.service.middleware.dependencies import CallerDep, StoreDep
from recall_loop.service.middleware.json_bodies import json_router
from recall_loop.service.models.search_models import SearchRequest, SearchResults
from recall_loop.service.models.trajectory_models import TrajectoryResults, TrajectorySearchRequest

router = json_router()


@router.post("/api/memory/search", tags=["search"], summary="Search once", response_model=SearchResults)
@blocking
def search_memory(body: SearchRequest, caller: CallerDep, store: StoreDep) -> Response:
    """Search facts, archival entries, messages and trajectories; no planning, no further rounds.

    An option that the mode can't honour is an error. Texts are whole unless a `profile` is named.
    """
    profile = parse_profile(body.profile)
    found = search(store, body.query, scope=body.read_scope(caller.tenant), params=body)
    return json_response(response_to_json(found, profile))


@router.post(
    "/api/trajectories/search", tags=["trajectories"], summary="Search past runs", response_model=TrajectoryResults
)
@blocking
def search_runs(body: TrajectorySearchRequest, caller: CallerDep, store: StoreDep) -> Response:
    """Find runs of a similar task. Runs of other agents are searched only where no agent, or its group, is asked for.

    With `include_contrasts` they come in tiers of learning value, each searched for itself. As long as one run in
    scope is similar enough, the answer is not empty.
    """
    found = search_trajectories(store, body.query, scope=body.read_scope(caller.tenant), params=body)
    return json_response(TrajectoryResults.from_result(found), nulls=True)
