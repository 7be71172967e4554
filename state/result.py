"""The result of a retrieval: ranked facts with provenance, confidence, the stop reason and counters."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.state.types import ConfidenceLabel, ContentType, Role, StopReason, Timestamp


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Evidence(_Frozen):
    """One source that supports a fact."""

    source_id: str
    snippet: str
    author: str | None = None
    created_at: Timestamp | None = None


class RecalledFact(_Frozen):
    """One retrieved item of any content type; `id` is the record's id as ingested."""

    id: str
    content_type: ContentType
    text: str
    similarity: float = Field(description="Match with the request in [0,1], comparable across requests.")
    score: float = Field(description="Final ranking value in [0,1].")
    relevance: float = Field(
        0.0, description="Fitted probability that it matters for the question; see the setting `context_floor`."
    )
    label: str | None = None
    agent_id: str | None = None
    agent_name: str | None = None
    user_id: str | None = None
    conversation_id: str | None = None
    tags: tuple[str, ...] = ()
    author: str | None = None
    role: Role | None = None
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    valid_until: Timestamp | None = Field(None, description="When its statement stopped being true, exclusive.")
    superseded_by: str | None = Field(
        None, description="Id of the newer fact that contradicts it, or part of it if it is a message."
    )
    superseded_by_hint: str | None = Field(
        None,
        description="Id of a later statement that seems to correct it (LIVE-4). A guess from the wording, whereas "
        "`superseded_by` is known; not set for a question about the past.",
    )
    superseded_reason: str | None = Field(None, description="Why it seems to be corrected, in words.")
    evidence: tuple[Evidence, ...] = ()
    count: int = Field(1, ge=1, description="How often it was said: exact and near repeats are one fact.")
    first_said: Timestamp | None = Field(None, description="When it was first said.")
    last_said: Timestamp | None = Field(None, description="When it was last said.")
    debug: dict[str, Any] | None = None


class Confidence(_Frozen):
    """How sure the result is (CONF-1, CONF-2)."""

    label: ConfidenceLabel
    score: float = Field(description="Fitted probability that all of the evidence is among the first ten facts.")
    answerable: float | None = Field(
        None, description="Fitted probability that memory holds an answer at all; null if the mapping has none."
    )
    raw_score: float = Field(description="Weighted sum of the components in [0,1].")
    components: dict[str, float] = Field(description="Each component in [0,1].")
    signals: dict[str, float] = Field(
        default_factory=dict, description="Further inputs of the mapping, each in [-1,1] (CONF-4)."
    )
    calibration_id: str = Field(description="Name of the mapping behind the score.")


class Stop(_Frozen):
    """Why the run ended, after which iteration, with the figures that decided it (STOP-2)."""

    reason: StopReason
    iteration: int
    detail: dict[str, Any]


class RetrieveResult(_Frozen):
    """Result of one retrieval request."""

    request_id: str
    reference_time: Timestamp
    facts: tuple[RecalledFact, ...]
    context: str = Field(description="The facts as cited text, ready to paste into a prompt (LOOP-10).")
    answer: str | None = Field(description="Written answer with citations; null without a language model.")
    confidence: Confidence
    stop: Stop
    metadata: dict[str, Any] = Field(description="Counters of the run (OPS-3); with debug also the trace.")
    degraded: bool = Field(description="True when a part of the system was missing; see warnings.")
    warnings: tuple[str, ...] = ()

    @property
    def context_facts(self) -> tuple[RecalledFact, ...]:
        """The facts that `context` shows, best first; the others are too weak for it, or found no room."""
        lines = self.context.splitlines()
        starts = [(fact, f"[{' '.join(fact.id.split())}] ") for fact in self.facts]
        return tuple(fact for fact, start in starts if any(line.startswith(start) for line in lines))
