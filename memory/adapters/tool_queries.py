"""What a model may ask of the search tools. Scope and tenant are not among it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.scope import Scope
from recall_loop.state.types import BodyText, Role, Timestamp, UnitFloat, Utf8Text

ScopeProvider = Scope | Callable[[RunnableConfig], Scope]
_MAX_TOOL_LIMIT = 50


class SearchQuery(BaseModel):
    """A search by words and meaning."""

    model_config = ConfigDict(extra="forbid")

    query: BodyText = Field(description="What to look for, in words.")
    limit: int = Field(10, ge=1, le=_MAX_TOOL_LIMIT, description="Most results, of each kind.")
    start_time: Timestamp | None = Field(None, description="Only what was made at or after this time (RFC 3339).")
    end_time: Timestamp | None = Field(None, description="Only what was made before this time (RFC 3339).")
    min_similarity: UnitFloat | None = Field(None, description="Least similarity to the query, 0 to 1.")
    newest_first: bool = Field(False, description="Order the best results by time, newest first.")


class FactQuery(SearchQuery):
    """A search for facts."""

    fact_type: Utf8Text | None = Field(None, description="Only facts of exactly this type, such as lives_in.")
    include_superseded: bool | None = Field(None, description="Also facts that newer ones have superseded.")
    as_of: Timestamp | None = Field(None, description="What was known and true at this time (RFC 3339).")


class MessageQuery(SearchQuery):
    """A search for messages."""

    role: Role | None = Field(None, description="Only what this role said.")


class ArchivalQuery(SearchQuery):
    """A search for notes."""

    label: Utf8Text | None = Field(None, description="Only notes with exactly this label.")


def resolve_scope(bound: ScopeProvider, config: RunnableConfig) -> Scope:
    """Return whose memory a call reads.

    Raises:
        InvalidInputError: the function gave no scope. "Nobody" must not become the default tenant (STORE-3), and a
            model can do nothing about it: this ends the run.
    """
    if isinstance(bound, Scope):
        return bound
    found: object = bound(config)
    if isinstance(found, Mapping):
        return validate_model(Scope, found, "scope")
    if not isinstance(found, Scope):
        raise InvalidInputError("scope", found, "a Scope, from the function that was given for it")
    return found


def format_validation_error(error: object) -> str:
    """Say which argument is wrong; without that a model could only guess."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False))
