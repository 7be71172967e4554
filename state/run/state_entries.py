"""Entries of the graph's state (LOOP-2): plain typed dictionaries, which decisions read without LangGraph.

Everything in them is plain JSON, as in all of the state (`agent_state`).
"""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict


class Facet(TypedDict):
    """One part of the request that evidence must support (STOP-5).

    `terms` are its stems; `alternatives` gives for each the stems of its synonyms, and of those of several words the
    stems of all with a space around each (` belong to `).
    """

    text: str
    kind: str
    terms: list[str]
    alternatives: dict[str, list[str]]
    weight: float


class QueryNarrowing(TypedDict):
    """A narrowing of one query, by a language model or to a time; never beyond the request's own `filters`."""

    tool: str | None
    filters: dict[str, Any]


class PlannedQuery(TypedDict):
    """One query with its origin and the weight of its hits (QUERY-2).

    A bridge (QUERY-4) also names its seed (the key of the fact that it starts from), the entity that
    only the seed names, and the question's words that the seed doesn't have. `spoken` is the wording that
    is embedded where it isn't `text`: an embedder reads a sentence better than its bare content words.
    `narrowed` is set where the query searches less than the call's tool does.
    """

    text: str
    spoken: str | None
    source: str
    rank: int
    weight: float
    seed: str | None
    entity: str | None
    missing: list[str]
    narrowed: QueryNarrowing | None


class QueryOutcome(TypedDict):
    """The outcome of one query, credited to it alone (LOOP-2)."""

    query: str
    source: str
    strategy: str
    iteration: int
    tool: str
    fingerprint: str
    results: int
    new_facts: int
    error: str | None


class ToolCallEntry(TypedDict):
    """One call of a search tool, with everything needed to judge it later."""

    name: str
    input: dict[str, Any]
    strategy: str
    iteration: int
    result_count: int
    new_facts: int
    mean_similarity: float
    success: bool
    attempts: int
    duration_ms: float
    error: str | None


class QueryMatch(TypedDict):
    """One query that found a pool entry."""

    query: str
    source: str
    iteration: int
    score: float
    similarity: float


class PoolEntry(TypedDict):
    """One fact of the evidence pool: the record as found, and everything that supports it (RANK-2).

    `alignment` is that of `SearchHit` with the question itself; empty where only other queries found the fact.
    `said` has id and time of each record that says it.
    """

    key: str
    record: dict[str, Any]
    window: str
    similarity: float
    relevance: float
    alignment: list[float]
    said: list[list[str | None]]
    matches: list[QueryMatch]
    evidence: list[dict[str, Any]]
    evidence_keys: list[str]
    first_iteration: int
    is_new: bool
    legs: dict[str, Any]


class Plan(TypedDict):
    """The next tool call: set by plan_queries or refine, spent by execute_tool.

    `missing` says which parts of the question are still uncovered, `refinement` why a refinement is made and what it
    changes: reasons, corrected, fuzzy, min_similarity, dropped_filters, each only where it has a value (LOOP-6).
    """

    tool: str
    strategy: str
    queries: list[PlannedQuery]
    parameters: dict[str, Any]
    origin: str
    refinement: dict[str, Any]
    missing: list[str]


class LlmStep(TypedDict):
    """One step that asked a language model, with what it cost and why it failed if it did (LOOP-8).

    `rung` is the output method that gave the reply, and `model` the name of the model, which may be a fallback.
    `attempts` holds for every call, in the order of the models, its method and `ok` or the failure.
    `detail` says what became of the reply: queries that were kept, a judgement with the metrics beside it.
    """

    step: str
    iteration: int
    rung: str | None
    model: str | None
    attempts: list[list[str]]
    calls: int
    tokens: int
    cached: bool
    failure: str | None
    reason: str | None
    duration_ms: float
    detail: dict[str, Any]
