"""A retrieval request: a conversation window, a goal, a scope, filters and bounds (OPS-1)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from recall_loop.state.language_codes import QUERY_LANGUAGE, LanguageCode
from recall_loop.state.scope import DEFAULT_TENANT, Filters, Scope
from recall_loop.state.types import (
    BodyText,
    ContentType,
    ContentTypes,
    FuzzyLevel,
    Identifier,
    MaxContextTokens,
    MaxFacts,
    MaxIterations,
    Role,
    ScopeMode,
    Timestamp,
    Utf8Text,
    not_blank,
)


class ChatMessage(BaseModel):
    """One message of the conversation that needs memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role = Role.USER
    author: Utf8Text | None = Field(None, description="Display name of the writer.")
    content: BodyText
    timestamp: Timestamp | None = Field(None, description="When it was written (UTC).")


def _types_asked_for(fields: dict[str, Any]) -> tuple[ContentType, ...]:
    """Return what a request without content types searches, by its filters; these are missing where they are wrong."""
    filters: Filters = fields.get("filters") or Filters()
    return filters.default_content_types


class RetrieveRequest(BaseModel):
    """One retrieval request.

    The last user message is the question; earlier ones resolve its pronouns. Fields left out
    take their value from the runtime context, then from the settings.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Identifier | None = Field(None, description="Echoed as request_id; generated if absent.")
    messages: tuple[ChatMessage, ...] = Field(min_length=1, description="Conversation window, oldest first.")
    goal: Annotated[Utf8Text, AfterValidator(not_blank)] | None = Field(
        None, description="What the caller wants to achieve, in addition to the last message."
    )
    tenant: Identifier = DEFAULT_TENANT
    agent_id: Identifier | None = None
    user_id: Identifier | None = None
    conversation_id: Identifier | None = None
    scope: ScopeMode = ScopeMode.LOCAL
    filters: Filters = Filters()
    content_types: ContentTypes = Field(
        default_factory=_types_asked_for,
        description="Kinds to search; absent = fact, archival and message, or trajectory if a filter asks for it.",
    )
    fuzzy: FuzzyLevel = 0
    language: LanguageCode | None = Field(None, description=QUERY_LANGUAGE)
    max_facts: MaxFacts | None = None
    max_iterations: MaxIterations | None = None
    max_context_tokens: MaxContextTokens | None = None
    write_answer: bool | None = Field(
        None, description="Write an answer; absent = if a chat model is set; true without one is an error."
    )
    reference_time: Timestamp | None = Field(
        None, description="Current time, for relative times and recency; default: the newest message's timestamp."
    )
    debug: bool = Field(False, description="Return score components per fact and the trace.")

    @property
    def question(self) -> ChatMessage:
        """The message with the question: the user's last one, else the last."""
        return next((message for message in reversed(self.messages) if message.role is Role.USER), self.messages[-1])

    def read_scope(self) -> Scope:
        """Return the scope that this request may read."""
        return Scope(
            tenant=self.tenant,
            agent_id=self.agent_id,
            mode=self.scope,
            user_id=self.user_id,
            conversation_id=self.conversation_id,
        )
