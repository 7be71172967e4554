"""The tools of the MCP server that write and erase memories (OPS-6, LIVE-7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from recall_loop.memory.intake.conversations.additions import add_records, addition_owner
from recall_loop.memory.store.encoding.derivation import derive_id
from recall_loop.service.access.api_keys import KeyRole
from recall_loop.service.mcp.mcp_models import (
    AddArguments,
    AddResult,
    EraseArguments,
    EraseResult,
    ForgetArguments,
    NewRecord,
    UpdateArguments,
    UpdateResult,
)
from recall_loop.service.mcp.mcp_tools import (
    ReportProgress,
    ToolContext,
    ToolResult,
    check_reach,
    given_owners,
    record_line,
)
from recall_loop.service.models.record_models import ForgetResult, construct_record
from recall_loop.state.display import format_count
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import AnyRecord, Record
from recall_loop.state.scope import Scope
from recall_loop.state.types import Role


def call_add(context: ToolContext, arguments: AddArguments, _: ReportProgress) -> ToolResult[AddResult]:
    """Store memories: a text, messages of a conversation, or up to 100 records.

    If one is invalid, none is stored. Existing memories are never replaced.
    """
    scope = context.write_scope
    records = [_with_owner(scope, record, at) for at, record in enumerate(arguments.records)]
    _check_new(context, [record.id for record in records])
    content = [*([arguments.text] if arguments.text else []), *arguments.messages, *records]
    if not content:
        raise InvalidInputError("arguments", {}, "one of text, messages, records")
    owner = addition_owner({"tenant": scope.tenant, "language": arguments.language, **given_owners(scope)})
    added = add_records(context.store, content, owner, roles=tuple(Role), actor=context.caller.key_id)
    ids, warnings = list(added.ids), list(added.warnings)
    text = "\n".join([f"Added {len(ids)}: {', '.join(ids)}", *warnings])
    return ToolResult(text, AddResult(ids=ids, warnings=warnings))


def _with_owner(scope: Scope, record: NewRecord, at: int) -> Record:
    """Return a record with the owner that the operator has fixed."""
    owners = given_owners(scope)
    for name, settled in owners.items():
        if getattr(record, name) not in (None, settled):
            raise InvalidInputError(f"records.{at}.{name}", getattr(record, name), f"{settled}, or leave it out")
    return construct_record(record, id=record.id or derive_id(), **owners)


def _check_new(context: ToolContext, ids: Sequence[str]) -> None:
    taken = {record.id for record in context.store.get(ids, scope=Scope(tenant=context.scope.tenant))}
    for at, record_id in enumerate(ids):
        if record_id in taken or record_id in ids[:at]:
            raise InvalidInputError(f"records.{at}.id", record_id, "an id that no record has yet; or leave it out")


def call_update(context: ToolContext, arguments: UpdateArguments, _: ReportProgress) -> ToolResult[UpdateResult]:
    """Correct some fields of a memory, such as its text.

    The old version stays in its history. If the world has changed, add a new record instead.
    """
    check_reach(context.store, arguments.id, context.write_scope)
    actor = context.caller.key_id or "mcp"
    record = context.store.update(arguments.id, arguments.changes, tenant=context.scope.tenant, actor=actor)
    data = UpdateResult(record=cast("AnyRecord", record))
    return ToolResult(f"Changed: {record_line(record)}", data)


def call_erase(context: ToolContext, arguments: EraseArguments, _: ReportProgress) -> ToolResult[EraseResult]:
    """Erase memories permanently: by id, or all of one conversation, user or agent.

    This can't be undone.
    """
    named = given_owners(arguments)
    if arguments.ids is not None:
        if named:
            raise InvalidInputError("ids", list(arguments.ids), "ids alone, or conversation_id, user_id or agent_id")
        return _erase_ids(context, list(dict.fromkeys(arguments.ids)))
    if not named:
        raise InvalidInputError("arguments", {}, "one of ids, conversation_id, user_id, agent_id")
    if not context.caller.has_role(KeyRole.ADMIN):
        field = next(iter(named))
        raise InvalidInputError(
            field, named[field], "no value: erasing all of it needs the role admin; ids may be given"
        )
    scope = context.write_scope
    for name, value in named.items():
        settled = getattr(scope, name)
        if settled not in (None, value):
            raise InvalidInputError(name, value, f"{settled}: fixed by the operator")
    erased = context.store.erase(scope.model_copy(update=named))
    return ToolResult(f"Erased {format_count(erased, 'record')}.", EraseResult(erased=erased, missing=[]))


def _erase_ids(context: ToolContext, ids: list[str]) -> ToolResult[EraseResult]:
    store, scope = context.store, context.write_scope
    reached = {record.id for record in store.get(ids, scope=scope)} | set(store.expired_ids(scope))
    erased = store.delete([name for name in ids if name in reached], tenant=scope.tenant)
    missing = [name for name in ids if name not in reached]
    words = f"; not found: {', '.join(missing)}" if missing else ""
    return ToolResult(f"Erased {format_count(erased, 'record')}{words}.", EraseResult(erased=erased, missing=missing))


def call_forget(context: ToolContext, arguments: ForgetArguments, _: ReportProgress) -> ToolResult[ForgetResult]:
    """Erase all memories that filters or a rule select, by kind, role, speech act or age.

    Count them first with dry_run. This can't be undone.
    """
    report = context.store.forget(
        context.write_scope,
        filters=arguments.filters,
        rule=arguments.rule,
        content_types=arguments.content_types,
        dry_run=arguments.dry_run,
    )
    done = "Would forget" if report.dry_run else "Forgot"
    data = ForgetResult.model_validate(report, from_attributes=True)
    return ToolResult(f"{done} {format_count(data.records, 'record')}.", data)
