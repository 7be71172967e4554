"""Additions of a language model to a plan (LOOP-3, LOOP-6).

One call chooses tool, strategy and queries, and in a refinement says what is missing and changes parameters.

A narrowing (a tool, a role, a time) holds for the model's own queries alone, on top of the request's scope and
filters: the deterministic queries of the same round search everything that the request allows. So neither a bad
choice nor a memory that tells the model what to do can hide anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from recall_loop.nodes.model.llm_step import ask_model
from recall_loop.nodes.model.prompt_builder import build_prompt, strategy_lines, tool_lines
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.planning.query_forms import make_query, shorten_query
from recall_loop.policy.planning.refinement import refine_reasons
from recall_loop.policy.planning.round_plan import REFINE_ORIGIN, LlmAdvice, PlanningContext, tool_for
from recall_loop.policy.planning.strategies import order_strategies
from recall_loop.prompts.replies import PlanReply, RefineReply
from recall_loop.state.agent_state import AgentState, LlmStep, PlannedQuery, QueryNarrowing
from recall_loop.state.types import QuerySource, Strategy, ToolName

_OFFERED_STRATEGIES = 4


def request_advice(
    state: AgentState, run: RunContext, known: PlanningContext, origin: str
) -> tuple[LlmAdvice, LlmStep]:
    """Ask for a plan; where that fails the advice is empty, and the step says why."""
    tools, strategies = _tools(run), _strategies(known)
    more = {"tools": tool_lines(tools), "strategies": strategy_lines(strategies)}
    if origin == REFINE_ORIGIN:
        calls, pool, new = state["tool_calls"], state["evidence_pool"], state["new_facts_last_iteration"]
        more["reasons"] = ", ".join(refine_reasons(calls, pool, new, run.settings))
    schema: type[PlanReply] | type[RefineReply] = RefineReply if origin == REFINE_ORIGIN else PlanReply
    prompt = build_prompt(origin, state, run, known.ranked, schema, **more)
    reply, step = ask_model(run, state, origin, prompt, schema)
    if reply is None:
        return LlmAdvice(), step
    return _advice(reply, run, tools, strategies), step


def _tools(run: RunContext) -> list[ToolName]:
    """Return the tools that search no more than the request's content types."""
    kinds = run.request.content_types
    return list(dict.fromkeys([tool_for(kinds), *(tool_for([kind]) for kind in kinds)]))


def _strategies(known: PlanningContext) -> list[Strategy]:
    """Return the strategies on offer, the one that is due first; a first round is direct."""
    if not known.outcomes:
        return [Strategy.DIRECT]
    return order_strategies(known.used, known.outcomes.values(), known.experience)[:_OFFERED_STRATEGIES]


def _advice(
    reply: PlanReply | RefineReply, run: RunContext, tools: Sequence[ToolName], strategies: Sequence[Strategy]
) -> LlmAdvice:
    narrowed = _narrowed(reply, run, tools)
    longest = run.settings.fallback_max_length
    queries = [_query(shorten_query(text, longest), narrowed) for text in reply.queries.texts()]
    strategy = reply.strategy if reply.strategy in strategies else None
    if isinstance(reply, PlanReply):
        return LlmAdvice(queries, strategy)
    return LlmAdvice(queries, strategy, reply.missing, reply.wider, reply.fuzzy)


def _query(text: str, narrowed: QueryNarrowing | None) -> PlannedQuery:
    return {**make_query(text, QuerySource.LLM), "narrowed": narrowed}


def _narrowed(reply: PlanReply | RefineReply, run: RunContext, tools: Sequence[ToolName]) -> QueryNarrowing | None:
    """Return what the model's queries are narrowed to; a tool that isn't on offer counts as none."""
    tool = reply.tool.value if reply.tool and reply.tool in tools[1:] else None
    filters = _filters(reply, run) if isinstance(reply, RefineReply) else {}
    return {"tool": tool, "filters": filters} if tool or filters else None


def _filters(reply: RefineReply, run: RunContext) -> dict[str, Any]:
    """Return filters inside of the request's own; those that contradict it or each other are left out."""
    own = run.request.filters
    found: dict[str, Any] = {}
    if reply.role is not None and own.role is None:
        found["role"] = reply.role.value
    start, end = _start(reply.start_date), _start(reply.end_date, days=1)
    starts = [time for time in (own.start_time, start) if time]
    ends = [time for time in (own.end_time, end) if time]
    if starts and ends and max(starts) >= min(ends):
        return found
    if start:
        found["start_time"] = max(starts).isoformat()
    if end:
        found["end_time"] = min(ends).isoformat()
    return found


def _start(day: date | None, days: int = 0) -> datetime | None:
    """Return the beginning of a day in UTC, `days` later; None without one, or past the end of the calendar."""
    if day is None or day > date.max - timedelta(days=1):
        return None
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=days)
