"""The tools of the MCP server that erase memories: by id, by owner, by filters or a rule (OPS-6, LIVE-7)."""

from __future__ import annotations

from recall_loop.service.access.api_keys import KeyRole
from recall_loop.service.mcp.mcp_models import EraseArguments, EraseResult, ForgetArguments
from recall_loop.service.mcp.mcp_tools import ReportProgress, ToolContext, ToolResult, given_owners
from recall_loop.service.models.record_models import ForgetResult
from recall_loop.state.display import format_count
from recall_loop.state.errors import InvalidInputError


def call_erase(context: ToolContext, arguments: EraseArguments, _: ReportProgress) -> ToolResult:
    """Erase records by id, or all of a conversation, a user or an agent; never more than is in reach."""
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


def _erase_ids(context: ToolContext, ids: list[str]) -> ToolResult:
    reached = {record.id for record in context.store.get(ids, scope=context.write_scope)}
    erased = context.store.delete([name for name in ids if name in reached], tenant=context.scope.tenant)
    missing = [name for name in ids if name not in reached]
    words = f"; not found: {', '.join(missing)}" if missing else ""
    return ToolResult(f"Erased {format_count(erased, 'record')}{words}.", EraseResult(erased=erased, missing=missing))


def call_forget(context: ToolContext, arguments: ForgetArguments, _: ReportProgress) -> ToolResult:
    """Forget, or count, what filters, kinds and a rule name; never more than is in reach."""
    report = context.store.forget(
        context.write_scope,
        filters=arguments.filters,
        rule=arguments.rule,
        content_types=arguments.content_types,
        dry_run=arguments.dry_run,
    )
    done = "Would forget" if report.dry_run else "Forgot"
    data = ForgetResult(records=report.records, by_kind=dict(report.by_kind), dry_run=report.dry_run)
    return ToolResult(f"{done} {format_count(report.records, 'record')}.", data)
