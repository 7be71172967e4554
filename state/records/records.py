"""Records of the memory store (STORE-1), and hits of a search (SEARCH-6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, model_validator

from recall_loop.state.errors import NOTHING, InvalidInputError, validate_model
from recall_loop.state.language_codes import RECORD_LANGUAGE, LanguageCode
from recall_loop.state.types import (
    BodyText,
    ContentType,
    Identifier,
    Position,
    Role,
    Timestamp,
    UnitFloat,
    Utf8Text,
    is_to_come,
    no_surrogates,
)

# Readers of JSON stop at about 200 levels; what is written must be readable.
_DEEPEST = 100
_MAX_BITS = 4096


def _json_clean(value: JsonValue, depth: int = 0) -> JsonValue:
    """Reject what JSON or UTF-8 can't carry: NaN, infinities, lone surrogates, boundless depth and numbers."""
    if depth > _DEEPEST:
        raise ValueError(f"at most {_DEEPEST} levels of nesting")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ValueError(f"an integer of at most {_MAX_BITS} bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a finite number; NaN and infinity are not JSON")
    if isinstance(value, str):
        no_surrogates(value)
    elif isinstance(value, list):
        for item in value:
            _json_clean(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            no_surrogates(key)
            _json_clean(item, depth + 1)
    return value


JsonAttributes = Annotated[dict[str, JsonValue], AfterValidator(_json_clean)]


class Block(BaseModel):
    """One part of a message's content; reasoning and tool blocks weigh less in ranking (SEARCH-5)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["text", "reasoning", "tool_use", "tool_result"]
    text: Utf8Text


class Record(BaseModel):
    """One stored item. `id` is unique within its tenant; the store adds the tenant itself.

    Times are UTC; a time without a zone is read as UTC. `text` may also be given as `content`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, use_enum_values=False)

    id: Identifier
    kind: ContentType
    text: BodyText = Field(validation_alias=AliasChoices("text", "content"))
    blocks: tuple[Block, ...] = ()
    subject: Utf8Text | None = Field(None, description="Who or what a fact is about.")
    fact_type: Utf8Text | None = Field(None, description="Kind of fact, such as works_at.")
    object: Utf8Text | None = Field(None, description="The fact's value, such as the employer's name.")
    attributes: JsonAttributes = Field(default_factory=dict, description="Anything else, as JSON.")
    confidence: UnitFloat | None = Field(None, description="The writer's own confidence in [0,1].")
    author: Utf8Text | None = Field(None, description="Name of the writer or speaker.")
    role: Role | None = None
    agent_id: Identifier | None = None
    agent_name: Utf8Text | None = None
    group_id: Identifier | None = Field(None, description="Group (constellation) that the agent belongs to.")
    user_id: Identifier | None = None
    conversation_id: Identifier | None = None
    session: Identifier | None = None
    position: Position | None = Field(None, description="Order within its session; derived if absent.")
    label: Utf8Text | None = Field(None, description="Title or label of an archival entry.")
    tags: tuple[Identifier, ...] = ()
    language: LanguageCode | None = Field(None, description=RECORD_LANGUAGE)
    source_ids: tuple[Identifier, ...] = Field((), description="Ids of the records it was drawn from.")
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    expires_at: Timestamp | None = Field(
        None, description="When it is forgotten: from then on, no search returns it, and a sweep erases it."
    )


class Fact(Record):
    """A statement, with the ids of its sources.

    It may hold only for a time. A fact contradicted by a newer one is superseded: it stays as history, and searches
    leave it out unless requested.
    """

    kind: Literal[ContentType.FACT] = ContentType.FACT
    valid_until: Timestamp | None = Field(None, description="When a fact stopped being true, exclusive.")
    superseded_by: Identifier | None = Field(None, description="Id of the newer fact that contradicts it.")

    @model_validator(mode="after")
    def _superseded_at_some_time(self) -> Fact:
        if self.superseded_by is None:
            return self
        if self.valid_until is None:
            raise InvalidInputError("valid_until", NOTHING, "the time from which superseded_by holds")
        if self.superseded_by == self.id:
            raise InvalidInputError("superseded_by", self.superseded_by, "the id of another fact")
        return self


class ArchivalEntry(Record):
    """A longer note or passage, with its label or title."""

    kind: Literal[ContentType.ARCHIVAL] = ContentType.ARCHIVAL


class Message(Record):
    """One turn of a conversation."""

    kind: Literal[ContentType.MESSAGE] = ContentType.MESSAGE


class Trajectory(Record):
    """A past run of an agent, as searchable text."""

    kind: Literal[ContentType.TRAJECTORY] = ContentType.TRAJECTORY


AnyRecord = Annotated[Fact | ArchivalEntry | Message | Trajectory, Field(discriminator="kind")]
RECORD_ADAPTER: TypeAdapter[Fact | ArchivalEntry | Message | Trajectory] = TypeAdapter(AnyRecord)
RECORD_CLASSES: dict[object, type[Record]] = {
    one.model_fields["kind"].default: one for one in (Fact, ArchivalEntry, Message, Trajectory)
}


def parse_record(fields: Mapping[str, Any]) -> Record:
    """Validate a record's fields as the class of its kind, as `RECORD_ADAPTER` does.

    The first wrong field raises `InvalidInputError`, with its value and the whole range of what is allowed.
    """
    kind = fields.get("kind")
    return validate_model(RECORD_CLASSES.get(kind, Record) if isinstance(kind, str) else Record, fields)


class Alignment(NamedTuple):
    """How well a record's own words, without its neighbours, match a query; it doesn't depend on other records.

    Attributes:
        cosine: of the record's own vector with the query's, in [-1,1].
        tokens: mean over the query's tokens of the best cosine with any of the record's, in [-1,1].
        least: the same mean over the quarter of the query's tokens that match worst.
    """

    cosine: float
    tokens: float
    least: float


ChangeAction = Literal["replaced", "updated", "superseded"]


class RecordVersion(BaseModel):
    """One change of a record (API-3)."""

    model_config = ConfigDict(frozen=True)

    number: int = Field(description="From 1, for each record.")
    changed_at: Timestamp
    actor: str | None = Field(None, description="Who made the change, as the writer said.")
    action: ChangeAction = Field(
        description="`replaced` by a record under the same id, `updated` in parts, or `superseded` by a newer fact."
    )
    before: AnyRecord
    after: AnyRecord


def with_changes(record: Record, changes: Mapping[str, Any], now: datetime) -> Record:
    """Return a record with some fields changed, and `updated_at` set to `now` unless it is among them.

    What `changes` doesn't name stays; None empties a field. Id and kind can't change. Where nothing differs the record
    itself is returned. Raises `InvalidInputError` where `changes` is no mapping or empty, or the record would not be
    valid, or of a time to come (GUARD-5); names the field.
    """
    given: object = changes
    if not isinstance(given, Mapping) or not given:
        raise InvalidInputError("changes", changes, "a mapping with the fields that change, at least one")
    for name in ("id", "kind"):
        if name in changes and changes[name] != getattr(record, name):
            raise InvalidInputError(name, changes[name], f"{getattr(record, name)!s}: it can't be changed")
    new = dict(changes)
    if "content" in new and "text" not in new:
        new["text"] = new.pop("content")
    fields = {"id": record.id, "kind": record.kind.value, **record.model_dump(exclude_defaults=True), **new}
    known = {name: value for name, value in fields.items() if value is not None}
    changed = parse_record({"created_at": None, **known})  # stated as unknown, so that it isn't derived again
    if changed == record:
        return record
    for name in ("created_at", "updated_at"):
        if name in new and is_to_come(getattr(changed, name), now):
            raise InvalidInputError(name, new[name], "a time at most a day ahead of the clock")
    return changed if "updated_at" in new else changed.model_copy(update={"updated_at": now})


class SearchHit(BaseModel):
    """One search result (SEARCH-6).

    `similarity` in [0,1] doesn't depend on the other results: thresholds use it. `score` in [0,1] orders the results of
    one query. `window` is the indexed text, including a message's neighbouring turns. `alignment` is None if no vectors
    were compared.
    """

    model_config = ConfigDict(frozen=True)

    record: Record
    similarity: float
    score: float
    window: str = ""
    alignment: Alignment | None = Field(None, exclude=True)
    debug: dict[str, Any] | None = None
