"""Progress events: what a run reports while it works, through the graph's stream writer.

Each event is a plain mapping with a `type`; the CLI, the service and the inspector read the same ones.
"""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict


class QueriesPlanned(TypedDict):
    """Queries chosen for the coming call.

    `dropped_repeats` counts what the repeat filter left out; `repeats` has their texts, each once. `refinement` has the
    reasons of a refinement and what it changes, as `Plan` says; it is empty for other rounds.
    """

    type: Literal["queries_planned"]
    iteration: int
    strategy: str
    origin: str
    tool: str
    refinement: dict[str, Any]
    queries: list[dict[str, Any]]
    missing: list[str]
    dropped_repeats: int
    repeats: list[str]


class CallCompleted(TypedDict):
    """A search call ended."""

    type: Literal["call_done"]
    iteration: int
    tool: str
    result_count: int
    attempts: int
    duration_ms: float
    error: str | None


class QueryYield(TypedDict):
    """The yield of one query of the iteration; a fact counts as new for the query that found it best."""

    query: str
    source: str
    results: int
    new_facts: int
    error: str | None


class NoveltyMeasured(TypedDict):
    """The gain of the iteration, query by query and as a whole, and where the run goes next."""

    type: Literal["novelty"]
    iteration: int
    new_facts: int
    unique_facts: int
    coverage: float
    coverage_gain: float
    uncovered: list[str]
    yields: list[QueryYield]
    route: str


class SufficiencyJudged(TypedDict):
    """A language model was asked whether the evidence is enough."""

    type: Literal["judged"]
    iteration: int
    stop: bool
    confidence: str
    uncovered: list[str]
    reason: str


class AnswerToken(TypedDict):
    """The written answer grew by `text`; after `answer_reset` it starts over."""

    type: Literal["answer_token"]
    text: str


class AnswerReset(TypedDict):
    """The answer shown so far doesn't count: the language model is asked again, or failed."""

    type: Literal["answer_reset"]


class RunStopped(TypedDict):
    """The run ended."""

    type: Literal["stopped"]
    iteration: int
    reason: str
    detail: dict[str, Any]


ProgressEvent = (
    QueriesPlanned | CallCompleted | NoveltyMeasured | SufficiencyJudged | RunStopped | AnswerToken | AnswerReset
)
