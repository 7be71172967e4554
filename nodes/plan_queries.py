"""plan_queries: starts a run, and chooses the next strategy and its queries (LOOP-1, LOOP-3, LOOP-7)."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Any

from langgraph.runtime import Runtime

from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.inputs import request_from_state, run_key
from recall_loop.nodes.runtime.resources import GraphNode, GraphResources, resolve_context
from recall_loop.nodes.steps.past_experience import load_experience
from recall_loop.nodes.steps.query_planning import make_plan
from recall_loop.policy.evidence.coverage import extract_facets
from recall_loop.policy.planning.round_plan import PLAN_ORIGIN
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context
from recall_loop.state.errors import RecursionLimitError, UnsupportedOptionError
from recall_loop.state.request import RetrieveRequest

CONTINUE = "continue"
MIN_RECURSION_LIMIT = 5


class PlanState(AgentState, total=False):
    """The state, and the outputs that the thread's last run left: they are no input of the next."""

    made_up: dict[str, str]


def make_node(resources: GraphResources) -> GraphNode:
    """Return the node, bound to its resources."""

    def plan_queries(state: PlanState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        context = resolve_context(runtime)
        key = run_key(state, context)
        store = resources.store_for(context)
        started: dict[str, Any] = {}
        if state.get("route") != CONTINUE or state.get("run_key") != key:
            _check_steps(state)
            started = _start(state, resources, context, store) | {"run_key": key}
        current: PlanState = {**state, **started}  # type: ignore[typeddict-item]
        run = resources.run(current, runtime)
        if started and current["in_scope"]:
            started["experience"] = current["experience"] = load_experience(run, store)
        return started | make_plan(current, run, store, runtime, PLAN_ORIGIN)

    return plan_queries


def _check_steps(state: PlanState) -> None:
    """Refuse a recursion limit that doesn't reach synthesize."""
    if state["remaining_steps"] < MIN_RECURSION_LIMIT - 1:
        raise RecursionLimitError(
            "recursion_limit", state["remaining_steps"] + 1, f"an integer of {MIN_RECURSION_LIMIT} or more"
        )


def _start(
    state: PlanState,
    resources: GraphResources,
    context: Context,
    store: MemoryStore,
) -> dict[str, Any]:
    """Return fresh working keys: nothing of an earlier run of the thread may leak in."""
    request = request_from_state(state, context, resources.settings_for(context))
    if request.write_answer and resources.chat_client_for(context) is None:
        raise UnsupportedOptionError("write_answer", True, "false or absent: no chat model is set (llm_model)")
    if resources.settings.capture_runs and not store.writable:
        raise UnsupportedOptionError("capture_runs", True, "false: the store is open for reading only")
    reference = _reference(request)
    facets = extract_facets(analyse_question(request, reference, resources.table))
    return {
        "request_id": request.id or uuid.uuid4().hex,
        "request": request.model_dump(mode="json", exclude_none=True),
        # Spelled as hardly a caller spells it, so that the next turn's own value is told from this one.
        "reference_time": reference.isoformat(timespec="microseconds"),
        "started": time.time(),
        "in_scope": store.view(request.read_scope(), content_types=request.content_types).count() > 0,
        "facets": facets,
        "uncovered": [facet["text"] for facet in facets],
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
            (
                "queries_generated",
                "queries_executed",
                "queries_dropped",
                "duplicates_merged",
                "evidence_added",
            ),
            0,
        ),
        "llm_steps": [],
        "judged_uncovered": [],
        "experience": None,
        "warnings": [],
        "degraded": False,
    }


def _reference(request: RetrieveRequest) -> datetime:
    """Return the request's now: stated, else the newest message's time, else the clock (LOOP-9)."""
    if request.reference_time is not None:
        return request.reference_time
    times = [message.timestamp for message in request.messages if message.timestamp is not None]
    return max(times) if times else datetime.now(UTC)
