"""plan_queries and refine: start a run, and plan the next queries (LOOP-1, LOOP-3, LOOP-5 to LOOP-7)."""

from __future__ import annotations

import logging
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import StreamWriter

from recall_loop.nodes.model.llm_answer import request_advice
from recall_loop.nodes.model.llm_step import record_steps
from recall_loop.nodes.past_experience import load_experience
from recall_loop.nodes.runtime.inputs import complete_request, request_from_state, run_key
from recall_loop.nodes.runtime.resources import GraphResources, resolve_context
from recall_loop.nodes.runtime.run_context import RunContext, current_holder
from recall_loop.policy.planning.bridges import bridge_candidates, candidate_terms
from recall_loop.policy.planning.round_plan import (
    PLAN_ORIGIN,
    REFINE_ORIGIN,
    PlanningContext,
    PlanningResult,
    plan_next,
)
from recall_loop.policy.planning.strategies import Experience
from recall_loop.state.agent_state import AgentState, PlannedQuery, PoolEntry, initial_working_state
from recall_loop.state.context import Context
from recall_loop.state.errors import RecursionLimitError, StoreError, UnsupportedOptionError
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.run.events import QueriesPlanned
from recall_loop.state.scope import Scope
from recall_loop.state.types import Route

_log = logging.getLogger(__name__)


def make_plan(state: AgentState, run: RunContext, write: StreamWriter, origin: str) -> dict[str, Any]:
    """Return the state update with the next plan, and send it as an event."""
    ranked = run.ranked_entries(state)
    known = PlanningContext(
        question=run.question,
        ranked=ranked,
        outcomes=state["query_results"],
        used=state["strategies_used"],
        bridges=_bridges(state, run, ranked),
        uncovered=state["uncovered"],
        experience=Experience(**state["experience"]) if state["experience"] else None,
    )
    advice, step = request_advice(state, run, known, origin) if run.chat_client and state["in_scope"] else (None, None)
    planned = plan_next(
        known, run.request.content_types, run.settings, origin, run.request.filters, advice, run.parts.planning
    )
    if advice and step:
        step["detail"] = {"queries": len(advice.queries), "kept": planned.llm_queries, "missing": list(advice.missing)}
    write(_event(state, planned))
    counters = state["counters"]
    return {
        "plan": planned.plan,
        **record_steps(state, *([step] if step else [])),
        "counters": {
            **counters,
            "queries_generated": counters["queries_generated"] + planned.generated,
            "queries_dropped": counters["queries_dropped"] + len(planned.repeats),
        },
    }


def _bridges(state: AgentState, run: RunContext, ranked: list[PoolEntry]) -> list[PlannedQuery]:
    """Return bridge queries, unless one record supports the whole question."""
    if not ranked or state["single_coverage"] >= 1.0:
        return []
    candidates = bridge_candidates(run.question, ranked)
    if not candidates:
        return []
    view = run.store.view(Scope(tenant=run.request.tenant))
    try:
        frequencies, rows = view.document_frequency(candidate_terms(candidates)), view.corpus().rows
    except StoreError as error:  # the search that follows meets it too: retries, counts and reports it
        _log.warning("no bridges", extra={"error_type": type(error).__name__})
        return []
    return run.parts.planning.bridges(candidates, frequencies, rows, run.settings.fallback_max_length)


def _event(state: AgentState, planned: PlanningResult) -> QueriesPlanned:
    plan = planned.plan
    return {
        "type": "queries_planned",
        "iteration": state["iteration"] + 1,
        "strategy": plan["strategy"],
        "origin": plan["origin"],
        "tool": plan["tool"],
        "queries": [dict(query) for query in plan["queries"]],
        "missing": plan["missing"],
        "dropped_repeats": len(planned.repeats),
        "repeats": list(dict.fromkeys(planned.repeats)),
    }


MIN_RECURSION_LIMIT = 5


def plan_queries(state: AgentState, runtime: Runtime[Context], resources: GraphResources) -> dict[str, Any]:
    """Start the run unless it is on its way, and return the update with its next plan."""
    started: dict[str, Any] = {}
    if state.get("route") != Route.CONTINUE or current_holder().run is None:
        context = resolve_context(runtime)
        key = run_key(state, context)
        if state.get("route") != Route.CONTINUE or state.get("run_key") != key:
            started = _start(state, context, resources) | {"run_key": key}
    current: AgentState = {**state, **started}  # type: ignore[typeddict-item]
    return started | make_plan(current, resources.run(current, runtime), runtime.stream_writer, PLAN_ORIGIN)


def _start(state: AgentState, context: Context, resources: GraphResources) -> dict[str, Any]:
    """Open the run in the holder of this call, and return the working keys with which it begins."""
    if state["remaining_steps"] < MIN_RECURSION_LIMIT - 1:  # it doesn't reach synthesize
        raise RecursionLimitError(
            "recursion_limit", state["remaining_steps"] + 1, f"an integer of {MIN_RECURSION_LIMIT} or more"
        )
    request = _request(state, context, resources)
    run = current_holder().run = resources.run_for(request, _reference_time(request), context)
    _check_options(run)
    in_scope = run.store.view(run.scope, content_types=request.content_types).count() > 0
    return {
        **initial_working_state(),
        "request_id": request.id or uuid.uuid4().hex,
        "request": request.model_dump(mode="json", exclude_none=True),
        # In a spelling that hardly a caller uses, so that a value given for the next turn differs from this one.
        "reference_time": run.reference_time.isoformat(timespec="microseconds"),
        "started": time.time(),
        "in_scope": in_scope,
        "facets": run.facets,
        "uncovered": [facet["text"] for facet in run.facets],
        "experience": load_experience(run) if in_scope else None,
    }


def _request(state: AgentState, context: Context, resources: GraphResources) -> RetrieveRequest:
    """Return the request: the validated one that `retrieve` handed in, else the one of the state's input."""
    inputs, settings = current_holder().inputs, resources.settings_for(context)
    if inputs is not None:
        return complete_request(inputs.request, context, settings)
    return request_from_state(state, context, settings)


def _check_options(run: RunContext) -> None:
    if run.request.write_answer and run.chat_client is None:
        raise UnsupportedOptionError("write_answer", True, "false or absent: no chat model is set (llm_model)")
    if run.settings.capture_runs and not run.store.writable:
        raise UnsupportedOptionError("capture_runs", True, "false: the store is open for reading only")


def _reference_time(request: RetrieveRequest) -> datetime:
    """Return the request's now: stated, else the newest message's time, else the clock (LOOP-9)."""
    if request.reference_time is not None:
        return request.reference_time
    times = [message.timestamp for message in request.messages if message.timestamp is not None]
    return max(times) if times else datetime.now(UTC)


def refine(state: AgentState, runtime: Runtime[Context], resources: GraphResources) -> dict[str, Any]:
    """Return the update with a plan for what is missing."""
    return make_plan(state, resources.run(state, runtime), runtime.stream_writer, REFINE_ORIGIN)
