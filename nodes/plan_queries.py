"""plan_queries: starts a run, and plans the next queries (LOOP-1, LOOP-3, LOOP-7)."""

from __future__ import annotations

import logging
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from langgraph.runtime import Runtime

from recall_loop.nodes.runtime.inputs import complete_request, request_from_state, run_key
from recall_loop.nodes.runtime.resources import GraphResources, resolve_context
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.nodes.runtime.run_holder import current_holder
from recall_loop.nodes.steps.query_planning import make_plan
from recall_loop.policy.planning.round_plan import (
    PLAN_ORIGIN,
)
from recall_loop.state.agent_state import AgentState, initial_working_state
from recall_loop.state.context import Context
from recall_loop.state.errors import (
    RecursionLimitError,
    StoreUnavailableError,
    StoreUnusableError,
    UnsupportedOptionError,
)
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.run.patience import waiting_at_most
from recall_loop.state.types import Route, SearchMode
from recall_loop.telemetry.logs import log_failure

_log = logging.getLogger(__name__)
MIN_RECURSION_LIMIT = 5


def plan_queries(state: AgentState, runtime: Runtime[Context], resources: GraphResources) -> dict[str, Any]:
    """Start the run unless it has started, and return the update with its next plan."""
    started: dict[str, Any] = {}
    if state.get("route") != Route.CONTINUE or current_holder().run is None:
        context = resolve_context(runtime)
        key = run_key(state, context)
        if state.get("route") != Route.CONTINUE or state.get("run_key") != key:
            started = _start(state, context, resources) | {"run_key": key}
    current: AgentState = {**state, **started}  # type: ignore[typeddict-item]
    run = resources.run(current, runtime)
    with waiting_at_most(run.seconds_left(current["started"])):
        return started | make_plan(current, run, runtime.stream_writer, PLAN_ORIGIN)


def _start(state: AgentState, context: Context, resources: GraphResources) -> dict[str, Any]:
    """Open the run in the holder of this call, and return the initial values of its working keys."""
    if state["remaining_steps"] < MIN_RECURSION_LIMIT - 1:  # too few steps to reach synthesize
        raise RecursionLimitError(
            "recursion_limit", state["remaining_steps"] + 1, f"an integer of {MIN_RECURSION_LIMIT} or more"
        )
    request = _request(state, context, resources)
    run = current_holder().run = resources.run_for(request, _reference_time(request), context)
    _check_options(run)
    began = time.time()
    with waiting_at_most(run.seconds_left(began) / 2):  # the search that follows has the rest
        in_scope = _is_in_scope(run)
    return {
        **initial_working_state(),
        "request_id": request.id or uuid.uuid4().hex,
        "request": request.model_dump(mode="json", exclude_none=True),
        # In a format that hardly any caller uses, so that a value given for the next turn differs from this one.
        "reference_time": run.reference_time.isoformat(timespec="microseconds"),
        "started": began,
        "in_scope": in_scope,
        "facets": run.facets,
        "uncovered": [facet["text"] for facet in run.facets],
        "degraded": run.missing_store is not None,
        "warnings": [run.missing_store] if run.missing_store else [],
    }


def _is_in_scope(run: RunContext) -> bool:
    """Tell whether the scope has any record."""
    try:
        return run.store.view(run.scope, content_types=run.request.content_types).count() > 0
    except StoreUnusableError:  # the caller has to fix it
        raise
    except StoreUnavailableError as error:  # the search that follows also fails: it retries, counts and reports it
        log_failure(_log, "scope not counted", error)
        return True


def _request(state: AgentState, context: Context, resources: GraphResources) -> RetrieveRequest:
    """Return the request: the validated one passed by `retrieve`, else the one in the state's input."""
    inputs, settings = current_holder().inputs, resources.settings_for(context)
    if inputs is not None:
        return complete_request(inputs.request, context, settings)
    return request_from_state(state, context, settings)


def _check_options(run: RunContext) -> None:
    if run.request.write_answer and run.chat_client is None:
        raise UnsupportedOptionError("write_answer", True, "false or absent: no chat model is set (llm_model)")
    if run.request.fuzzy and run.settings.search_mode is SearchMode.VECTOR:
        raise UnsupportedOptionError("fuzzy", run.request.fuzzy, "0: search_mode vector looks up no words")
    if run.settings.capture_runs and not run.store.writable:
        raise UnsupportedOptionError("capture_runs", True, "false: the store is open for reading only")


def _reference_time(request: RetrieveRequest) -> datetime:
    """Return the request's reference time: stated, else the newest message's time, else the clock's (LOOP-9)."""
    if request.reference_time is not None:
        return request.reference_time
    times = [message.timestamp for message in request.messages if message.timestamp is not None]
    return max(times) if times else datetime.now(UTC)
