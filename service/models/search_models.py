"""Request and response models of searches, and of scopes."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from recall_loop.memory.search.present.result_display import FULL_PROFILE
from recall_loop.state.attribute_filters import ATTRIBUTES_DESCRIPTION
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import Limit, SearchParams
from recall_loop.state.types import (
    ContentType,
    FiniteFloat,
    Identifier,
    Integer,
    Role,
    ScopeMode,
    Timestamp,
    Utf8Text,
    not_blank,
)

MAX_PAGE_RECORDS = 1000
_MAX_QUERY_CHARACTERS = 10_000

QueryText = Annotated[Utf8Text, Field(min_length=1, max_length=_MAX_QUERY_CHARACTERS), AfterValidator(not_blank)]


class ScopeFields(BaseModel):
    """The part of the tenant's memory that a search may read."""

    model_config = ConfigDict(extra="forbid")

    agent_id: Identifier | None = Field(None, description="Agent whose memory is read; absent = all agents.")
    scope: ScopeMode = Field(
        ScopeMode.LOCAL, description="`local`: that agent alone; `constellation`: the agents of its group."
    )
    user_id: Identifier | None = Field(None, description="Only this user's records.")
    conversation_id: Identifier | None = Field(None, description="Only this conversation's records.")

    def read_scope(self, tenant: str) -> Scope:
        """Return the scope within a tenant; raise `InvalidInputError` for `constellation` without an agent."""
        fields = {"tenant": tenant, "agent_id": self.agent_id, "mode": self.scope}
        return validate_model(Scope, {**fields, "user_id": self.user_id, "conversation_id": self.conversation_id})


# For results, not for records: a list has no similarity, and so no bound on it.
_SEARCH_ONLY_FILTERS = ("min_similarity",)
_NOT_IN_AN_ADDRESS = ("attributes",)  # a query string contains only texts: they come as JSON
_fields: dict[str, Any] = {
    name: (field.annotation, field)
    for name, field in Filters.model_fields.items()
    if name not in (*_SEARCH_ONLY_FILTERS, *_NOT_IN_AN_ADDRESS)
}
_ListFilters = create_model("_ListFilters", __config__=ConfigDict(extra="forbid"), **_fields)


class RecordParams(ScopeFields, _ListFilters):
    """The records to select: scope and filters, as in searches, all of which must hold."""

    attributes: Annotated[Utf8Text, Field(min_length=1, max_length=_MAX_QUERY_CHARACTERS)] | None = Field(
        None, description=f"{ATTRIBUTES_DESCRIPTION} As JSON text.", examples=['{"team": "red"}']
    )

    def filters(self) -> Filters:
        """Return the filters; raise `InvalidInputError` where a range is empty, or `attributes` are no conditions."""
        values = {name: getattr(self, name) for name in _fields} | {"attributes": self._conditions()}
        return validate_model(Filters, {name: value for name, value in values.items() if value is not None})

    def _conditions(self) -> dict[str, Any] | None:
        if self.attributes is None:
            return None
        try:
            value = json.loads(self.attributes)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise InvalidInputError("attributes", self.attributes, 'a JSON object such as {"team": "red"}')
        return value


class ListParams(RecordParams):
    """The records of a page."""

    limit: Integer = Field(100, ge=1, le=MAX_PAGE_RECORDS, description="Maximum records per page, 1 to 1,000.")
    cursor: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="`next_cursor` of the previous page."
    )

    @property
    def after(self) -> str:
        """The id that the page follows; "" at the beginning. What is no `next_cursor` raises `InvalidInputError`."""
        if self.cursor is None:
            return ""
        try:
            return base64.b64decode(self.cursor.encode("ascii"), altchars=b"-_", validate=True).decode("utf-8")
        except (ValueError, binascii.Error) as error:
            raise InvalidInputError("cursor", self.cursor, "`next_cursor` of the page before") from error


def encode_cursor(place: str | None) -> str | None:
    """Return the cursor of the page that follows a place; None at the end."""
    return None if place is None else base64.urlsafe_b64encode(place.encode()).decode("ascii")


MAX_RERANK_BUDGET_MS = 10_000


class ServiceSearchParams(SearchParams):
    """Options of a search over the network: fewer results by default, and a bounded budget."""

    limit: Limit = Field(10, description="Maximum results, 1 to 1,000; per content type with `limit_per_type`.")
    rerank_budget_ms: FiniteFloat = Field(
        0.0,
        ge=0,
        le=MAX_RERANK_BUDGET_MS,
        description="Milliseconds for computing missing token vectors, 0 to 10,000.",
    )


class SearchRequest(ServiceSearchParams, ScopeFields):
    """One search. Only the key determines the tenant."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "ferry to the island", "limit": 3},
                {
                    "query": "deploy failed < 3 days",
                    "content_types": ["message"],
                    "filters": {"role": "tool", "min_similarity": 0.3},
                    "mode": "hybrid",
                    "fuzzy": 1,
                    "debug": True,
                },
            ]
        }
    )

    query: QueryText = Field(description="What to look for; may end in a time, such as `< 3 days`.")
    profile: str = Field(
        FULL_PROFILE.name,
        max_length=200,
        description="How much of each text: `full`, `local`, `constellation`, `messages`, or steps such as "
        "`2:full,5:1000,400` (ranks 1 and 2 whole, up to rank 5 at most 1000 characters, then 400).",
    )


class SearchResultItem(BaseModel):
    """One result (SEARCH-6); fields of the record that are empty may be absent."""

    model_config = ConfigDict(extra="allow")

    rank: int = Field(description="From 1, the best.")
    id: str
    content_type: ContentType
    content: str = Field(description="The record's text, or the part of it that the profile shows.")
    truncated: bool = Field(description="Whether the text was shortened.")
    similarity: float = Field(ge=0, le=1, description="Doesn't depend on the other results; thresholds use it.")
    score: float = Field(ge=0, le=1, description="Orders the results of this search.")
    label: str | None
    agent_id: str | None
    agent_name: str | None
    author: str | None
    role: Role | None
    created_at: Timestamp | None
    updated_at: Timestamp | None
    debug: dict[str, Any] | None = Field(None, description="Ranks and scores of each retriever, if requested.")


class SearchResults(BaseModel):
    """Results, best first, with a description of the search: empty results say whether there was anything to search."""

    query: str
    hits: list[SearchResultItem]
    allowed: int = Field(description="Records that match scope, filters and types; 0 = there was nothing to search.")
    scope: Scope
    filters: dict[str, Any] = Field(description="The filters, including the time named in the query.")
    content_types: list[ContentType]
    legs: list[str] = Field(description="Retrievers that ran: `fts` (words), `vector` (meaning).")
    generation: str = Field(description="Generation of the index.")
    time_range: list[Timestamp | None] | None = Field(description="The time named in the query: start and end.")
    corrected: str | None = Field(
        description="The query with likely misspellings corrected, if fuzzy search found any."
    )
    degraded: bool = Field(description="Whether a part of the memory is unavailable.")
    degraded_reason: str | None = Field(description="Which part, and why.")
    profile: str
