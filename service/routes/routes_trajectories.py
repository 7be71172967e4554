"""Past runs over HTTP: added, read, listed, deleted and scored, always of the key's own tenant (TRAJ-1, -2, -3)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Path, Query
from starlette.responses import Response

from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.runs_file import record_from_run
from recall_loop.memory.trajectories.scoring.outcome_scoring import make_scorer
from recall_loop.memory.trajectories.scoring.pending_scores import add_trajectories, rescore_record, score_pending
from recall_loop.service.access.callers import Caller
from recall_loop.service.core.deadline import blocking
from recall_loop.service.core.id_paths import ID_CONVERTOR
from recall_loop.service.core.problems import (
    ProblemError,
    json_response,
    not_found_problem,
    problem_responses,
)
from recall_loop.service.middleware.dependencies import CallerDep, ServiceDep, StoreDep, WriterDep
from recall_loop.service.middleware.json_bodies import json_router
from recall_loop.service.models.search_models import ListParams, encode_cursor
from recall_loop.service.models.trajectory_models import (
    AddTrajectoryParams,
    ScoringParams,
    ScoringRequest,
    ScoringSummary,
    StoredTrajectory,
    TrajectoriesPage,
    TrajectorySummary,
    TrajectoryWriteResult,
    labels_of,
)
from recall_loop.service.process.lifecycle import Service
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.scope import Scope
from recall_loop.state.types import ContentType, Identifier

router = json_router("/api/trajectories", "trajectories")
RunId = Annotated[Identifier, Path(description="The run's id, percent-encoded.", examples=["r-1"])]
_ONE = f"/{{run_id:{ID_CONVERTOR}}}"
_EXAMPLES: dict[str, Any] = {
    "messages": {
        "summary": "The messages of a run, as chat APIs have them",
        "value": {
            "id": "r-1",
            "agent_id": "a-1",
            "messages": [
                {"role": "user", "content": "Book the ferry to Saaremaa for Friday."},
                {"role": "assistant", "tool_calls": [{"id": "1", "name": "book", "arguments": {"to": "Saaremaa"}}]},
                {"role": "tool", "tool_call_id": "1", "content": "Booked, nine o'clock."},
                {"role": "assistant", "content": "Done: the ferry at nine."},
            ],
        },
    },
    "trajectory": {
        "summary": "A trajectory, as it is read back",
        "value": {
            "id": "r-1",
            "text": "Book the ferry.",
            "attributes": {"task": "Book the ferry.", "execution": {"status": "failed"}, "outcome_score": 0.8},
        },
    },
}
RunBody = Annotated[
    dict[str, Any],
    Body(
        description="A finished run: an object with `messages` (LangGraph's or OpenAI's) or `states` (a checkpoint "
        "history's values, oldest first) and whatever else is known of it; or a trajectory as it is read back. "
        "Secrets are masked before anything is stored.",
        openapi_examples=_EXAMPLES,
    ),
]
_CREATED: dict[int | str, dict[str, Any]] = {
    201: {"model": TrajectoryWriteResult, "description": "There was none with this id."}
}


@router.post("", summary="Add a finished run", response_model=TrajectoryWriteResult, responses=_CREATED)
@blocking
def add_trajectory(
    run: RunBody,
    params: Annotated[AddTrajectoryParams, Query()],
    caller: WriterDep,
    store: StoreDep,
    service: ServiceDep,
) -> Response:
    """Add a run under its own id, or under one derived from its contents.

    The same run again is `unchanged`, and isn't scored again. A scoring that fails leaves it unscored and queued.
    """
    return _add(store, caller, service, run, params.score)


@router.put(_ONE, summary="Write a run", response_model=TrajectoryWriteResult, responses=_CREATED)
@blocking
def write_trajectory(
    run_id: RunId,
    run: RunBody,
    params: Annotated[AddTrajectoryParams, Query()],
    caller: WriterDep,
    store: StoreDep,
    service: ServiceDep,
) -> Response:
    """Write a run under an id, replacing all of what is there."""
    if run.get("id", run_id) != run_id:
        raise InvalidInputError("id", run["id"], "the id of the address, or none")
    return _add(store, caller, service, {**run, "id": run_id}, params.score)


def _add(store: MemoryStore, caller: Caller, service: Service, run: dict[str, Any], score: str) -> Response:
    if "tenant" in run:
        raise InvalidInputError("tenant", run["tenant"], "nothing: the key alone says whose it is")
    scorer = None if score == "later" else make_scorer("score", score, service.settings, service.llm)
    records = [record_from_run(run)]
    added = add_trajectories(store, records, tenant=caller.tenant, scorer=scorer, actor=caller.key_id)[0]
    if added.status == "rejected":
        raise ProblemError(422, (added.error or "").removeprefix("records.0."), kind="invalid_input")
    found = run_from_record(added.record)
    written = TrajectoryWriteResult(
        id=added.record.id, status=added.status, outcome_score=found.outcome_score, **labels_of(found)
    )
    return json_response(written, 201 if added.status == "created" else 200)


@router.get("", summary="List runs", response_model=TrajectoriesPage)
@blocking
def list_trajectories(params: Annotated[ListParams, Query()], caller: CallerDep, store: StoreDep) -> Response:
    """Return runs that scope and filters leave, without their turns, by ascending id, a page at a time.

    Follow `next_cursor` until it is absent; a page may hold fewer runs than `limit`.
    """
    kinds = (ContentType.TRAJECTORY,)
    page = store.page(params.read_scope(caller.tenant), params.filters(), kinds, after=params.after, limit=params.limit)
    runs = [TrajectorySummary.from_record(record) for record in page.records]
    return json_response(TrajectoriesPage(trajectories=runs, next_cursor=encode_cursor(page.after)))


@router.post("/score", summary="Score runs that have no learning value", response_model=ScoringSummary)
@blocking
def score_trajectories(body: ScoringRequest, caller: WriterDep, store: StoreDep, service: ServiceDep) -> Response:
    """Try up to `limit` runs, each once. Where the model can't be reached, the rest of the queue stays as it is."""
    report = score_pending(
        store,
        make_scorer("scorer", body.scorer, service.settings, service.llm),
        scope=body.read_scope(caller.tenant),
        queued_only=body.queued_only,
        limit=body.limit,
        actor=caller.key_id,
    )
    return json_response(ScoringSummary(scored=report.scored, failed=report.failed, errors=report.errors))


@router.post(
    _ONE + "/score", summary="Score a run", response_model=TrajectoryWriteResult, responses=problem_responses(404, 409)
)
@blocking
def score_trajectory(
    run_id: RunId, params: Annotated[ScoringParams, Query()], caller: WriterDep, store: StoreDep, service: ServiceDep
) -> Response:
    """Judge what can be learned from a run, also where it has a learning value already.

    A scoring that fails makes up no number: a run without one stays queued, one that has one keeps it (502).
    """
    scorer = make_scorer("scorer", params.scorer, service.settings, service.llm)
    report = rescore_record(
        store, _get_trajectory(store, caller.tenant, run_id), scorer, tenant=caller.tenant, actor=caller.key_id
    )
    if report is None:
        raise ProblemError(409, "The run was changed while it was scored, and is left as it is.")
    if report.failed:
        raise ProblemError(502, f"The run could not be scored: {report.errors[run_id]}", kind="scoring_failed")
    run = run_from_record(_get_trajectory(store, caller.tenant, run_id))
    return json_response(
        TrajectoryWriteResult(id=run_id, status="replaced", outcome_score=run.outcome_score, **labels_of(run))
    )


def _get_trajectory(store: MemoryStore, tenant: str, run_id: str) -> Record:
    found = store.get([run_id], scope=Scope(tenant=tenant))
    if not found or found[0].kind is not ContentType.TRAJECTORY:
        raise not_found_problem("run", run_id)
    return found[0]


@router.get(_ONE, summary="Read a run", response_model=StoredTrajectory, responses=problem_responses(404))
@blocking
def read_trajectory(run_id: RunId, caller: CallerDep, store: StoreDep) -> Response:
    """Return a run with its turns. What another tenant has under the id can't be told from what nobody has."""
    return json_response(StoredTrajectory.from_record(_get_trajectory(store, caller.tenant, run_id)))


@router.delete(_ONE, status_code=204, response_class=Response, summary="Delete a run", responses=problem_responses(404))
@blocking
def delete_trajectory(run_id: RunId, caller: WriterDep, store: StoreDep) -> Response:
    """Delete a run by id."""
    _get_trajectory(store, caller.tenant, run_id)
    store.delete([run_id], tenant=caller.tenant)
    return Response(status_code=204)
