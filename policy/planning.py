"""The next iteration's plan without a language model: strategy, queries, tool and parameters (LOOP-6, LOOP-7)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recall_loop.policy.feedback import feedback_queries, missing_queries
from recall_loop.policy.question import Question
from recall_loop.policy.repeats import RepeatFilter
from recall_loop.policy.strategies import order, queries_of
from recall_loop.state.agent_state import Plan, PlannedQuery, PoolEntry, QueryOutcome
from recall_loop.state.scope import Filters
from recall_loop.state.settings import Settings
from recall_loop.state.types import ContentType, Strategy, ToolName

PLAN, REFINE = "plan", "refine"
_STRATEGY_QUERIES = 2
_MAJOR_WEIGHT = 0.8
_MINOR_LIMIT = 6
MOST_LIMIT = 1000
_TOOLS = {
    ContentType.FACT: ToolName.FACTS,
    ContentType.MESSAGE: ToolName.MESSAGES,
    ContentType.ARCHIVAL: ToolName.ARCHIVAL,
    ContentType.TRAJECTORY: ToolName.TRAJECTORIES,
}


@dataclass(frozen=True)
class Known:
    """What planning sees (LOOP-3): everything tried with its yield, and everything found, best first."""

    question: Question
    ranked: Sequence[PoolEntry]
    outcomes: Mapping[str, QueryOutcome]
    used: Sequence[str]
    bridges: Sequence[PlannedQuery]
    uncovered: Sequence[str] = ()


@dataclass(frozen=True)
class Planned:
    """A plan, how many queries were generated for it, and how many were dropped as repeats."""

    plan: Plan
    generated: int
    dropped: int


def tool_for(content_types: Sequence[ContentType]) -> ToolName:
    """Return the tool that searches exactly these types; search_all for several."""
    return _TOOLS[content_types[0]] if len(content_types) == 1 else ToolName.ALL


def types_of(tool: ToolName, content_types: Sequence[ContentType]) -> Sequence[ContentType]:
    """Return the content types that a tool searches; search_all searches those of the request."""
    return next(([kind] for kind, name in _TOOLS.items() if name is tool), content_types)


def fingerprint(tool: str, filters: Filters) -> str:
    """Return what makes a query without results worth asking again: another tool, or other filters (LOOP-4)."""
    return json.dumps([tool, filters.model_dump(mode="json", exclude_none=True)], sort_keys=True)


def plan_next(
    known: Known,
    content_types: Sequence[ContentType],
    settings: Settings,
    origin: str,
    filters: Filters | None = None,
) -> Planned:
    """Return the next plan; its queries are empty where nothing untried is left.

    Bridges come first, then the queries of the next strategy that has an untried one. A refinement also asks
    for each part of the question that is still uncovered, takes feedback queries and looks deeper; a first
    iteration takes the whole fallback set.
    """
    tool = tool_for(content_types).value
    repeats = RepeatFilter(known.outcomes, settings.repeat_similarity)
    mark = fingerprint(tool, filters or Filters())
    most = settings.fallback_max_queries
    first = not known.outcomes
    reserved = 0 if first else min(_STRATEGY_QUERIES, most - 1)
    chosen = repeats.keep(known.bridges, most - reserved, mark) if not first else []
    generated = len(known.bridges)
    used = Strategy(known.used[-1]) if known.used else Strategy.DIRECT
    for strategy in order(known.used, known.outcomes.values()):
        offered = queries_of(strategy, known.question, known.ranked, most, settings.fallback_max_length)
        generated += len(offered)
        kept = repeats.keep(offered, most if first else min(_STRATEGY_QUERIES, most - len(chosen)), mark)
        chosen += kept
        if kept:
            used = strategy
            break
    if origin == REFINE and len(chosen) < most:
        longest = settings.fallback_max_length
        offered = missing_queries(known.question, known.uncovered, longest)
        offered += feedback_queries(known.question, known.ranked, longest)
        generated += len(offered)
        chosen += repeats.keep(offered, most - len(chosen), mark)
    plan: Plan = {
        "tool": tool,
        "strategy": used.value,
        "queries": [{**query, "rank": rank} for rank, query in enumerate(chosen, 1)],
        "parameters": _parameters(settings, origin),
        "origin": origin,
        "missing": list(known.uncovered),
    }
    return Planned(plan, generated, repeats.dropped)


def limit_name(weight: float) -> str:
    """Return which parameter limits a query's results: those of a minor query only count at its top."""
    return "limit" if weight >= _MAJOR_WEIGHT else "minor_limit"


def _parameters(settings: Settings, origin: str) -> dict[str, int]:
    """Return the search parameters; a refinement looks twice as deep."""
    limit = settings.search_limit
    minor = min(limit, _MINOR_LIMIT)
    if origin != REFINE:
        return {"limit": limit, "minor_limit": minor}
    return {"limit": min(2 * limit, MOST_LIMIT), "minor_limit": min(2 * minor, MOST_LIMIT)}
