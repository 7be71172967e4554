"""evaluate_progress: novelty, coverage, and the decision to continue, refine or stop (STOP-1 to STOP-6)."""

from __future__ import annotations

import logging
import time
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import StreamWriter

from recall_loop.nodes.model.llm_answer import judge_evidence
from recall_loop.nodes.model.llm_step import record_steps
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.evidence.coverage import compute_coverage
from recall_loop.policy.evidence.members import count_new_members
from recall_loop.policy.evidence.ranking import RankedEntry, new_facts, streak_without_gain
from recall_loop.policy.stopping import RunProgress, refine_reasons, stop_figures
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context
from recall_loop.state.run.events import NoveltyMeasured
from recall_loop.state.run.state_entries import PoolEntry, QueryOutcome
from recall_loop.state.types import Route

_log = logging.getLogger(__name__)


def evaluate_progress(state: AgentState, runtime: Runtime[Context], resources: GraphResources) -> dict[str, Any]:
    """Return the update with the iteration's gain and the resulting route."""
    run = resources.run(state, runtime)
    searched = bool(state["plan"]["queries"]) and state["in_scope"]
    update = _novelty(state, run) if searched else {}
    current: AgentState = {**state, **update}  # type: ignore[typeddict-item]
    if searched:
        _log_queries(current, run)
    update |= _decide(current, run, runtime.stream_writer)
    if searched:  # the previous round's gain isn't reported again if nothing was left to search
        runtime.stream_writer(_event({**current, **update}))  # type: ignore[typeddict-item]
    return update


def _novelty(state: AgentState, run: RunContext) -> dict[str, Any]:
    """Return the counters of the iteration that just ended (STOP-1)."""
    ranked, supports = run.ranked(state), run.supported_facets
    new = new_facts(
        ranked,
        state["iteration"],
        most=run.settings.max_facts,
        least_similarity=_min_similarity(state, run),
        usual_similarity=run.settings.novelty_min_similarity,
        states=run.states,
        supports=supports,
        covered_before=frozenset(state["covered_facets"]),
    )
    relevant = [supports(entry) for entry in _relevant(ranked, run)]
    coverage = compute_coverage(state["facets"], relevant)
    failed = not state["tool_calls"][-1]["success"]
    streak = state["novelty_streak_without_gain"]
    return {
        "evidence_pool": run.mark_new(state, new),
        "query_results": _credit_queries(state, new),
        "tool_calls": [*state["tool_calls"][:-1], {**state["tool_calls"][-1], "new_facts": len(new)}],
        "new_facts_last_iteration": len(new),
        "new_facts_by_iteration": [*state["new_facts_by_iteration"], len(new)],
        # A failed call says nothing about novelty (STOP-6).
        "novelty_streak_without_gain": (
            streak if failed else streak_without_gain(streak, len(new), run.settings.novelty_min_new_facts)
        ),
        "coverage_score": coverage.score,
        "coverage_gain": round(max(coverage.score - state["coverage_score"], 0.0), 6),
        "single_coverage": coverage.best_single,
        "covered_facets": sorted(frozenset().union(*relevant)),
        "uncovered": list(coverage.uncovered),
    }


def _min_similarity(state: AgentState, run: RunContext) -> float:
    """Return the similarity from which facts are new: the setting, or the lower one of a refinement."""
    usual = run.settings.novelty_min_similarity
    return min((float(call["input"].get("min_similarity", usual)) for call in state["tool_calls"]), default=usual)


def _relevant(ranked: list[RankedEntry], run: RunContext) -> list[PoolEntry]:
    """Return the facts that may support the request: relevant ones among those that would be returned.

    A refinement's lower threshold finds more facts, but doesn't raise the confidence.
    """
    least = run.settings.novelty_min_similarity
    best = ranked[: run.settings.max_facts]
    return [item.entry for item in best if item.entry["similarity"] >= least and run.is_evidence(item.entry)]


def _credit_queries(state: AgentState, new: frozenset[str]) -> dict[str, QueryOutcome]:
    """Credit each NEW fact to the one query of the iteration that found it best, not to the whole call (LOOP-2)."""
    outcomes = dict(state["query_results"])
    for key in sorted(new):
        matches = state["evidence_pool"][key]["matches"]
        # Earlier queries may have found it with a higher score, but below the similarity from which it counts.
        now = [match for match in matches if outcomes[match["query"]]["iteration"] == state["iteration"]]
        best = max(now or matches, key=lambda match: match["score"])
        outcome = outcomes[best["query"]]
        outcomes[best["query"]] = {**outcome, "new_facts": outcome["new_facts"] + 1}
    return outcomes


def _log_queries(state: AgentState, run: RunContext) -> None:
    """Log the source and the yield of each query of the iteration (QUERY-2); its text only if requested."""
    done = [one for one in state["query_results"].values() if one["iteration"] == state["iteration"]]
    for number, outcome in enumerate(done, 1):
        said = {name: outcome[name] for name in ("iteration", "source", "strategy", "tool", "results", "new_facts")}
        said |= {"query": outcome["query"]} if run.settings.trace_content else {}
        _log.debug("query", extra={"request_id": state["request_id"], "number": number, **said})


def _decide(state: AgentState, run: RunContext, write: StreamWriter) -> dict[str, Any]:
    """Return the route, and the reason if the run stops."""
    progress = _progress(state, run)
    reason, judgement, step = judge_evidence(state, run, progress)
    update = record_steps(state, *([step] if step else []))
    if judgement is not None:
        said = judgement.model_dump(mode="json")
        update["judged_uncovered"] = said["uncovered"]
        write({"type": "judged", "iteration": state["iteration"], **said})
    if reason is not None:
        _log.info("stop", extra={"stop_reason": reason.value, "iteration": state["iteration"]})
        return update | {"route": Route.STOP.value, "stop_reason": reason.value, "stop_detail": stop_figures(progress)}
    reasons = refine_reasons(
        state["tool_calls"], state["evidence_pool"], state["new_facts_last_iteration"], run.settings
    )
    return update | {"route": (Route.REFINE if reasons else Route.CONTINUE).value}


def _progress(state: AgentState, run: RunContext) -> RunProgress:
    return RunProgress(
        iteration=state["iteration"],
        in_scope=state["in_scope"],
        calls=state["tool_calls"],
        queries_left=bool(state["plan"]["queries"]),
        coverage=state["coverage_score"],
        best_single=state["single_coverage"],
        best_similarity=max(
            (entry["similarity"] for entry in state["evidence_pool"].values() if run.is_evidence(entry)), default=0.0
        ),
        new_facts=sum(state["new_facts_by_iteration"]),
        streak=state["novelty_streak_without_gain"],
        elapsed=time.time() - state["started"],
        remaining_steps=state["remaining_steps"],
        new_members=count_new_members(run.ranked_entries(state), state["iteration"]) if run.question.listed else None,
    )


def _event(state: AgentState) -> NoveltyMeasured:
    iteration = state["iteration"]
    return {
        "type": "novelty",
        "iteration": iteration,
        "new_facts": state["new_facts_last_iteration"],
        "unique_facts": state["unique_facts_seen"],
        "coverage": state["coverage_score"],
        "coverage_gain": state["coverage_gain"],
        "uncovered": state["uncovered"],
        "yields": [
            {
                "query": outcome["query"],
                "source": outcome["source"],
                "results": outcome["results"],
                "new_facts": outcome["new_facts"],
                "error": outcome["error"],
            }
            for outcome in state["query_results"].values()
            if outcome["iteration"] == iteration
        ],
        "route": state["route"],
    }
