"""Scope (which records a call may read) and filters (conditions on results)."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, model_validator

from recall_loop.state.attribute_filters import ATTRIBUTES_DESCRIPTION, AttributeFilters
from recall_loop.state.errors import NOTHING, InvalidInputError
from recall_loop.state.types import (
    AgeDays,
    ComplexityLevel,
    ContentType,
    Identifier,
    Role,
    ScopeMode,
    SpeechAct,
    Timestamp,
    UnitFloat,
    Utf8Text,
)

DEFAULT_TENANT = "default"
DEFAULT_CONTENT_TYPES = (ContentType.FACT, ContentType.ARCHIVAL, ContentType.MESSAGE)


class ExecutionStatus(StrEnum):
    """How the run of a trajectory ended (TRAJ-1), independent of its learning value."""

    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    ERROR = "error"
    UNKNOWN = "unknown"


class Scope(BaseModel):
    """The part of the store that a call may read: tenant ⊃ group ⊃ agent, and user and conversation.

    Without an agent it is the whole tenant. `constellation` adds the agents of the given agent's groups; these are
    read from the store, never from the request (SEARCH-4).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: Identifier = Field(DEFAULT_TENANT, description="Tenant; tenants are fully isolated from each other.")
    agent_id: Identifier | None = Field(None, description="Agent whose memory is read; absent = all.")
    mode: ScopeMode = Field(ScopeMode.LOCAL, description="local = one agent; constellation = its group.")
    user_id: Identifier | None = Field(None, description="Only records of this user.")
    conversation_id: Identifier | None = Field(None, description="Only records of this conversation.")

    @model_validator(mode="after")
    def _constellation_needs_agent(self) -> Scope:
        if self.mode is ScopeMode.CONSTELLATION and self.agent_id is None:
            raise InvalidInputError("agent_id", NOTHING, "the agent whose group is searched, with scope=constellation")
        return self


class Filters(BaseModel):
    """Conditions on results (SEARCH-3); all given ones must hold. Unknown names are errors.

    Superseded facts are left out unless `include_superseded` is true. With `as_of` the times decide instead: records
    that existed and facts that held then. Both together give all records that existed then.

    Attributes compare by JSON type: numbers with numbers by value, text with text by code point, and true, false and
    null with themselves; a list or an object equals nothing and stands in no order. `ne` passes a record without the
    attribute; `eq` null passes it too, as null and absent are not told apart but by `exists`.

    The fields from `execution_status` on apply to trajectories only: with any of them nothing else matches. They are
    read from a record's attributes (`RunData`). A trajectory without a status is `unknown`; one without a numeric
    score is unscored, and outside every bound.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_ids: tuple[Identifier, ...] | None = Field(None, description="Any of these agents.")
    role: Role | None = Field(None, description="Role of the speaker.")
    start_time: Timestamp | None = Field(None, description="Created at or after this time (UTC).")
    end_time: Timestamp | None = Field(None, description="Created before this time (UTC).")
    label: Utf8Text | None = Field(None, description="Exactly this label.")
    tags: tuple[Identifier, ...] | None = Field(None, max_length=100, description="All of these tags.")
    fact_type: Utf8Text | None = Field(None, description="Exactly this fact type.")
    conversation_id: Identifier | None = Field(None, description="Exactly this conversation.")
    session: Identifier | None = Field(None, description="Exactly this session.")
    user_id: Identifier | None = Field(None, description="Exactly this user.")
    speech_acts: tuple[SpeechAct, ...] | None = Field(
        None, description="A sentence with any of these speech acts: statement, question, request and so on."
    )
    attributes: AttributeFilters | None = Field(None, description=ATTRIBUTES_DESCRIPTION)
    min_similarity: UnitFloat | None = Field(None, description="Similarity at least this, in [0,1].")
    include_superseded: bool | None = Field(
        None, description="True: also superseded facts; otherwise only current ones."
    )
    as_of: Timestamp | None = Field(
        None, description="Records as of this time (UTC): none made later, no fact that had ended."
    )
    execution_status: ExecutionStatus | None = Field(None, description="How the run of a trajectory ended.")
    min_outcome_score: UnitFloat | None = Field(None, description="Learning value of a trajectory at least this.")
    max_outcome_score: UnitFloat | None = Field(None, description="Learning value of a trajectory at most this.")
    above_outcome_score: UnitFloat | None = Field(None, description="Learning value of a trajectory more than this.")
    below_outcome_score: UnitFloat | None = Field(None, description="Learning value of a trajectory less than this.")
    scored: bool | None = Field(None, description="True: trajectories with a learning value; false: those without.")
    tools_used: tuple[Utf8Text, ...] | None = Field(
        None, max_length=100, description="All of these tools were used in a trajectory's run."
    )
    task_category: Utf8Text | None = Field(None, description="Exactly this category of a trajectory's task.")
    complexity_level: ComplexityLevel | None = Field(None, description="How hard the task of a trajectory was.")

    @model_validator(mode="after")
    def _ranges(self) -> Filters:
        if self.start_time and self.end_time and self.start_time >= self.end_time:
            end = f"a time before end_time, which is {self.end_time.isoformat()}"
            raise InvalidInputError("start_time", self.start_time.isoformat(), end)
        low, high = self.min_outcome_score, self.max_outcome_score
        if low is not None and high is not None and low > high:
            raise InvalidInputError("min_outcome_score", low, f"at most max_outcome_score, which is {high}")
        for name in ("agent_ids", "speech_acts", "tags", "tools_used"):
            if getattr(self, name) == ():
                raise InvalidInputError(name, [], "at least one value, or leave it out")
        return self

    @property
    def default_content_types(self) -> tuple[ContentType, ...]:
        """The content types of a search that names none: trajectories where a filter asks for them."""
        if any(getattr(self, name) is not None for name in TRAJECTORY_FILTERS):
            return (ContentType.TRAJECTORY,)
        return DEFAULT_CONTENT_TYPES


TRAJECTORY_FILTERS = tuple(Filters.model_fields)[list(Filters.model_fields).index("execution_status") :]
"""The filters that only trajectories can meet: those from `execution_status` on."""


class RetentionRule(BaseModel):
    """A rule for records to erase (LIVE-7): those that meet all its conditions, at least one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kinds: tuple[ContentType, ...] | None = Field(None, description="Of one of these kinds.")
    roles: tuple[Role, ...] | None = Field(None, description="Said in one of these roles.")
    speech_acts: tuple[SpeechAct, ...] | None = Field(
        None, description="Every sentence is one of these: a message that says something else too stays."
    )
    older_than_days: AgeDays | None = Field(
        None, description="Created so many days ago, or earlier; records without `created_at` stay."
    )

    @model_validator(mode="after")
    def _names_something(self) -> RetentionRule:
        given = {name: getattr(self, name) for name in type(self).model_fields}
        if all(value is None for value in given.values()):
            raise ValueError(f"a rule that names at least one of {', '.join(given)}")
        for name, value in given.items():
            if value == ():
                raise InvalidInputError(name, [], "at least one value, or leave it out")
        return self
