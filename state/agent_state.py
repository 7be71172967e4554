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
from recall_loop.state.run.state_entries import Facet, LlmStep, Plan, PoolEntry, QueryOutcome, ToolCallEntry
from recall_loop.state.types import ContentType, FuzzyLevel, MaxContextTokens, MaxFacts, MaxIterations, ScopeMode

# For a form: the state itself holds plain text, which any checkpointer can store.
_SCOPE_MODES: list[JsonValue] = [*map(str, ScopeMode)]
_CONTENT_TYPES: list[JsonValue] = [*map(str, ContentType)]


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
