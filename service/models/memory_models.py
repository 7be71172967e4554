"""Request and response models of adding, changing and forgetting memories."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema

from recall_loop.memory.intake.conversations.additions import KEPT_ROLES
from recall_loop.service.models.record_models import MAX_BATCH_RECORDS, RecordOutcome
from recall_loop.state.language_codes import LanguageCode
from recall_loop.state.types import Identifier, Role

_EXAMPLES: list[JsonValue] = [
    {"content": "I moved to Bergen in May.", "user_id": "u-5"},
    {
        "content": [
            {"role": "user", "content": "Our boiler leaks again.", "timestamp": "2024-05-02T08:00:00Z"},
            {"role": "assistant", "content": "Kettler Heating repaired it last time."},
            {"text": "Kettler Heating opens at eight.", "subject": "Kettler Heating", "fact_type": "opens_at"},
        ],
        "user_id": "u-5",
        "conversation_id": "house",
    },
]
_ITEM: dict[str, Any] = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "object"}]}
_ALLOWED = f"a text, a message, a record, or a list of 1 to {MAX_BATCH_RECORDS} of these"


def _check_content(content: Any) -> Any:
    many = isinstance(content, list) and 1 <= len(content) <= MAX_BATCH_RECORDS
    if not (many or isinstance(content, str | dict)):
        raise ValueError(_ALLOWED)
    return content


_Content = Annotated[
    Any,
    AfterValidator(_check_content),
    WithJsonSchema({"anyOf": [*_ITEM["anyOf"], {"type": "array", "items": _ITEM, "minItems": 1, "maxItems": 1000}]}),
]


class AddRequest(BaseModel):
    """Memories to store. Only the key determines the tenant."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": _EXAMPLES})

    content: _Content = Field(
        description="A text (a message from the user), a message with role and content as in chat APIs, a record, "
        "or a list of up to 1,000 of these. Missing fields are derived: id, kind, time, position."
    )
    user_id: Identifier | None = Field(None, description="User who owns the memory.")
    agent_id: Identifier | None = Field(None, description="Agent that owns the memory.")
    conversation_id: Identifier | None = Field(None, description="Conversation it belongs to.")
    session: Identifier | None = Field(None, description="Part of the conversation; neighbours are joined within one.")
    language: LanguageCode | None = Field(
        None, description="Language of items that state none (ISO 639-1); absent = detected from each text."
    )
    infer: bool = Field(
        False, description="Let the service's chat model extract facts from the messages; an error if none is set."
    )
    roles: list[Role] = Field(list(KEPT_ROLES), description="Roles whose messages are kept; the others are `skipped`.")
    on_reject: Literal["raise", "report"] = Field(
        "raise", description="`raise`: if an item can't be stored, nothing is; `report`: the others are."
    )


class SkippedItem(BaseModel):
    """A message that isn't kept."""

    index: int = Field(description="Its place in the request, from 0.")
    reason: str


class InferredFacts(BaseModel):
    """The facts that the chat model extracted from the messages."""

    created: list[str] = Field(description="Ids of new facts.")
    superseded: list[str] = Field(description="Ids of older facts that new ones contradict.")
    unsupported: int = Field(description="Facts dropped because the messages don't support them.")
    unread: int = Field(description="Messages still to be read.")
    failure: dict[str, str] | None = Field(None, description="Why reading ended before all were read.")


class AddResponse(BaseModel):
    """The stored memories. They are acknowledged: they survive a crash of the service."""

    ids: list[str] = Field(description="Ids of the records, in order.")
    outcomes: list[RecordOutcome] = Field(description="One for each record, in order.")
    skipped: list[SkippedItem] = Field(description="Messages without text, or with a role not in `roles`.")
    facts: InferredFacts | None = Field(None, description="With `infer` only.")
