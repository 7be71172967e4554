"""The tools of the MCP server that read; those that write and erase are in `mcp_writes` (OPS-6).

Each runs in a thread, in a context that holds the memory and the permissions. Its docstring is what a model reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from recall_loop.memory.search.engine import search
from recall_loop.memory.search.present.result_display import parse_profile, profile_for, response_to_json
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.service.access.callers import Caller
from recall_loop.service.mcp.mcp_models import (
    EraseArguments,
    HistoryArguments,
    ListArguments,
    RetrieveArguments,
    SearchArguments,
    SearchTrajectoriesArguments,
)
from recall_loop.service.mcp.mcp_recall import RecallResult
from recall_loop.service.models.record_models import RecordHistory, RecordsPage
from recall_loop.service.models.search_models import SearchResults
from recall_loop.service.models.trajectory_models import TrajectoryResults
from recall_loop.state.display import NOT_SEARCHED_TEXT, format_count, truncate
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record, RecordVersion
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.run.events import ProgressEvent
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ScopeMode, StopReason

if TYPE_CHECKING:
    from recall_loop.llm.endpoint.wrapped_models import ChatModel

Data = TypeVar("Data", bound=BaseModel)


class ToolProgress(NamedTuple):
    """Progress so far, its end if that is known, and what happened; never a user's words."""

    done: float
    total: float | None
    message: str


ReportProgress = Callable[[ToolProgress], None]
_LINE_CHARS = 400
"""Maximum characters of a text in a list: a page of pasted logs would fill a model's context window."""
_OWNER_FIELDS = ("conversation_id", "user_id", "agent_id")


def given_owners(model: Scope | EraseArguments) -> dict[str, Any]:
    """Return the conversation, the user and the agent that a scope or the arguments of an erasure name."""
    return {name: value for name in _OWNER_FIELDS if (value := getattr(model, name)) is not None}


@dataclass(frozen=True)
class ToolContext:
    """The memory that a call works with, and its permissions.

    `scope` is what may be read, fixed by the operator or the key; writing and erasing reach what belongs to the very
    agent, user and conversation that it names. `caller` has the role that allows: read; also add, and erase by id; also
    erase all of a conversation, user or agent. `on_result` is called with each finished retrieval.
    """

    store: MemoryStore
    settings: Settings
    scope: Scope
    caller: Caller
    llm: ChatModel | str | None = None
    on_result: Callable[[RetrieveRequest, RetrieveResult], None] = lambda *_: None

    @property
    def write_scope(self) -> Scope:
        """The scope of writes and erasures."""
        return self.scope.model_copy(update={"mode": ScopeMode.LOCAL})


@dataclass(frozen=True)
class ToolResult(Generic[Data]):
    """A tool's answer: text for the model, data for the application."""

    text: str
    data: Data


def call_retrieve(
    context: ToolContext, arguments: RetrieveArguments, report: ReportProgress
) -> ToolResult[RecallResult]:
    """Search the memory until there is enough evidence for a question.

    Returns ranked facts with their sources, as text with citations, the confidence in the result, and why the
    search stopped.
    """
    from recall_loop.graph.run import follow, stream_retrieve  # adding and searching alone don't need LangGraph

    request = _retrieve_request(context.scope, arguments)
    most = float(request.max_iterations or context.settings.max_iterations)

    def note(event: ProgressEvent) -> None:
        if event["type"] == "novelty":
            found = f"{event['new_facts']} new, {event['unique_facts']} in all, coverage {event['coverage']:.2f}"
            report(ToolProgress(event["iteration"], most, f"iteration {event['iteration']}: {found}"))

    steps = stream_retrieve(request, store=context.store, settings=context.settings, llm=context.llm)
    result = follow(steps, note)
    context.on_result(request, result)
    return ToolResult(_result_text(result), RecallResult.of(result))


def _retrieve_request(scope: Scope, arguments: RetrieveArguments) -> RetrieveRequest:
    """Return the request, of fields that have been validated as arguments."""
    named = arguments.model_fields_set - {"question", "messages"}
    given = {name: value for name in named if (value := getattr(arguments, name)) is not None}
    # A calling model writes its own answers: the memory's model is only asked for one on request.
    given["write_answer"] = arguments.write_answer
    owners = given_owners(scope)
    messages = (*arguments.messages, ChatMessage(content=arguments.question))
    return RetrieveRequest.model_construct(**given, **owners, tenant=scope.tenant, scope=scope.mode, messages=messages)


def _result_text(result: RetrieveResult) -> str:
    failed = result.stop.reason is StopReason.TOOL_FAILURE
    missing = NOT_SEARCHED_TEXT if failed else f"No memories were found ({result.stop.reason.value})."
    parts = [result.answer, result.context or missing]
    if result.degraded:
        parts.append("Part of the memory is unavailable: " + "; ".join(result.warnings))
    return "\n\n".join(part for part in parts if part)


def call_search(context: ToolContext, arguments: SearchArguments, _: ReportProgress) -> ToolResult[SearchResults]:
    """Search once, by words and meaning.

    Returns records, best first, with their similarity to the query, 0 to 1: there are always some, however
    dissimilar.
    """
    named = parse_profile(arguments.profile) if arguments.profile else None
    found = search(context.store, arguments.query, scope=context.scope, params=arguments)
    profile = named or profile_for(found.scope, found.content_types)
    results = SearchResults.model_validate(response_to_json(found, profile))
    lines = [f"{hit.rank}. [{hit.content_type.value} {hit.id}] {_hit_prefix(hit)}{hit.content}" for hit in results.hits]
    missing = f"Nothing found among {format_count(results.allowed, 'record')}."
    notes = [results.degraded_reason] if results.degraded_reason else []
    return ToolResult("\n".join([*(lines or [missing]), *notes]), results)


def _hit_prefix(hit: Any) -> str:
    ended, similarity = getattr(hit, "valid_until", None), getattr(hit, "similarity", None)
    said = [hit.author, _date(hit.created_at), ended and f"true until {_date(ended)}"]
    if similarity is not None:  # a search returns its best results, however irrelevant
        said.append(f"similarity {similarity:.2f}")
    return f"({', '.join(filter(None, said))}) " if any(said) else ""


def _date(moment: Any) -> str | None:
    """Return the day of a time, or of its text in JSON."""
    return str(moment)[:10] if moment else None


def call_search_trajectories(
    context: ToolContext, arguments: SearchTrajectoriesArguments, _: ReportProgress
) -> ToolResult[TrajectoryResults]:
    """Search past runs of agents for experience with a similar task.

    How a run ended and how much can be learned from it are separate: a failed run may teach a lot. `errors` lists
    what went wrong and the call that followed; search with the text of an error to find how it was solved.
    """
    found = search_trajectories(context.store, arguments.query, scope=context.scope, params=arguments)
    notes = [found.degraded_reason] if found.degraded_reason else []
    text = json.dumps(found.to_display(), ensure_ascii=False)
    return ToolResult("\n".join([text, *notes]), TrajectoryResults.from_result(found))


def call_list(context: ToolContext, arguments: ListArguments, _: ReportProgress) -> ToolResult[RecordsPage]:
    """List memories, newest first, a page at a time.

    Long ones are cut; `search` with the profile `full` shows them in full.
    """
    filters = arguments.filters if arguments.filters.model_fields_set else None
    try:
        page = context.store.newest(
            context.scope, filters, arguments.content_types, after=arguments.cursor or "", limit=arguments.limit
        )
    except InvalidInputError as error:
        if error.field != "after":  # the store's name for it
            raise
        raise InvalidInputError("cursor", arguments.cursor, "`next_cursor` of the page before") from error
    lines = list(map(record_line, page))
    more = [f"There are more: cursor {page.after}"] if page.after else []
    data = RecordsPage.of(page, page.after)
    return ToolResult("\n".join([*(lines or ["No memories match."]), *more]), data)


def record_line(record: Record) -> str:
    """Return a memory with its kind, its id, who said it when, and the beginning of its text."""
    return f"[{record.kind.value} {record.id}] {_hit_prefix(record)}{truncate(record.text, _LINE_CHARS)}"


def call_history(context: ToolContext, arguments: HistoryArguments, _: ReportProgress) -> ToolResult[RecordHistory]:
    """Show the changes of a memory: when, by whom, before and after."""
    check_reach(context.store, arguments.id, context.scope)
    versions = context.store.history(arguments.id, scope=context.scope)
    lines = [f"{one.number}. {one.changed_at:%Y-%m-%d %H:%M} {one.action} {_differences(one)}" for one in versions]
    return ToolResult("\n".join(lines or ["It was never changed."]), RecordHistory(versions=versions))


def _differences(version: RecordVersion) -> str:
    """Return each field that has changed, with its values before and after."""
    before, after = (one.model_dump(mode="json", exclude={"updated_at"}) for one in (version.before, version.after))
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return "; ".join(f"{name}: {_shown(before.get(name))} -> {_shown(after.get(name))}" for name in names)


def _shown(value: Any) -> str:
    return truncate(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _LINE_CHARS)


def check_reach(store: MemoryStore, record_id: str, scope: Scope) -> None:
    """Raise `InvalidInputError` where a scope has no record of this id."""
    if not store.get([record_id], scope=scope):
        raise InvalidInputError("id", record_id, "the id of a memory in reach")
