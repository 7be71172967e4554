"""Arguments and results of the MCP server's tools (OPS-6).

A tool never takes a tenant, nor an agent, a user or a conversation to read as: those are the operator's to say.
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
    """A question, and the bounds of looking for its answer."""

    question: QueryText = Field(description="What you want to know, as a whole sentence.")
    messages: tuple[ChatMessage, ...] = Field(
        (), max_length=100, description="The conversation before the question, oldest first; it resolves pronouns."
    )
    goal: QueryText | None = Field(None, description="What you want to achieve with the answer.")
    filters: Filters = Field(Filters(), description="What memories must satisfy; every one that is given.")
    content_types: ContentTypes | None = Field(
        None, description="Kinds of memories to look through; absent = all but past runs, or as the filters ask."
    )
    fuzzy: FuzzyLevel = 0
    language: LanguageCode | None = Field(None, description=QUERY_LANGUAGE)
    max_facts: MaxFacts | None = Field(None, description="Maximum facts to return.")
    max_iterations: MaxIterations | None = Field(None, description="Maximum rounds of searching.")
    reference_time: Timestamp | None = Field(None, description="Now, for words such as `last week`.")
    write_answer: bool = Field(False, description="Have the memory's own chat model write an answer, where one is set.")


class SearchArguments(ServiceSearchParams):
    """One search."""

    query: QueryText = Field(description="What to look for; may end in a time, such as `< 3 days`.")
    limit: Integer = Field(
        10, ge=1, le=MAX_HITS, description="Maximum results, 1 to 100; of each content type where `limit_per_type`."
    )
    profile: str | None = Field(
        None,
        max_length=200,
        description="How much of each text: `full`, `local`, `constellation`, `messages`, or steps such as "
        "`2:full,5:1000,400`; absent = by what is searched. What is shortened says so.",
    )


class SearchTrajectoriesArguments(TrajectorySearchParams):
    """A search of past runs."""

    query: QueryText = Field(description="What the runs should be about; may end in a time, such as `< 3 days`.")
    limit: Integer = Field(
        DEFAULT_TRAJECTORY_LIMIT, ge=1, le=MAX_HITS, description="Maximum runs, 1 to 100; with contrasts of each tier."
    )


class NewRecord(_ToolArguments):
    """A memory to be kept."""

    kind: ContentType | None = Field(None, description=DERIVED_KIND)
    text: BodyText = Field(description="The memory itself, to be understood without its context.")
    id: Identifier | None = Field(None, description="A new id; generated if absent.")
    subject: Utf8Text | None = Field(None, description="Who or what a fact is about.")
    fact_type: Utf8Text | None = Field(None, description="Kind of fact, such as works_at.")
    object: Utf8Text | None = Field(None, description="The fact's value, such as the employer's name.")
    label: Utf8Text | None = Field(None, description="Title of an archival entry.")
    author: Utf8Text | None = Field(None, description="Name of who wrote or said it.")
    role: Role | None = None
    confidence: UnitFloat | None = Field(None, description="How sure you are, 0 to 1.")
    tags: tuple[Identifier, ...] = Field((), max_length=100)
    language: LanguageCode | None = Field(None, description=RECORD_LANGUAGE)
    source_ids: tuple[Identifier, ...] = Field((), max_length=100, description="Ids of memories it was drawn from.")
    attributes: JsonAttributes = Field(
        default_factory=dict,
        description="Anything else, as JSON. Of a past run (kind trajectory) how it ended and what it used: "
        '{"execution": {"status": "failed"}, "metadata": {"tools_used": ["bash"]}}.',
    )
    agent_id: Identifier | None = Field(None, description="Agent it belongs to; the operator may have fixed this.")
    agent_name: Utf8Text | None = None
    user_id: Identifier | None = Field(None, description="User it belongs to; the operator may have fixed this.")
    conversation_id: Identifier | None = Field(None, description="Conversation; the operator may have fixed this.")
    session: Identifier | None = None
    created_at: Timestamp | None = Field(None, description="When it was said or happened.")


class AddArguments(_ToolArguments):
    """Memories to be kept: a text, messages, records, or all of them."""

    text: BodyText | None = Field(None, description="What the user has said or wants kept.")
    messages: tuple[ChatMessage, ...] = Field(
        (), max_length=MAX_ADDED, description="Turns of a conversation that are worth keeping, oldest first."
    )
    records: tuple[NewRecord, ...] = Field(
        (), max_length=MAX_ADDED, description="Single statements, each to be understood without the others."
    )
    language: LanguageCode | None = Field(
        None, description="Language of what states none (ISO 639-1); absent = detected from each text."
    )


class AddResult(BaseModel):
    """Ids of what was added, in order; it survives the death of the process."""

    ids: list[str]
    warnings: list[str] = Field(
        [], description="How what was kept differs from what was given, such as a time left out."
    )


class ListArguments(_ToolArguments):
    """A page of memories, newest first."""

    filters: Filters = Field(Filters(), description="What memories must satisfy; every one that is given.")
    content_types: ContentTypes | None = Field(None, description="Kinds of memories; absent = all.")
    limit: Integer = Field(20, ge=1, le=MAX_HITS, description="Most memories of the page, 1 to 100.")
    cursor: Utf8Text | None = Field(None, description="`next_cursor` of the page before.")


class RecordChanges(TypedDict, total=False):
    """New values, at least one: what isn't named stays, null empties a field."""

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
    valid_until: Annotated[Timestamp | None, Field(description="When what a fact says stopped being true.")]
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
    """The target of an erasure: records by their ids, or all of one conversation, user or agent."""

    ids: tuple[Identifier, ...] | None = Field(None, min_length=1, max_length=MAX_ERASED, description="Of records.")
    conversation_id: Identifier | None = Field(None, description="All that belongs to this conversation.")
    user_id: Identifier | None = Field(None, description="All that belongs to this user.")
    agent_id: Identifier | None = Field(None, description="All that belongs to this agent.")


class EraseResult(BaseModel):
    """The outcome of an erasure."""

    erased: int = Field(description="Records that there were.")
    missing: list[str] = Field(description="Ids without an accessible record.")


class ForgetArguments(_ToolArguments):
    """What is forgotten: all that is given must hold, and filters, types or a rule must be given."""

    filters: Filters | None = Field(None, description="As of a search; superseded facts go too unless this says no.")
    content_types: ContentTypes | None = Field(None, description="Kinds of memories; absent = all.")
    rule: RetentionRule | None = Field(None, description="Kinds, roles, speech acts and age.")
    dry_run: bool = Field(False, description="Count what would go, and forget nothing.")


class ToolErrorDetail(BaseModel):
    """Why a call failed: `structuredContent.error` of a result that is an error."""

    type: str = Field(description="Kind of error.")
    message: str
    field: str | None = Field(None, description="Dotted name of the invalid argument.")
    value: str | None = Field(None, description="Its value, as given, shortened.")
    allowed: str | None = Field(None, description="What would have been accepted.")
