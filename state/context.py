"""Runtime context: the options of a run besides its input, as a form in Studio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.types import (
    DeadlineSeconds,
    EmbedderName,
    ExplorationFloor,
    Identifier,
    MaxContextTokens,
    MaxFacts,
    MaxIterations,
    MinNewFacts,
    ModelName,
    Patience,
    ScopeMode,
    UnitFloat,
    Utf8Text,
)

# A LangGraph server adds it to `configurable`, as an empty user if a run has no login.
_SERVER_MARK = "langgraph_auth_user_id"
# By exact class: a parent's context may have its own class, such as a named tuple.
_PLAIN = (str, bytes, int, float, bool, list, tuple, set)


class Context(BaseModel):
    """Defaults for every run of an assistant; a request's own fields override them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store_path: str | None = Field(
        None,
        description="Folder of the store, or its address in PostgreSQL; absent = the graph's or the settings'.",
        repr=False,
    )
    embedder: EmbedderName | None = Field(
        None, description="Embedder that the store at `store_path` was made with, such as provider:model."
    )
    tenant: Identifier | None = Field(None, description="Tenant whose memory is read.")
    agent_id: Identifier | None = Field(None, description="Agent whose memory is read; absent = all.")
    user_id: Identifier | None = Field(None, description="User whose memory is read; absent = all.")
    conversation_id: Identifier | None = Field(None, description="Only this conversation.")
    scope: ScopeMode | None = Field(None, title="Scope", description="local = one agent; constellation = its group.")
    max_facts: MaxFacts | None = Field(None, description="Maximum facts to return (1–1000).")
    max_iterations: MaxIterations | None = Field(None, description="Maximum search iterations of one request (1–100).")
    max_context_tokens: MaxContextTokens | None = Field(None, description="Maximum tokens of the context block.")
    deadline_seconds: DeadlineSeconds | None = Field(None, description="Stop searching after this many seconds.")
    early_stop_min_iterations: ExplorationFloor | None = Field(
        None, description="Iterations before most stop reasons apply."
    )
    novelty_min_new_facts: MinNewFacts | None = Field(None, description="Fewer new facts than this count as no gain.")
    novelty_patience: Patience | None = Field(None, description="Consecutive iterations without gain before stopping.")
    novelty_min_similarity: UnitFloat | None = Field(None, description="A fact below this similarity is never new.")
    coverage_enough: UnitFloat | None = Field(None, description="Coverage required to stop with `enough_facts`.")
    llm_model: ModelName | None = Field(
        None, title="Language model", description="Chat model that plans, judges and answers, also as provider:model."
    )
    llm_base_url: Utf8Text | None = Field(
        None,
        title="Its base URL",
        description="Base URL of its OpenAI-compatible API; the key in the settings is sent only to the URL in the "
        "settings.",
    )
    write_answer: bool | None = Field(None, description="Write an answer if a chat model is set.")

    @classmethod
    def resolve(cls, given: object, configurable: Mapping[str, Any] | None = None) -> Context:
        """Return the context of a run from the caller's context object.

        A child graph receives its parent's context object, whatever its type: from a foreign object only attributes
        with this model's names are read. `configurable` fills the fields left open.

        Raises:
            InvalidInputError: a field that is named like ours has a value out of its range, a mapping names a field
                that doesn't exist, or `given` is a plain value.
        """
        if is_plain_value(given):
            raise InvalidInputError("context", given, "a Context, or a mapping with its fields")
        configured = configurable or {}
        absent = (None, "") if _SERVER_MARK in configured else (None,)
        values = {name: configured[name] for name in cls.model_fields if configured.get(name) not in absent}
        if isinstance(given, cls):
            if not values:
                return given
            given = given.model_dump(exclude_none=True)
        elif given is not None and not isinstance(given, Mapping):
            given = {name: getattr(given, name) for name in cls.model_fields if getattr(given, name, None) is not None}
        stated = dict(given or {})
        left = validate_model(cls, {name: values[name] for name in values.keys() - stated.keys()}, "configurable")
        return validate_model(cls, left.model_dump(exclude_none=True) | stated, "context")


def is_plain_value(given: object) -> bool:
    """Return whether a value is a built-in text, number or collection, which has no fields."""
    return type(given) in _PLAIN
