"""`POST /api/memory/forget`: records that filters or a rule name, counted first if so wished (LIVE-7)."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import ConfigDict, Field
from starlette.responses import Response

from recall_loop.service.core.deadline import blocking
from recall_loop.service.core.problems import CheckedQueryParams, json_response
from recall_loop.service.middleware.dependencies import AdminDep, JsonBody, StoreDep
from recall_loop.service.middleware.json_bodies import UniqueKeysRoute
from recall_loop.service.models.record_models import ForgetResult
from recall_loop.service.models.search_models import ScopeFields
from recall_loop.state.scope import Filters, RetentionRule
from recall_loop.state.types import ContentTypes

router = APIRouter(
    prefix="/api/memory", tags=["erasure"], dependencies=[JsonBody, CheckedQueryParams], route_class=UniqueKeysRoute
)


class ForgetRequest(ScopeFields):
    """Which records of the tenant are forgotten: all that is given must hold, and filters, types or a rule must be."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"rule": {"speech_acts": ["acknowledgement"], "older_than_days": 7}, "dry_run": True}]
        }
    )

    filters: Filters | None = Field(None, description="As of a search; superseded facts go too unless this says no.")
    content_types: ContentTypes | None = Field(None, description="Kinds of records; absent = all.")
    rule: RetentionRule | None = Field(None, description="Kinds, roles, speech acts and age.")
    dry_run: bool = Field(False, description="Count what would go, and delete nothing.")


@router.post("/forget", summary="Forget records by filters or a rule", response_model=ForgetResult)
@blocking
def forget(body: ForgetRequest, caller: AdminDep, store: StoreDep) -> Response:
    """Delete the records that filters, content types and a rule name, with their versions, or count them.

    Needs the role `admin`. Repeating it is safe. Their bytes leave the disk with the next compaction.
    """
    report = store.forget(
        body.read_scope(caller.tenant),
        filters=body.filters,
        rule=body.rule,
        content_types=body.content_types,
        dry_run=body.dry_run,
    )
    return json_response(ForgetResult(records=report.records, by_kind=dict(report.by_kind), dry_run=report.dry_run))
