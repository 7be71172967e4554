"""The plan of the next iteration without a language model: strategy, queries, tool, parameters (LOOP-6, LOOP-7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from recall_loop.policy.planning.bridges import BridgeCandidate, bridge_queries, feedback_queries, uncovered_queries
from recall_loop.policy.planning.member_queries import list_queries
from recall_loop.policy.planning.query_forms import RepeatFilter, fallback_queries
from recall_loop.policy.planning.refinement import NO_REFINEMENT, Refinement, refined_queries
from recall_loop.policy.planning.strategies import (
    DirectQueries,
    order_strategies,
    strategy_queries,
)
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import Plan, PlannedQuery, PoolEntry, QueryOutcome
from recall_loop.state.scope import Filters
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, SearchMode, Strategy, ToolName

PLAN_ORIGIN, REFINE_ORIGIN = "plan", "refine"
_STRATEGY_QUERIES = 2
_MINOR_LIMIT = 6
MAX_LIMIT = 1000
_TOOLS = {
    ContentType.FACT: ToolName.FACTS,
    ContentType.MESSAGE: ToolName.MESSAGES,
    ContentType.ARCHIVAL: ToolName.ARCHIVAL,
    ContentType.TRAJECTORY: ToolName.TRAJECTORIES,
}


@dataclass(frozen=True)
class PlanningParts:
    """The functions that make a plan's queries; ablations replace them to measure the value of each (OPS-4).

    Attributes:
        direct: queries of the strategy `direct`.
        bridges: queries of bridge candidates, by frequencies and number of rows.
        feedback: queries of words that the best facts share.
        gaps: queries for uncovered parts of the question.
        members: queries for further members of a list.
        strategies: the strategies that take turns.
    """

    direct: DirectQueries = fallback_queries
    bridges: Callable[[Sequence[BridgeCandidate], Mapping[str, int], int, int], list[PlannedQuery]] = bridge_queries
    feedback: Callable[[AnalysedQuestion, Sequence[PoolEntry], int], list[PlannedQuery]] = feedback_queries
    gaps: Callable[[AnalysedQuestion, Sequence[str], int], list[PlannedQuery]] = uncovered_queries
    members: Callable[..., list[PlannedQuery]] = list_queries
    strategies: frozenset[Strategy] = frozenset(Strategy)


DEFAULT_PLANNING_PARTS = PlanningParts()


@dataclass(frozen=True)
class PlanningContext:
    """The inputs of planning (LOOP-3): everything tried with its yield, and everything found, best first.

    `refinement` has the changes of a refinement (LOOP-6), `member_words` the words in memory for members of the asked
    kind (PIECES-1). `readable` is false if the store couldn't be read for bridges: there may be some.
    """

    question: AnalysedQuestion
    ranked: Sequence[PoolEntry]
    outcomes: Mapping[str, QueryOutcome]
    used: Sequence[str]
    bridges: Sequence[PlannedQuery]
    uncovered: Sequence[str] = ()
    refinement: Refinement = NO_REFINEMENT
    member_words: Sequence[str] = ()
    readable: bool = True


@dataclass(frozen=True)
class LlmAdvice:
    """A language model's contribution to a plan; its queries are added to the deterministic ones.

    Attributes:
        queries: its queries, best first.
        strategy: the strategy that it asks for; None = the next one.
        missing: the parts that it considers missing (LOOP-6).
        wider: whether to look further down the lists of results.
        fuzzy: fuzzy level of the next call, 0 to 2.
    """

    queries: Sequence[PlannedQuery] = ()
    strategy: Strategy | None = None
    missing: Sequence[str] = ()
    wider: bool = False
    fuzzy: int = 0

    @property
    def asks_for_anything(self) -> bool:
        """Whether the model wants a further round."""
        return any((self.queries, self.strategy, self.missing, self.wider, self.fuzzy))


@dataclass(frozen=True)
class PlanningResult:
    """A plan, the number of queries generated for it, the texts dropped as repeats, and the number of LLM queries."""

    plan: Plan
    generated: int
    repeats: tuple[str, ...]
    llm_queries: int = 0


def tool_for(content_types: Sequence[ContentType]) -> ToolName:
    """Return the tool that searches exactly these types; search_all for several."""
    return _TOOLS[content_types[0]] if len(content_types) == 1 else ToolName.ALL


def content_types_of(tool: ToolName, content_types: Sequence[ContentType]) -> Sequence[ContentType]:
    """Return the content types that a tool searches; search_all searches those of the request."""
    return next(([kind] for kind, name in _TOOLS.items() if name is tool), content_types)


@dataclass(frozen=True)
class QueryFingerprinter:
    """Computes fingerprints of a query's tool and filters: a query without results may run again with another one.

    The filters are those of the request and of the query itself (LOOP-4).
    """

    tool: str
    filters: Filters

    def __call__(self, query: PlannedQuery) -> str:
        """Return the fingerprint of one query."""
        narrowed = query["narrowed"]
        if not narrowed:
            return self._whole
        return _fingerprint(narrowed["tool"] or self.tool, self._given | narrowed["filters"])

    @cached_property
    def _given(self) -> dict[str, Any]:
        return self.filters.model_dump(mode="json", exclude_none=True)

    @cached_property
    def _whole(self) -> str:
        return _fingerprint(self.tool, self._given)


def _fingerprint(tool: str, filters: Mapping[str, Any]) -> str:
    return json.dumps([tool, filters], sort_keys=True)


def plan_next(
    known: PlanningContext,
    content_types: Sequence[ContentType],
    settings: Settings,
    origin: str,
    filters: Filters | None = None,
    advice: LlmAdvice | None = None,
    parts: PlanningParts = DEFAULT_PLANNING_PARTS,
) -> PlanningResult:
    """Return the next plan; it has no queries if nothing untried is left.

    The queries for a refinement's changes come first, then bridges, then those of the next strategy that has an untried
    one. A refinement adds a query for each uncovered part of the question and feedback queries, and looks deeper; a
    first iteration takes the whole fallback set. The queries of a language model come last: they pass the same repeat
    filter, and take no room from the others.

    Once something relevant was found, other wordings of the question, of its parts and of what was found bring nothing
    more: they only fill up a round that looks for something else, and without one nothing is left to search.
    """
    advice = advice or LlmAdvice()
    tool = tool_for(content_types).value
    fingerprint = QueryFingerprinter(tool, filters or Filters())
    repeats = RepeatFilter(known.outcomes, settings.repeat_similarity, fingerprint)
    most, longest = settings.fallback_max_queries, settings.fallback_max_length
    chosen: list[PlannedQuery] = []
    if known.outcomes:
        chosen = _further_queries(known, settings, filters, repeats, parts)
        untried = [query for query in advice.queries if repeats.allows(query["text"], fingerprint(query))]
        if not chosen and _only_rewords(known, settings, replace(advice, queries=untried)):
            most = 0
    strategy, rotated, offered = _next_strategy(known, settings, repeats, most - len(chosen), advice.strategy, parts)
    chosen += rotated
    generated = len(known.bridges) + offered + len(advice.queries)
    if origin == REFINE_ORIGIN and len(chosen) < most:
        more = parts.gaps(known.question, known.uncovered, longest)
        more += parts.feedback(known.question, known.ranked, longest)
        generated += len(more)
        chosen += repeats.keep(more, most - len(chosen))
    advised = repeats.keep(advice.queries, len(advice.queries))
    plan: Plan = {
        "tool": tool,
        "strategy": strategy.value,
        "queries": [{**query, "rank": rank} for rank, query in enumerate([*chosen, *advised], 1)],
        "parameters": _parameters(settings, origin, advice, known.refinement),
        "origin": origin,
        "refinement": known.refinement.notes(),
        "missing": list(dict.fromkeys([*advice.missing, *known.uncovered])),
    }
    return PlanningResult(plan, generated, tuple(repeats.dropped), len(advised))


def _further_queries(
    known: PlanningContext, settings: Settings, filters: Filters | None, repeats: RepeatFilter, parts: PlanningParts
) -> list[PlannedQuery]:
    """Return the queries of a later round that look for something else than the question does."""
    most, longest = settings.fallback_max_queries, settings.fallback_max_length
    wider = filters is None or filters.speech_acts is None
    members = parts.members(known.question, known.ranked, known.member_words, longest, narrow=wider)
    refined = refined_queries(known.question, known.refinement, longest)
    return repeats.keep([*refined, *members, *known.bridges], most - min(_STRATEGY_QUERIES, most - 1))


def _only_rewords(known: PlanningContext, settings: Settings, advice: LlmAdvice) -> bool:
    """Tell whether a further round would only ask in other words for what was found.

    It is made all the same if a model asks for it, or below a floor of more than the usual two rounds.
    """
    found = any(entry["similarity"] >= settings.novelty_min_similarity for entry in known.ranked)
    explored = len(known.used) >= settings.early_stop_min_iterations - 1
    return known.readable and found and explored and not advice.asks_for_anything


def _next_strategy(
    known: PlanningContext,
    settings: Settings,
    repeats: RepeatFilter,
    room: int,
    wanted: Strategy | None,
    parts: PlanningParts,
) -> tuple[Strategy, list[PlannedQuery], int]:
    """Return the next strategy with an untried query, its queries, and how many were offered on the way.

    A wanted strategy goes first, but not before the first iteration's fallback set. `room` is the number of queries.
    """
    most, longest = settings.fallback_max_queries, settings.fallback_max_length
    first = not known.outcomes
    order = order_strategies(known.used, known.outcomes.values())
    if wanted is not None and not first:
        order = list(dict.fromkeys([wanted, *order]))
    offered = 0
    available = [each for each in order if each in parts.strategies] if room > 0 else []
    for strategy in available:
        queries = strategy_queries(strategy, known.question, known.ranked, most, longest, parts.direct)
        offered += len(queries)
        kept = repeats.keep(queries, most if first else min(_STRATEGY_QUERIES, room))
        if kept:
            return strategy, kept, offered
    return (Strategy(known.used[-1]) if known.used else Strategy.DIRECT), [], offered


def _parameters(settings: Settings, origin: str, advice: LlmAdvice, refinement: Refinement) -> dict[str, Any]:
    """Return the search parameters; a refinement looks twice as deep, and twice again on a model's advice."""
    factor = (2 if origin == REFINE_ORIGIN else 1) * (2 if advice.wider else 1)
    limits = {"limit": settings.search_limit, "minor_limit": min(settings.search_limit, _MINOR_LIMIT)}
    parameters: dict[str, Any] = {name: min(factor * limit, MAX_LIMIT) for name, limit in limits.items()}
    parameters |= refinement.parameters()
    if advice.fuzzy and settings.search_mode is not SearchMode.VECTOR:  # vectors know no typos
        parameters["fuzzy"] = advice.fuzzy
    return parameters
