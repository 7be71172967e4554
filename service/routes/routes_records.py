"""Records over HTTP (STORE-1, STORE-2): written, read, listed and deleted, always of the key's own tenant."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, get_args

from fastapi import Path, Query
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope as AsgiScope

from recall_loop.memory.store.tables.prepared_records import WriteStatus
from recall_loop.service.core.deadline import blocking
from recall_loop.service.core.id_paths import ID_CONVERTOR
from recall_loop.service.core.problems import (
    ProblemError,
    json_response,
    not_found_problem,
    problem_responses,
)
from recall_loop.service.middleware.dependencies import CallerDep, StoreDep, WriterDep
from recall_loop.service.middleware.json_bodies import UniqueKeysRoute, json_router
from recall_loop.service.models.record_models import (
    BatchResult,
    DeletionResult,
    ListRecordsParams,
    RecallFigures,
    RecordBatch,
    RecordBody,
    RecordChanges,
    RecordHistory,
    RecordIds,
    RecordsPage,
    RelatedRecords,
    WriteResult,
)
from recall_loop.state.errors import RecordNotFoundError
from recall_loop.state.records.records import AnyRecord
from recall_loop.state.scope import Scope
from recall_loop.state.types import Identifier

_PARTS = ("history", "relations")


class RecordRoute(UniqueKeysRoute):
    """A route of one record or of a part of it, which never takes an address of the other for its own.

    A literal slash before `history` begins a part, `%2F` belongs to an id.
    """

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        """Return whether the address is this route's, as routers ask."""
        match, found = super().matches(scope)
        raw = scope.get("raw_path")
        if match is Match.NONE or raw is None:
            return match, found
        is_part = self.path.endswith(_PARTS)
        nested = is_part or "/" in found["path_params"].get("record_id", "")
        names_part = nested and raw.decode("ascii", "replace").rpartition("/")[2] in _PARTS
        return (match, found) if is_part == names_part else (Match.NONE, {})


router = json_router("/api/memory/records", "records", route_class=RecordRoute)
RecordId = Annotated[Identifier, Path(description="The record's id, percent-encoded.", examples=["f-12"])]
_ONE = f"/{{record_id:{ID_CONVERTOR}}}"


@router.post("", summary="Write records", response_model=BatchResult)
@blocking
def write_records(batch: RecordBatch, caller: WriterDep, store: StoreDep) -> Response:
    """Write up to 1,000 records, replacing those with the same id as a whole, and report on each.

    A bad record rejects itself only. Of several with one id the last wins. The answer is the acknowledgement.
    """
    rows = store.upsert(batch.records, tenant=caller.tenant, actor=caller.key_id, on_reject="report")
    statuses = [row.status for row in rows]
    counts = {status: statuses.count(status) for status in get_args(WriteStatus)}
    return json_response(BatchResult.model_validate({**counts, "outcomes": rows}, from_attributes=True))


@router.get("", summary="List records", response_model=RecordsPage)
@blocking
def list_records(params: Annotated[ListRecordsParams, Query()], caller: CallerDep, store: StoreDep) -> Response:
    """Return records within scope and filters, by ascending id or newest first, a page at a time.

    Follow `next_cursor` until it is absent; a page may hold fewer records than `limit`. Writing and deleting in
    between shifts nothing.
    """
    read = store.newest if params.order == "newest" else store.page
    page = read(
        params.read_scope(caller.tenant), params.filters(), params.content_types, after=params.after, limit=params.limit
    )
    return json_response(RecordsPage.of(page.records, params.cursor_after(page.after)))


@router.delete("", summary="Delete records", response_model=DeletionResult)
@blocking
def delete_records(body: RecordIds, caller: WriterDep, store: StoreDep) -> Response:
    """Delete up to 1,000 records by id. Erasure of a user, agent, conversation or tenant: `/api/memory/erasure`."""
    ids = list(dict.fromkeys(body.ids))
    deleted = store.delete(ids, tenant=caller.tenant)
    return json_response(DeletionResult(deleted=deleted, missing=len(ids) - deleted))


@router.get(
    _ONE + "/history", summary="Read a record's history", response_model=RecordHistory, responses=problem_responses(404)
)
@blocking
def read_history(record_id: RecordId, caller: CallerDep, store: StoreDep) -> Response:
    """Return the changes of a record, oldest first, as far back as they are kept: who, when, before and after."""
    if not store.get([record_id], scope=Scope(tenant=caller.tenant)):
        raise not_found_problem("record", record_id)
    return json_response(RecordHistory(versions=store.history(record_id, tenant=caller.tenant)))


@router.get(
    _ONE + "/relations",
    summary="Read a record's relations",
    response_model=RelatedRecords,
    responses=problem_responses(404),
)
@blocking
def read_relations(record_id: RecordId, caller: CallerDep, store: StoreDep) -> Response:
    """Return a record's sources, the facts drawn from it, what it supersedes or is superseded by, and its recalls."""
    found = store.relations(record_id, scope=Scope(tenant=caller.tenant))
    if found is None:
        raise not_found_problem("record", record_id)
    related = {field.name: getattr(found, field.name) for field in fields(found)}
    recalled = RecallFigures.model_validate(store.recalls(record_id, scope=Scope(tenant=caller.tenant)))
    return json_response(RelatedRecords(**related, recalled=recalled), nulls=True)


@router.get(_ONE, summary="Read a record", response_model=AnyRecord, responses=problem_responses(404))
@blocking
def read_record(record_id: RecordId, caller: CallerDep, store: StoreDep) -> Response:
    """Return a record; a record of another tenant is indistinguishable from a missing one."""
    records = store.get([record_id], scope=Scope(tenant=caller.tenant))
    if not records:
        raise not_found_problem("record", record_id)
    return json_response(records[0])


@router.put(
    _ONE,
    summary="Write a record",
    response_model=WriteResult,
    responses={201: {"model": WriteResult, "description": "There was none with this id."}},
)
@blocking
def write_record(record_id: RecordId, body: RecordBody, caller: WriterDep, store: StoreDep) -> Response:
    """Write a record under an id, completely replacing an existing one. The answer is the acknowledgement."""
    record = body.to_record(record_id)
    outcome = store.upsert([record], tenant=caller.tenant, actor=caller.key_id, on_reject="report")[0]
    if outcome.status == "rejected":  # values that the model accepts but SQLite can't store
        raise ProblemError(422, (outcome.error or "").removeprefix("records.0."), kind="invalid_input")
    written = WriteResult(id=record_id, status=outcome.status, warning=outcome.warning)
    return json_response(written, 201 if outcome.status == "created" else 200)


@router.patch(_ONE, summary="Change a record", response_model=AnyRecord, responses=problem_responses(404))
@blocking
def update_record(record_id: RecordId, body: RecordChanges, caller: WriterDep, store: StoreDep) -> Response:
    """Change some fields of a record and return it: other fields stay, null empties a field.

    Lists and `attributes` are replaced as a whole. Id and kind can't change. What it was is kept in its history.
    """
    try:
        return json_response(store.update(record_id, body.root, tenant=caller.tenant, actor=caller.key_id))
    except RecordNotFoundError as error:
        raise not_found_problem("record", record_id) from error


@router.delete(
    _ONE, status_code=204, response_class=Response, summary="Delete a record", responses=problem_responses(404)
)
@blocking
def delete_record(record_id: RecordId, caller: WriterDep, store: StoreDep) -> Response:
    """Delete a record by id."""
    if not store.delete([record_id], tenant=caller.tenant):
        raise not_found_problem("record", record_id)
    return Response(status_code=204)
