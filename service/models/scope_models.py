"""Scope, filters and pages in requests. The tenant is never among them: the key determines it."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import Identifier, Integer, ScopeMode, Utf8Text, not_blank

MAX_PAGE_RECORDS = 1000
_MAX_QUERY_CHARACTERS = 10_000

QueryText = Annotated[Utf8Text, Field(min_length=1, max_length=_MAX_QUERY_CHARACTERS), AfterValidator(not_blank)]


class ScopeFields(BaseModel):
    """The part of the tenant's memory that a search may read."""

    model_config = ConfigDict(extra="forbid")

    agent_id: Identifier | None = Field(None, description="Agent whose memory is read; absent = of all agents.")
    scope: ScopeMode = Field(
        ScopeMode.LOCAL, description="`local`: that agent alone; `constellation`: the agents of its group."
    )
    user_id: Identifier | None = Field(None, description="Only what belongs to this user.")
    conversation_id: Identifier | None = Field(None, description="Only what belongs to this conversation.")

    def read_scope(self, tenant: str) -> Scope:
        """Return the scope within a tenant.

        Raises:
            InvalidInputError: `constellation` without an agent.
        """
        fields = {"tenant": tenant, "agent_id": self.agent_id, "mode": self.scope}
        return validate_model(Scope, {**fields, "user_id": self.user_id, "conversation_id": self.conversation_id})


# Of results, not of records: a list has no similarity, and so takes no bound of it.
_SEARCH_ONLY_FILTERS = ("min_similarity",)
_fields: dict[str, Any] = {
    name: (field.annotation, field) for name, field in Filters.model_fields.items() if name not in _SEARCH_ONLY_FILTERS
}
_ListFilters = create_model("_ListFilters", __config__=ConfigDict(extra="forbid"), **_fields)


class ListParams(ScopeFields, _ListFilters):
    """Which records a page holds: scope and filters, as in searches, every one of which must hold."""

    limit: Integer = Field(100, ge=1, le=MAX_PAGE_RECORDS, description="Most records of the page, 1 to 1,000.")
    cursor: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="`next_cursor` of the page before."
    )

    def filters(self) -> Filters:
        """Return the filters.

        Raises:
            InvalidInputError: a range is empty.
        """
        values = {name: getattr(self, name) for name in _fields}
        return validate_model(Filters, {name: value for name, value in values.items() if value is not None})

    @property
    def after(self) -> str:
        """The id that the page follows; "" at the beginning.

        Raises:
            InvalidInputError: the cursor is no `next_cursor`.
        """
        if self.cursor is None:
            return ""
        try:
            return base64.b64decode(self.cursor.encode("ascii"), altchars=b"-_", validate=True).decode("utf-8")
        except (ValueError, binascii.Error) as error:
            raise InvalidInputError("cursor", self.cursor, "`next_cursor` of the page before") from error


def encode_cursor(record_id: str | None) -> str | None:
    """Return the cursor of the page that follows a record; None at the end."""
    return None if record_id is None else base64.urlsafe_b64encode(record_id.encode()).decode("ascii")
