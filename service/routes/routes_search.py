"""`POST /api/memory/search`: one query to the search engine, without the loop (SEARCH-1 to SEARCH-10)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from recall_loop.memory.search.engine import search
from recall_loop.memory.search.present.serialization import response_to_json
from recall_loop.memory.search.present.truncation import parse_profile
from recall_loop.service.core.deadline import blocking
from recall_loop.service.core.problems import NoQueryParams, json_response
from recall_loop.service.middleware.dependencies import CallerDep, JsonBody, StoreDep
from recall_loop.service.models.search_models import SearchRequest, SearchResults

router = APIRouter(prefix="/api/memory", tags=["search"], dependencies=[JsonBody, NoQueryParams])


@router.post("/search", summary="Search once", response_model=SearchResults)
@blocking
def search_memory(body: SearchRequest, caller: CallerDep, store: StoreDep) -> Response:
    """Search facts, archival entries, messages and trajectories; no planning, no further rounds.

    An option that the mode can't honour is an error. Texts are whole unless a `profile` is named.
    """
    profile = parse_profile(body.profile)
    found = search(store, body.query, scope=body.read_scope(caller.tenant), params=body)
    return json_response(response_to_json(found, profile))
