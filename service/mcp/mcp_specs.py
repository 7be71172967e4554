"""The tools of the MCP server as the protocol shows them (OPS-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel

from recall_loop.service.access.api_keys import KeyRole
from recall_loop.service.mcp import mcp_erasure, mcp_tools
from recall_loop.service.mcp.mcp_models import (
    AddArguments,
    AddResult,
    EraseArguments,
    EraseResult,
    ForgetArguments,
    HistoryArguments,
    ListArguments,
    RetrieveArguments,
    SearchArguments,
    SearchTrajectoriesArguments,
    UpdateArguments,
    UpdateResult,
)
from recall_loop.service.mcp.mcp_recall import RecallResult
from recall_loop.service.mcp.mcp_schemas import ToolSchema
from recall_loop.service.mcp.mcp_tools import ReportProgress, ToolContext, ToolResult
from recall_loop.service.models.record_models import ForgetResult, RecordHistory, RecordsPage
from recall_loop.service.models.search_models import SearchResults
from recall_loop.service.models.trajectory_models import TrajectoryResults


@dataclass(frozen=True)
class ToolSpec:
    """One tool: its arguments and result, the required role, and its function."""

    name: str
    title: str
    description: str
    input_model: type[BaseModel]
    output_model: type[BaseModel]
    run: Callable[[ToolContext, Any, ReportProgress], ToolResult]
    role: KeyRole = KeyRole.READ
    destructive: bool = False

    @cached_property
    def tool(self) -> Tool:
        """The tool as the protocol shows it."""
        reads = self.role is KeyRole.READ
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_model.model_json_schema(schema_generator=ToolSchema),
            output_schema=self.output_model.model_json_schema(schema_generator=ToolSchema, mode="serialization"),
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=reads,
                destructive_hint=None if reads else self.destructive,
                idempotent_hint=None if reads else self.destructive,
                open_world_hint=False,
            ),
        )


TOOL_SPECS = {
    spec.name: spec
    for spec in (
        ToolSpec(
            "retrieve",
            "Ask the memory",
            "Search the memory until there is enough evidence for a question. Returns ranked facts with their "
            "sources, as text with citations, the confidence in the result, and why the search stopped.",
            RetrieveArguments,
            RecallResult,
            mcp_tools.call_retrieve,
        ),
        ToolSpec(
            "search",
            "Search the memory once",
            "Search once, by words and meaning. Returns records, best first, with their similarity to the query, 0 "
            "to 1: there are always some, however dissimilar.",
            SearchArguments,
            SearchResults,
            mcp_tools.call_search,
        ),
        ToolSpec(
            "search_trajectories",
            "Search past runs",
            "Search past runs of agents for experience with a similar task. How a run ended and how much can be "
            "learned from it are separate: a failed run may teach a lot. `errors` lists what went wrong and the "
            "call that followed; search with the text of an error to find how it was solved.",
            SearchTrajectoriesArguments,
            TrajectoryResults,
            mcp_tools.call_search_trajectories,
        ),
        ToolSpec(
            "list",
            "List memories",
            "List memories, newest first, a page at a time. Long ones are cut; `search` with the profile `full` "
            "shows them in full.",
            ListArguments,
            RecordsPage,
            mcp_tools.call_list,
        ),
        ToolSpec(
            "history",
            "Read a memory's history",
            "Show the changes of a memory: when, by whom, before and after.",
            HistoryArguments,
            RecordHistory,
            mcp_tools.call_history,
        ),
        ToolSpec(
            "update",
            "Change a memory",
            "Correct some fields of a memory, such as its text. The old version stays in its history. If the world has "
            "changed, add a new record instead.",
            UpdateArguments,
            UpdateResult,
            mcp_tools.call_update,
            role=KeyRole.WRITE,
            destructive=True,
        ),
        ToolSpec(
            "add",
            "Store memories",
            "Store memories: a text, messages of a conversation, or up to 100 records. If one is invalid, none is "
            "stored. Existing memories are never replaced.",
            AddArguments,
            AddResult,
            mcp_tools.call_add,
            role=KeyRole.WRITE,
        ),
        ToolSpec(
            "erase",
            "Erase memories",
            "Erase memories permanently: by id, or all of one conversation, user or agent. This can't be undone.",
            EraseArguments,
            EraseResult,
            mcp_erasure.call_erase,
            role=KeyRole.WRITE,
            destructive=True,
        ),
        ToolSpec(
            "forget",
            "Forget memories by a rule",
            "Erase all memories that filters or a rule select, by kind, role, speech act or age. Count them first with "
            "dry_run. This can't be undone.",
            ForgetArguments,
            ForgetResult,
            mcp_erasure.call_forget,
            role=KeyRole.ADMIN,
            destructive=True,
        ),
    )
}
