"""The graph's state (LOOP-2): one typed dictionary, and the narrow schemas at its edges.

Everything in it is plain JSON, so that a checkpoint written by any checkpointer, with strict
msgpack or without, reads back as it was. Vectors never enter it. No working key has a reducer:
the first node of each run resets them, so that a thread invoked twice starts clean.
"""

from __future__ import annotations

from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from recall_loop.state.language_codes import QUERY_LANGUAGE, LanguageCode
from recall_loop.state.types import ContentType, FuzzyLevel, MaxContextTokens, MaxFacts, MaxIterations, ScopeMode

# For a form: the state itself holds plain text, which any checkpointer keeps.
_SCOPE_MODES: list[JsonValue] = [*map(str, ScopeMode)]
_CONTENT_TYPES: list[JsonValue] = [*map(str, ContentType)]


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
    """One query with where it came from and what its hits are worth (QUERY-2).

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

    `rung` is the output method that gave the reply. `attempts` holds for every call its method and `ok` or the failure.
    `detail` says what became of the reply: queries that were kept, a judgement with the metrics beside it.
    """

    step: str
    iteration: int
    rung: str | None
    attempts: list[list[str]]
    calls: int
    tokens: int
    cached: bool
    failure: str | None
    reason: str | None
    duration_ms: float
    detail: dict[str, Any]


class InputState(TypedDict, total=False):
    """What a caller hands in: `messages` alone is enough."""

    messages: Annotated[
        list[AnyMessage], Field(description="The conversation; the user's last message is the question."), add_messages
    ]
    request_id: Annotated[str, Field(description="Name of the request in its result; absent = generated.")]
    goal: Annotated[str, Field(description="What the answer is for, in addition to the question.")]
    tenant: Annotated[str, Field(description="Whose memory is read; nothing crosses tenants.")]
    agent_id: Annotated[str, Field(description="Agent whose memory is read; absent = all.")]
    user_id: Annotated[str, Field(description="User whose memory is read; absent = all.")]
    conversation_id: Annotated[str, Field(description="Only this conversation; absent = all.")]
    scope: Annotated[
        str,
        Field(description="local = one agent; constellation = its group.", json_schema_extra={"enum": _SCOPE_MODES}),
    ]
    filters: Annotated[
        dict[str, Any],
        Field(description="What records must satisfy: role, start_time, end_time, label, tags, min_similarity, …"),
    ]
    content_types: Annotated[
        list[str],
        Field(
            description="What to search; absent = all but trajectories, or they alone where a filter asks for them.",
            json_schema_extra={"items": {"type": "string", "enum": _CONTENT_TYPES}},
        ),
    ]
    fuzzy: FuzzyLevel
    language: Annotated[LanguageCode, Field(description=QUERY_LANGUAGE)]
    max_facts: MaxFacts
    max_iterations: MaxIterations
    max_context_tokens: MaxContextTokens
    write_answer: Annotated[bool, Field(description="Write an answer where a chat model is set.")]
    reference_time: Annotated[
        str, Field(description="Now, as 2024-05-01T09:30:00Z; absent = time of the newest message, else the clock.")
    ]
    debug: Annotated[bool, Field(description="Add score components and the trace to the result.")]


class ResultState(TypedDict, total=False):
    """The result's keys (`RetrieveResult`), as plain JSON."""

    request_id: str
    reference_time: str
    facts: list[dict[str, Any]]
    context: str
    answer: str | None
    confidence: dict[str, Any]
    stop: dict[str, Any]
    metadata: dict[str, Any]
    degraded: bool
    warnings: list[str]


class MessageOutput(ResultState, total=False):
    """Output of `build_graph(output="message")`: the result, and `messages` with the context block."""

    messages: Annotated[list[AnyMessage], add_messages]


class AgentState(InputState, ResultState, total=False):
    """Everything that the loop knows between two nodes.

    `made_up` has the outputs of the thread's last run that are inputs too: they aren't input of its next run.
    """

    run_key: str
    made_up: dict[str, str]
    request: dict[str, Any]
    in_scope: bool
    facets: list[Facet]
    plan: Plan
    tried_queries: list[str]
    query_results: dict[str, QueryOutcome]
    tool_calls: list[ToolCallEntry]
    evidence_pool: dict[str, PoolEntry]
    new_facts_last_iteration: int
    new_facts_by_iteration: list[int]
    novelty_streak_without_gain: int
    unique_facts_seen: int
    coverage_score: float
    coverage_gain: float
    single_coverage: float
    covered_facets: list[int]
    uncovered: list[str]
    iteration: int
    strategies_used: list[str]
    stop_reason: str
    stop_detail: dict[str, Any]
    route: str
    counters: dict[str, int]
    llm_steps: list[LlmStep]
    judged_uncovered: list[str]
    started: float
    remaining_steps: RemainingSteps


def initial_working_state() -> dict[str, Any]:
    """Return the working keys of a run that begins: nothing of an earlier run of the thread may leak in."""
    return {
        "tried_queries": [],
        "query_results": {},
        "tool_calls": [],
        "evidence_pool": {},
        "new_facts_last_iteration": 0,
        "new_facts_by_iteration": [],
        "novelty_streak_without_gain": 0,
        "unique_facts_seen": 0,
        "coverage_score": 0.0,
        "coverage_gain": 0.0,
        "single_coverage": 0.0,
        "covered_facets": [],
        "iteration": 0,
        "strategies_used": [],
        "stop_reason": "",
        "stop_detail": {},
        "route": "",
        "counters": dict.fromkeys(
            ("queries_generated", "queries_executed", "queries_dropped", "duplicates_merged", "evidence_added"), 0
        ),
        "llm_steps": [],
        "judged_uncovered": [],
        "warnings": [],
        "degraded": False,
    }
