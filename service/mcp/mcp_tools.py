"""The tools of the MCP server: retrieve, search, search_trajectories, add, erase (OPS-6).

Each runs in a thread, on a desk that says whose memory it is and what may be done with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from recall_loop.graph.run import stream_retrieve
from recall_loop.memory.search.engine import search
from recall_loop.memory.search.present.serialization import response_to_json
from recall_loop.memory.search.present.truncation import FULL_PROFILE
from recall_loop.memory.store.sqlite.prepared_records import validate_and_prepare
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.service.mcp.mcp_models import (
    AddArguments,
    AddResult,
    EraseArguments,
    EraseResult,
    NewRecord,
    RetrieveArguments,
    SearchArguments,
    SearchTrajectoriesArguments,
)
from recall_loop.service.middleware.dependencies import Caller, KeyRole
from recall_loop.service.models.search_models import SearchResults
from recall_loop.service.models.trajectory_models import TrajectoryResults
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.scope import Scope
from recall_loop.state.types import ScopeMode

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings.settings import Settings

# Progress so far, its end if it is known, and what happened; never a user's words.
ReportProgress = Callable[[float, float | None, str], None]
_OWNER_FIELDS = ("conversation_id", "user_id", "agent_id")


def _ignore_result(_: RetrieveRequest, __: RetrieveResult) -> None:
    pass


@dataclass(frozen=True)
class ToolContext:
    """Whose memory a call works with, and what it may do.

    Attributes:
        scope: what may be read, settled by the operator or the key. Writing and erasing reach what belongs to the
            very agent, user and conversation that it names.
        caller: whose role says what may be done: read; also add, and erase by id; also erase all of a conversation,
            user or agent.
        note: told each finished retrieval.
    """

    store: MemoryStore
    settings: Settings
    scope: Scope
    caller: Caller
    llm: BaseChatModel | None = None
    on_result: Callable[[RetrieveRequest, RetrieveResult], None] = _ignore_result

    @property
    def write_scope(self) -> Scope:
        """What may be written and erased."""
        return self.scope.model_copy(update={"mode": ScopeMode.LOCAL})


@dataclass(frozen=True)
class ToolResult:
    """What a tool gives: text for the model, data for the application."""

    text: str
    data: BaseModel


def call_retrieve(desk: ToolContext, asked: RetrieveArguments, tell: ReportProgress) -> ToolResult:
    """Run the loop, and tell every iteration."""
    given = asked.model_dump(exclude_unset=True, exclude={"question", "messages"})
    messages = [*asked.messages, {"role": "user", "content": asked.question}]
    # A calling model writes its own answers: the memory's model is asked for one only where it says so.
    fields = {**given, **_scope_fields(desk.scope), "messages": messages, "write_answer": asked.write_answer}
    request = validate_model(RetrieveRequest, fields)
    most = float(request.max_iterations or desk.settings.max_iterations)
    for step in stream_retrieve(request, store=desk.store, settings=desk.settings, llm=desk.llm):
        if isinstance(step, RetrieveResult):
            desk.on_result(request, step)
            return ToolResult(_result_text(step), step)
        if step["type"] == "novelty":
            found = f"{step['new_facts']} new, {step['unique_facts']} in all, coverage {step['coverage']:.2f}"
            tell(step["iteration"], most, f"iteration {step['iteration']}: {found}")
    raise RuntimeError("the run ended without a result")


def _scope_fields(scope: Scope) -> dict[str, Any]:
    """Return the fields of a request that say whose memory is read."""
    named = {name: getattr(scope, name) for name in _OWNER_FIELDS if getattr(scope, name) is not None}
    return {"tenant": scope.tenant, "scope": scope.mode, **named}


def _result_text(result: RetrieveResult) -> str:
    parts = [result.answer, result.context or f"No memories were found ({result.stop.reason.value})."]
    if result.degraded:
        parts.append("The memory works with less than everything: " + "; ".join(result.warnings))
    return "\n\n".join(part for part in parts if part)


def call_search(desk: ToolContext, asked: SearchArguments, _: ReportProgress) -> ToolResult:
    """Search once."""
    found = search(desk.store, asked.query, scope=desk.scope, params=asked)
    results = SearchResults.model_validate(response_to_json(found, FULL_PROFILE))
    lines = [f"{hit.rank}. [{hit.content_type.value} {hit.id}] {_hit_prefix(hit)}{hit.content}" for hit in results.hits]
    missing = f"Nothing found among {results.allowed} records."
    notes = [results.degraded_reason] if results.degraded_reason else []
    return ToolResult("\n".join([*(lines or [missing]), *notes]), results)


def _hit_prefix(hit: Any) -> str:
    said = ", ".join(filter(None, [hit.author, hit.created_at.date().isoformat() if hit.created_at else None]))
    return f"({said}) " if said else ""


def call_search_trajectories(desk: ToolContext, asked: SearchTrajectoriesArguments, _: ReportProgress) -> ToolResult:
    """Search past runs."""
    found = search_trajectories(desk.store, asked.query, scope=desk.scope, params=asked)
    results = TrajectoryResults.of(found)
    return ToolResult(results.model_dump_json(exclude_none=True), results)


def call_add(desk: ToolContext, asked: AddArguments, _: ReportProgress) -> ToolResult:
    """Add records. What is there is never replaced, whoever it belongs to."""
    records = [_with_owner(desk.write_scope, record, at) for at, record in enumerate(asked.records)]
    ids = [record["id"] for record in records]
    _check_new(desk, ids)
    for at, record in enumerate(records):  # all or nothing
        validate_and_prepare(desk.scope.tenant, record, at)
    desk.store.upsert(records, tenant=desk.scope.tenant)
    return ToolResult(f"Added {len(ids)}: {', '.join(ids)}", AddResult(ids=ids))


def _with_owner(own: Scope, record: NewRecord, at: int) -> dict[str, Any]:
    """Return a record that belongs to whom the operator has named."""
    fields = record.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    fields = {"kind": record.kind.value, "id": uuid.uuid4().hex} | fields
    for name in _OWNER_FIELDS:
        settled = getattr(own, name)
        if settled is not None and fields.setdefault(name, settled) != settled:
            raise InvalidInputError(f"records.{at}.{name}", fields[name], f"{settled}, or leave it out")
    return fields


def _check_new(desk: ToolContext, ids: Sequence[str]) -> None:
    taken = {record.id for record in desk.store.get(ids, scope=Scope(tenant=desk.scope.tenant))}
    for at, record_id in enumerate(ids):
        if record_id in taken or record_id in ids[:at]:
            raise InvalidInputError(f"records.{at}.id", record_id, "an id that no record has yet; or leave it out")


def call_erase(desk: ToolContext, asked: EraseArguments, _: ReportProgress) -> ToolResult:
    """Erase records by id, or all of a conversation, a user or an agent; never more than is in reach."""
    named = {name: getattr(asked, name) for name in _OWNER_FIELDS if getattr(asked, name) is not None}
    if asked.ids is not None:
        if named:
            raise InvalidInputError("ids", list(asked.ids), "ids alone, or conversation_id, user_id or agent_id")
        return _erase_ids(desk, list(dict.fromkeys(asked.ids)))
    if not named:
        raise InvalidInputError("arguments", {}, "one of ids, conversation_id, user_id, agent_id")
    if not desk.caller.has_role(KeyRole.ADMIN):
        field = next(iter(named))
        raise InvalidInputError(
            field, named[field], "nothing: erasing all of it needs the role admin; ids may be given"
        )
    scope = desk.write_scope
    for name, value in named.items():
        settled = getattr(scope, name)
        if settled not in (None, value):
            raise InvalidInputError(name, value, f"{settled}: the operator has settled it")
    erased = desk.store.erase(scope.model_copy(update=named))
    return ToolResult(f"Erased {erased} records.", EraseResult(erased=erased, missing=[]))


def _erase_ids(desk: ToolContext, ids: list[str]) -> ToolResult:
    reached = {record.id for record in desk.store.get(ids, scope=desk.write_scope)}
    erased = desk.store.delete([name for name in ids if name in reached], tenant=desk.scope.tenant)
    missing = [name for name in ids if name not in reached]
    words = f"; not found: {', '.join(missing)}" if missing else ""
    return ToolResult(f"Erased {erased} records{words}.", EraseResult(erased=erased, missing=missing))
