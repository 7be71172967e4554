"""The next iteration's plan without a language model: strategy, queries, tool and parameters (LOOP-6, LOOP-7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recall_loop.policy.feedback import feedback_queries
from recall_loop.policy.question import Question
from recall_loop.policy.repeats import RepeatFilter
from recall_loop.policy.strategies import order, queries_of
from recall_loop.state.agent_state import Plan, PlannedQuery, PoolEntry, QueryOutcome
from recall_loop.state.settings import Settings
from recall_loop.state.types import ContentType, Strategy, ToolName

PLAN, REFINE = "plan", "refine"
_STRATEGY_QUERIES = 2
_WIDEST = 200
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


@dataclass(frozen=True)
class Planned:
    """A plan, how many queries were generated for it, and how many were dropped as repeats."""

    plan: Plan
    generated: int
    dropped: int


def tool_for(content_types: Sequence[ContentType]) -> ToolName:
    """Return the tool that searches exactly these types; search_all for several."""
    return _TOOLS[content_types[0]] if len(content_types) == 1 else ToolName.ALL


def plan_next(known: Known, content_types: Sequence[ContentType], settings: Settings, origin: str) -> Planned:
    """Return the next plan; its queries are empty where nothing untried is left.

    Bridges come first, then the queries of the next strategy that has an untried one. A refinement
    also takes feedback queries and looks deeper; a first iteration takes the whole fallback set.
    """
    repeats = RepeatFilter(known.outcomes, settings.repeat_similarity)
    most = settings.fallback_max_queries
    first = not known.outcomes
    reserved = 0 if first else min(_STRATEGY_QUERIES, most - 1)
    chosen = repeats.keep(known.bridges, most - reserved) if not first else []
    generated = len(known.bridges)
    strategy = Strategy.DIRECT
    for strategy in order(known.used, known.outcomes.values()):
        offered = queries_of(strategy, known.question, known.ranked, most, settings.fallback_max_length)
        generated += len(offered)
        kept = repeats.keep(offered, most if first else min(_STRATEGY_QUERIES, most - len(chosen)))
        chosen += kept
        if kept:
            break
    if origin == REFINE and len(chosen) < most:
        offered = list(feedback_queries(known.question, known.ranked))
        generated += len(offered)
        chosen += repeats.keep(offered, most - len(chosen))
    plan: Plan = {
        "tool": tool_for(content_types).value,
        "strategy": strategy.value,
        "queries": [{**query, "rank": rank} for rank, query in enumerate(chosen, 1)],
        "parameters": _parameters(settings, origin),
        "origin": origin,
    }
    return Planned(plan, generated, repeats.dropped)


def _parameters(settings: Settings, origin: str) -> dict[str, int]:
    """Return the search parameters; a refinement looks twice as deep."""
    limit = settings.search_limit
    return {"limit": min(max(2 * limit, limit), max(limit, _WIDEST)) if origin == REFINE else limit}
