"""The data of the MCP server's `retrieve`: only what its text shows, since models read it too (OPS-6).

Everything else about a retrieval is available over HTTP and from the library.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.state.display import truncate
from recall_loop.state.result import RecalledFact, RetrieveResult
from recall_loop.state.types import ConfidenceLabel, ContentType, Role, StopReason, Timestamp


class _Part(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class RecalledMemory(_Part):
    """A memory that the text shows."""

    id: str
    content_type: ContentType
    text: str
    similarity: float = Field(description="Match with the question, 0 to 1.")
    label: str | None = None
    author: str | None = None
    role: Role | None = None
    agent_name: str | None = None
    created_at: Timestamp | None = None
    valid_until: Timestamp | None = Field(None, description="When it stopped being true.")
    superseded_by: str | None = Field(None, description="Id of the newer fact that contradicts it.")
    superseded_by_hint: str | None = Field(None, description="Id of a later statement that seems to correct it.")
    source_ids: list[str] | None = Field(None, description="Memories that it was drawn from.")

    @classmethod
    def of(cls, fact: RecalledFact, most: int) -> RecalledMemory:
        """Return a fact with at most `most` characters of its text."""
        sources = [source.source_id for source in fact.evidence if source.source_id != fact.id]
        return cls.model_validate(fact).model_copy(
            update={"text": truncate(fact.text, most), "source_ids": sources or None}
        )


class RecallConfidence(_Part):
    """How sure the result is."""

    label: ConfidenceLabel
    score: float = Field(description="Probability that all of the evidence is among the first ten.")
    answerable: float | None = Field(None, description="Probability that memory holds an answer at all.")


class RecallStop(_Part):
    """Why the search ended, and after which iteration."""

    reason: StopReason
    iteration: int


class RecallResult(BaseModel):
    """Recalled facts."""

    facts: list[RecalledMemory] = Field(description="Best first.")
    left_out: int = Field(description="Facts that were found too, and are too weak or had no room in the text.")
    answer: str | None = Field(None, description="With `write_answer`.")
    confidence: RecallConfidence
    stop: RecallStop
    degraded: bool = Field(description="Whether a part of the memory is unavailable; see `warnings`.")
    warnings: list[str] | None = None

    @classmethod
    def of(cls, result: RetrieveResult) -> RecallResult:
        """Return the facts that the context of a result shows; a text that was cut there is cut here too."""
        shown = result.context_facts
        return cls(
            facts=[RecalledMemory.of(fact, len(result.context)) for fact in shown],
            left_out=len(result.facts) - len(shown),
            answer=result.answer,
            confidence=RecallConfidence.model_validate(result.confidence),
            stop=RecallStop.model_validate(result.stop),
            degraded=result.degraded,
            warnings=list(result.warnings) or None,
        )
