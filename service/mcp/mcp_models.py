"""Arguments and results of the MCP server's tools (OPS-6).

A tool never takes a tenant, nor an agent, a user or a conversation to read as: the operator sets those.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from recall_loop.service.models.record_models import DERIVED_KIND
from recall_loop.service.models.search_models import QueryText, ServiceSearchParams
from recall_loop.state.language_codes import QUERY_LANGUAGE, RECORD_LANGUAGE, LanguageCode
from recall_loop.state.records.records import AnyRecord, JsonAttributes
from recall_loop.state.request import ChatMessage
from recall_loop.state.scope import Filters, RetentionRule
from recall_loop.state.search import DEFAULT_TRAJECTORY_LIMIT, TrajectorySearchParams
from recall_loop.state.types import (
    BodyText,
    ContentType,
    ContentTypes,
    FuzzyLevel,
    Identifier,
    Integer,
    MaxFacts,
    MaxIterations,
    Role,
    Timestamp,
    UnitFloat,
    Utf8Text,
)

MAX_HITS = 100
MAX_ADDED = 100
MAX_ERASED = 1000


class _ToolArguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RetrieveArguments(_ToolArguments):
    """A question, and the limits of the search for its answer."""

    question: QueryText = Field(description="What you want to know, as a whole sentence.")
    messages: tuple[ChatMessage, ...] = Field(
        (), max_length=100, description="The conversation before the question, oldest first; it resolves pronouns."
    )
    goal: QueryText | None = Field(None, description="What you want to achieve with the answer.")
    filters: Filters = Field(Filters(), description="Conditions that memories must meet.")
    content_types: ContentTypes | None = Field(
        None, description="Kinds of memories to search; absent = all but past runs, or as the filters require."
    )
    fuzzy: FuzzyLevel = 0
    language: LanguageCode | None = Field(None, description=QUERY_LANGUAGE)
    max_facts: MaxFacts | None = Field(None, description="Maximum facts to return.")
    max_iterations: MaxIterations | None = Field(None, description="Maximum rounds of searching.")
    reference_time: Timestamp | None = Field(None, description="Current time, for words such as `last week`.")
    write_answer: bool = Field(False, description="Let the memory's own chat model write an answer, if one is set.")


class SearchArguments(ServiceSearchParams):
    """One search."""

    query: QueryText = Field(description="What to look for; may end in a time, such as `< 3 days`.")
    limit: Integer = Field(
        10, ge=1, le=MAX_HITS, description="Maximum results, 1 to 100; per content type with `limit_per_type`."
    )
    profile: str | None = Field(
        None,
        max_length=200,
        description="How much of each text: `full`, `local`, `constellation`, `messages`, or steps such as "
        "`2:full,5:1000,400`; absent = by scope and types. Shortened texts are marked.",
    )


class SearchTrajectoriesArguments(TrajectorySearchParams):
    """A search of past runs."""

    query: QueryText = Field(description="What the runs should be about; may end in a time, such as `< 3 days`.")
    limit: Integer = Field(
        DEFAULT_TRAJECTORY_LIMIT, ge=1, le=MAX_HITS, description="Maximum runs, 1 to 100; per tier with contrasts."
    )


class NewRecord(_ToolArguments):
    """A memory to store."""

    kind: ContentType | None = Field(None, description=DERIVED_KIND)
    text: BodyText = Field(description="The memory itself, understandable without its context.")
    id: Identifier | None = Field(None, description="A new id; generated if absent.")
    subject: Utf8Text | None = Field(None, description="Who or what a fact is about.")
    fact_type: Utf8Text | None = Field(None, description="Kind of fact, such as works_at.")
    object: Utf8Text | None = Field(None, description="The fact's value, such as the employer's name.")
    label: Utf8Text | None = Field(None, description="Title of an archival entry.")
    author: Utf8Text | None = Field(None, description="Name of the writer or speaker.")
    role: Role | None = None
    confidence: UnitFloat | None = Field(None, description="How sure you are, 0 to 1.")
    tags: tuple[Identifier, ...] = Field((), max_length=100)
    language: LanguageCode | None = Field(None, description=RECORD_LANGUAGE)
    source_ids: tuple[Identifier, ...] = Field((), max_length=100, description="Ids of memories it was drawn from.")
    attributes: JsonAttributes = Field(
        default_factory=dict,
        description="Anything else, as JSON. For a past run (kind trajectory), how it ended and what it used: "
        '{"execution": {"status": "failed"}, "metadata": {"tools_used": ["bash"]}}.',
    )
    agent_id: Identifier | None = Field(None, description="Agent it belongs to; the operator may have fixed this.")
    agent_name: Utf8Text | None = None
    user_id: Identifier | None = Field(None, description="User it belongs to; the operator may have fixed this.")
    conversation_id: Identifier | None = Field(None, description="Conversation; the operator may have fixed this.")
    session: Identifier | None = None
    created_at: Timestamp | None = Field(None, description="When it was said or happened.")


class AddArguments(_ToolArguments):
    """Memories to store: a text, messages, records, or all of them."""

    text: BodyText | None = Field(None, description="What the user said or wants to be remembered.")
    messages: tuple[ChatMessage, ...] = Field(
        (), max_length=MAX_ADDED, description="Turns of a conversation worth keeping, oldest first."
    )
    records: tuple[NewRecord, ...] = Field(
        (), max_length=MAX_ADDED, description="Single statements, each understandable without the others."
    )
    language: LanguageCode | None = Field(
        None, description="Language of items that state none (ISO 639-1); absent = detected from each text."
    )


class AddResult(BaseModel):
    """Ids of the added memories, in order; they survive a crash of the process."""

    ids: list[str]
    warnings: list[str] = Field(
        [], description="Differences between the stored and the given memories, such as a time left out."
    )


class ListArguments(_ToolArguments):
    """A page of memories, newest first."""

    filters: Filters = Field(Filters(), description="Conditions that memories must meet.")
    content_types: ContentTypes | None = Field(None, description="Kinds of memories; absent = all.")
    limit: Integer = Field(20, ge=1, le=MAX_HITS, description="Maximum memories of the page, 1 to 100.")
    cursor: Utf8Text | None = Field(None, description="`next_cursor` of the previous page.")


class RecordChanges(TypedDict, total=False):
    """New values, at least one: other fields stay, null empties a field."""

    text: Annotated[BodyText, Field(description="The memory itself; it can't be emptied.")]
    subject: Utf8Text | None
    fact_type: Utf8Text | None
    object: Utf8Text | None
    label: Utf8Text | None
    author: Utf8Text | None
    confidence: UnitFloat | None
    tags: Annotated[tuple[Identifier, ...] | None, Field(max_length=100)]
    language: LanguageCode | None
    attributes: JsonAttributes | None
    created_at: Timestamp | None
    valid_until: Annotated[Timestamp | None, Field(description="When a fact stopped being true.")]
    expires_at: Annotated[Timestamp | None, Field(description="When it is to be forgotten.")]


RecordChanges.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]


class UpdateArguments(_ToolArguments):
    """A memory, and what changes about it."""

    id: Identifier = Field(description="Of the memory.")
    changes: RecordChanges


class HistoryArguments(_ToolArguments):
    """A memory."""

    id: Identifier = Field(description="Of the memory.")


class UpdateResult(BaseModel):
    """The memory as it is now."""

    record: AnyRecord


class EraseArguments(_ToolArguments):
    """The target of an erasure: records by id, or all of one conversation, user or agent."""

    ids: tuple[Identifier, ...] | None = Field(None, min_length=1, max_length=MAX_ERASED, description="Ids of records.")
    conversation_id: Identifier | None = Field(None, description="Everything of this conversation.")
    user_id: Identifier | None = Field(None, description="Everything of this user.")
    agent_id: Identifier | None = Field(None, description="Everything of this agent.")


class EraseResult(BaseModel):
    """The outcome of an erasure."""

    erased: int = Field(description="Number of erased records.")
    missing: list[str] = Field(description="Ids without an accessible record.")


class ForgetArguments(_ToolArguments):
    """The memories to forget: filters, types or a rule, all of which must hold."""

    filters: Filters | None = Field(
        None, description="As for a search; superseded facts are included unless this excludes them."
    )
    content_types: ContentTypes | None = Field(None, description="Kinds of memories; absent = all.")
    rule: RetentionRule | None = Field(None, description="Kinds, roles, speech acts and age.")
    dry_run: bool = Field(False, description="Only count the memories.")


class ToolErrorDetail(BaseModel):
    """Why a call failed: `structuredContent.error` of a result that is an error."""

    type: str = Field(description="Kind of error.")
    message: str
    field: str | None = Field(None, description="Dotted name of the invalid argument.")
    value: str | None = Field(None, description="Its value, as given, shortened.")
    allowed: str | None = Field(None, description="What would have been accepted.")
