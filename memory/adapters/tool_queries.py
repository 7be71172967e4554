"""Arguments that a model may give the memory tools, and what the tools share. Scope and tenant are never arguments."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recall_loop.state.attribute_filters import ATTRIBUTES_DESCRIPTION, AttributeFilters
from recall_loop.state.errors import (
    EmbedderError,
    InvalidInputError,
    StoreError,
    invalid_input,
    join_steps,
    validate_model,
)
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import (
    BodyText,
    ContentType,
    FuzzyLevel,
    OrderBy,
    Role,
    SpeechAct,
    Timestamp,
    UnitFloat,
    Utf8Text,
)
from recall_loop.telemetry.logs import log_failure

ScopeProvider = Scope | Callable[[RunnableConfig], Scope]
MAX_TOOL_LIMIT = 50
_log = logging.getLogger(__name__)


class SearchQuery(BaseModel):
    """A search by words and meaning."""

    model_config = ConfigDict(extra="forbid")

    query: BodyText = Field(description="What to look for, in words.")
    limit: int = Field(10, ge=1, le=MAX_TOOL_LIMIT, description="Maximum results, of each kind.")
    start_time: Timestamp | None = Field(None, description="Only records made at or after this time (RFC 3339).")
    end_time: Timestamp | None = Field(None, description="Only records made before this time (RFC 3339).")
    min_similarity: UnitFloat | None = Field(None, description="Minimum similarity to the query, 0 to 1.")
    attributes: AttributeFilters | None = Field(None, description=ATTRIBUTES_DESCRIPTION)
    newest_first: bool = Field(False, description="Order the best results by time, newest first.")
    fuzzy: FuzzyLevel = 0

    def to_params(self, content_types: tuple[ContentType, ...]) -> SearchParams:
        """Return the search options; whatever isn't an option is a filter.

        Filters that contradict one another raise `InvalidInputError`.
        """
        filters = self.model_dump(exclude_none=True, exclude={"query", "limit", "newest_first", "fuzzy"})
        return SearchParams(
            filters=validate_model(Filters, filters, "filters"),
            content_types=content_types,
            limit=self.limit,
            fuzzy=self.fuzzy,
            order_by=OrderBy.CREATED_AT if self.newest_first else OrderBy.RELEVANCE,
        )


class FactQuery(SearchQuery):
    """A search for facts."""

    fact_type: Utf8Text | None = Field(None, description="Only facts of exactly this type, such as lives_in.")
    include_superseded: bool | None = Field(None, description="Also facts superseded by newer ones.")
    as_of: Timestamp | None = Field(None, description="What was known and true at this time (RFC 3339).")


class MessageQuery(SearchQuery):
    """A search for messages."""

    role: Role | None = Field(None, description="Only messages with this role.")
    speech_acts: tuple[SpeechAct, ...] | None = Field(
        None, description="Only messages with any of these: statement, question, request, acknowledgement, non_answer."
    )


class ArchivalQuery(SearchQuery):
    """A search for notes."""

    label: Utf8Text | None = Field(None, description="Only notes with exactly this label.")


_Query = TypeVar("_Query", bound=BaseModel)


def make_memory_tool(
    name: str,
    description: str,
    schema: type[_Query],
    scope: object,
    answer: Callable[[Scope, _Query], Mapping[str, Any]],
) -> BaseTool:
    """Return a LangChain tool, sync and async, with which `answer` answers a query with JSON.

    A wrong argument, and a store that can't be read, come back to the model as the tool's answer with status `error`.
    `scope` is a `Scope`, its fields, or a function of the run's configuration; None is the default tenant, and anything
    else raises `InvalidInputError`.
    """
    provider = _scope_provider(scope)

    def call(config: RunnableConfig, **arguments: Any) -> str:
        reach = resolve_scope(provider, config)
        query = schema.model_construct(**arguments)  # LangChain has validated them
        try:
            return json.dumps(answer(reach, query), ensure_ascii=False)
        except InvalidInputError as error:
            raise ToolException(str(error)) from error
        except (StoreError, EmbedderError) as error:
            log_failure(_log, "memory not searched", error)
            raise ToolException(f"The memory can't be searched now ({type(error).__name__}).") from error

    return StructuredTool.from_function(
        call,
        name=name,
        description=description,
        args_schema=schema,
        handle_tool_error=True,
        handle_validation_error=partial(_complain, schema),
    )


def _scope_provider(scope: object) -> ScopeProvider:
    if scope is None:
        return Scope()
    if callable(scope):
        return scope
    return _as_scope(scope, "a Scope, or a function of the run's configuration that returns one")


def _as_scope(scope: object, allowed: str) -> Scope:
    if isinstance(scope, Mapping):
        return validate_model(Scope, scope, "scope")
    if not isinstance(scope, Scope):
        raise InvalidInputError("scope", scope, allowed)
    return scope


def resolve_scope(provider: ScopeProvider, config: RunnableConfig) -> Scope:
    """Return whose memory a call reads.

    Raises `InvalidInputError` where the function returned no scope. "Nobody" must not become the default tenant
    (STORE-3), and a model can do nothing about it: this ends the run.
    """
    if isinstance(provider, Scope):
        return provider
    return _as_scope(provider(config), "a Scope, from the function that was given for it")


def _complain(schema: type[BaseModel], error: object) -> str:
    """Return a message with the wrong arguments and the allowed values; without it, a model could only guess."""
    if not isinstance(error, ValidationError):
        return str(error)
    described = schema.model_json_schema()
    found = error.errors(include_url=False)
    return "; ".join(str(invalid_input(one, described, join_steps(one["loc"]))) for one in found)
