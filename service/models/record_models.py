"""Request and response models of the routes of records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel, ValidationInfo, field_validator

from recall_loop.memory.store.encoding.derivation import derive_kind
from recall_loop.memory.store.tables.prepared_records import WriteStatus
from recall_loop.service.models.search_models import ListParams, RecordParams, encode_cursor
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import RECORD_CLASSES, AnyRecord, Fact, Record, RecordVersion
from recall_loop.state.types import ContentType, Identifier, Timestamp

MAX_BATCH_RECORDS = 1000
_EXAMPLE: dict[str, JsonValue] = {
    "kind": "fact",
    "text": "Ada works at the harbour office.",
    "subject": "Ada",
    "fact_type": "works_at",
    "source_ids": ["m-7"],
    "user_id": "u-5",
}

DERIVED_KIND = (
    "Kind of record. Absent: `fact` with a subject, a fact type, an object, sources or an end; `archival` with a "
    "label; else `message`."
)
_BATCH: dict[str, JsonValue] = {"records": [{"id": "f-12", **_EXAMPLE}]}


class RecordBody(Fact):
    """A record without its id, which is in the address; only the key determines its tenant.

    `valid_until` and `superseded_by` are of facts only.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: Identifier | None = Field(None, description="May repeat the id in the address.")  # type: ignore[assignment]
    kind: ContentType | None = Field(None, description=DERIVED_KIND)  # type: ignore[assignment]

    @field_validator("valid_until", "superseded_by")
    @classmethod
    def _only_facts_end(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("kind") not in (None, ContentType.FACT):
            raise ValueError("nothing: only facts have it")
        return value

    def to_record(self, record_id: str) -> Record:
        """Return the record under the id of its address; raise `InvalidInputError` where its ids contradict that."""
        if self.id is not None and self.id != record_id:
            raise InvalidInputError("id", self.id, "the id of the address, or none")
        if self.superseded_by == record_id:
            raise InvalidInputError("superseded_by", record_id, "the id of another fact")
        return construct_record(self, id=record_id)


def construct_record(fields: BaseModel, **others: Any) -> Record:
    """Return a record of fields that are valid already, as the class of its kind; `others` replace theirs."""
    given = {name: getattr(fields, name) for name in fields.model_fields_set} | others
    kind = given["kind"] = given.get("kind") or derive_kind(given)
    return RECORD_CLASSES[kind].model_construct(**given)


class RecordChanges(RootModel[dict[str, Any]]):
    """Fields of a record with their new values, at least one."""

    model_config = ConfigDict(
        json_schema_extra={"minProperties": 1, "examples": [{"text": "Ada is a pilot.", "tags": []}]}
    )


class RecordBatch(BaseModel):
    """Records to write; missing fields are derived. An invalid record doesn't affect the others."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_BATCH]})

    records: list[dict[str, Any]] = Field(
        min_length=1,
        max_length=MAX_BATCH_RECORDS,
        description="1 to 1,000 records: the fields of a record. Absent: `id` = a new one, `kind` by the other fields, "
        "`created_at` = now, or that of the record with this id.",
    )


class RecordOutcome(BaseModel):
    """The outcome of one record of a batch."""

    index: int = Field(description="Its place in the batch, from 0.")
    id: str | None = Field(None, description="Its id, as far as it could be read.")
    status: WriteStatus = Field(description="`unchanged`: the same record already existed.")
    error: str | None = Field(None, description="Why it was rejected: field, value and what is allowed.")
    warning: str | None = Field(None, description="Difference from the given record, such as a future time left out.")


class BatchResult(BaseModel):
    """The outcome of a batch. Records not rejected are acknowledged: they survive a crash of the service."""

    created: int
    replaced: int
    unchanged: int
    rejected: int
    outcomes: list[RecordOutcome] = Field(description="One for each record, in order.")


class WriteResult(BaseModel):
    """The outcome of one write."""

    id: str
    status: Literal["created", "replaced", "unchanged"]
    warning: str | None = Field(None, description="Difference from the given record, such as a future time left out.")


class RecordIds(BaseModel):
    """Ids of records."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"ids": ["f-12", "f-13"]}]})

    ids: list[Identifier] = Field(min_length=1, max_length=MAX_BATCH_RECORDS, description="1 to 1,000 ids.")


class DeletionResult(BaseModel):
    """The outcome of a deletion."""

    deleted: int = Field(description="Number of deleted records.")
    missing: int = Field(description="Number of ids without a record in the tenant.")


class ForgetResult(BaseModel):
    """The records that were forgotten, or would be."""

    records: int
    by_kind: dict[str, int] = Field(description="Their number by kind; kinds without any are left out.")
    dry_run: bool = Field(description="Whether they were only counted.")


class RecordHistory(BaseModel):
    """The changes of a record, oldest first."""

    versions: list[RecordVersion]


class CallerAccess(BaseModel):
    """What a caller may do."""

    tenant: str = Field(description="Whose memory it is.")
    role: Literal["read", "write", "admin"] = Field(description="The key's; `admin` where there are no keys.")
    read_only: bool = Field(description="Whether the service refuses writes, whatever the role.")


class MemoryOverview(BaseModel):
    """Figures about the tenant's memory, and what the caller may do with it."""

    caller: CallerAccess
    records: int = Field(description="Number of records, including superseded facts.")
    kinds: dict[str, int] = Field(description="Number of records by kind.")
    users: dict[str, int] = Field(description="Number of records by user, the most first, at most 100 users.")
    agents: dict[str, int] = Field(description="Number of records by agent, the most first, at most 100 agents.")
    first: Timestamp | None = Field(description="Earliest time of a record.")
    last: Timestamp | None = Field(description="Latest time of a record.")


class RecallFigures(BaseModel):
    """How often a record was recalled."""

    model_config = ConfigDict(from_attributes=True)

    times: int = Field(
        description="Retrievals that had it among their facts; those of other processes arrive ten seconds late."
    )
    last: Timestamp | None = Field(description="When it was last recalled.")
    since: Timestamp = Field(description="When counting began.")
    counting: bool = Field(
        description="Whether retrievals of this process count; not if it has the store open for reading only."
    )


class RelatedRecords(BaseModel):
    """Records related to a record, at most 200 of each."""

    model_config = ConfigDict(from_attributes=True)

    sources: list[AnyRecord] = Field(description="Records that it was drawn from.")
    derived: list[AnyRecord] = Field(description="Facts drawn from it.")
    supersedes: list[AnyRecord] = Field(description="Facts that it has superseded.")
    superseded_by: AnyRecord | None = Field(description="The fact that has superseded it.")
    sources_known: int = Field(description="Number of existing sources, including those beyond 200.")
    sources_gone: int = Field(description="Number of sources that no longer exist.")
    recalled: RecallFigures


class RecordsPage(BaseModel):
    """Records in the requested order."""

    records: list[AnyRecord]
    next_cursor: str | None = Field(None, description="`cursor` of the next page; absent at the end.")

    @classmethod
    def of(cls, records: Iterable[Record], next_cursor: str | None) -> RecordsPage:
        """Return a page of records, each with the fields of its kind."""
        return cls(records=[cast("AnyRecord", record) for record in records], next_cursor=next_cursor)


_ContentTypes = Annotated[list[ContentType] | None, Field(min_length=1, description="Kinds of records; absent = all.")]


class ExportParams(RecordParams):
    """Which records an export holds."""

    content_types: _ContentTypes = None


_NEWEST = "\0"  # no id contains it


class ListRecordsParams(ListParams):
    """The records of a page."""

    content_types: _ContentTypes = None
    order: Literal["id", "newest"] = Field(
        "id", description="By ascending id, or newest first; a cursor is of the order in which it was given."
    )

    @property
    def after(self) -> str:
        """The place that the page follows; "" at the beginning. Another order's cursor raises `InvalidInputError`."""
        place = super().after
        if place and place.startswith(_NEWEST) != (self.order == "newest"):
            raise InvalidInputError("cursor", self.cursor, "`next_cursor` of a page of the same order")
        return place.removeprefix(_NEWEST)

    def cursor_after(self, place: str | None) -> str | None:
        """Return the cursor of the page that follows a place in this order; None at the end."""
        return encode_cursor(f"{_NEWEST}{place}" if place is not None and self.order == "newest" else place)


BulkStatus = Annotated[
    Literal["created", "replaced", "unchanged", "rejected", "failed"],
    Field(description="`failed`: it may not be durable; send it again. The others are as in a batch."),
]


class BulkLine(BaseModel):
    """One line of a bulk upload's answer."""

    line: int = Field(description="Number of the line that was sent, from 1; blank ones count.")
    id: str | None = None
    status: BulkStatus
    error: str | None = None


class BulkSummary(BaseModel):
    """The last line of a bulk upload's answer; where it is missing, the answer is cut off."""

    done: bool = Field(description="Whether every line that was sent was processed.")
    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    rejected: int = 0
    failed: int = 0
    error: str | None = Field(None, description="Why lines failed, or weren't processed.")
