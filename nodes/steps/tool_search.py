"""One search call: the planned queries, with retries and backoff (STOP-6)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
)

from recall_loop.memory.search.query.query_spec import SearchResponse
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.planning.round_plan import content_types_of, limit_parameter
from recall_loop.state.agent_state import Plan, PlannedQuery
from recall_loop.state.errors import EmbedderError, RecallError, StoreError
from recall_loop.state.scope import Filters
from recall_loop.state.search import MAX_RERANK_POOL, SearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ToolName
from recall_loop.telemetry import names
from recall_loop.telemetry.spans import record_error, set_attributes, set_content, span

_log = logging.getLogger(__name__)


def search_with_retries(plan: Plan, run: RunContext, deadline: float) -> tuple[list[SearchResponse], int, str | None]:
    """Search with retries and backoff until `deadline`; return responses, attempts, and the error that used them up."""
    labels = {names.OPERATION: "execute_tool", names.TOOL: plan["tool"], names.TOOL_TYPE: "datastore"}
    retrying = _retrying(run.settings, deadline)
    found: dict[int, SearchResponse] = {}
    failure: RecallError | None = None
    with span(names.TOOL_SPAN.format(tool=plan["tool"]), labels) as opened:
        set_content(opened, names.TOOL_ARGUMENTS, {"queries": [query["text"] for query in plan["queries"]]})
        try:
            for attempt in retrying:
                with attempt:
                    for places, arguments in _searches(plan, run):
                        found |= zip(places, run.parts.search(run.store, **arguments), strict=True)
        except (StoreError, EmbedderError) as error:
            failure = error
            found.clear()
            record_error(opened, error)
        attempts = int(retrying.statistics["attempt_number"])
        if opened.is_recording():
            results = len({hit.record.id for response in found.values() for hit in response.hits})
            attributes: dict[str, Any] = {
                names.STRATEGY: plan["strategy"],
                names.QUERIES: len(plan["queries"]),
                names.RESULTS: results,
                names.ATTEMPTS: attempts,
            }
            set_attributes(opened, attributes)
    responses = [found[place] for place in sorted(found)]
    return responses, attempts, None if failure is None else f"{type(failure).__name__}: {failure}"


def _retrying(settings: Settings, deadline: float) -> Retrying:
    """Return the tries of one call: none is begun whose wait would end after `deadline`."""
    return Retrying(
        retry=retry_if_exception_type((StoreError, EmbedderError)),
        stop=stop_after_attempt(settings.tool_attempts) | stop_before_delay(deadline - time.time()),
        wait=wait_exponential(multiplier=settings.tool_backoff_seconds),
        after=_log_failure,
        reraise=True,
    )


def _log_failure(tries: RetryCallState) -> None:
    error = tries.outcome.exception() if tries.outcome else None
    _log.warning("search failed", extra={"attempt": tries.attempt_number, "error_type": type(error).__name__})


def _searches(plan: Plan, run: RunContext) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """Yield the searches of a plan, one for each tool: the places of its queries in the plan, and the arguments."""
    tools = [(query["narrowed"] and query["narrowed"]["tool"]) or plan["tool"] for query in plan["queries"]]
    for tool in dict.fromkeys(tools):
        places = [place for place, name in enumerate(tools) if name == tool]
        queries = [plan["queries"][place] for place in places]
        yield (
            places,
            {
                "queries": [query["text"] for query in queries],
                "scope": run.scope,
                "params": _params(tool, plan, run),
                "filters": [_filters(query, run) for query in queries],
                "spoken": [query["spoken"] or query["text"] for query in queries],
                "limits": [plan["parameters"][limit_parameter(query["weight"])] for query in queries],
            },
        )


def _params(tool: str, plan: Plan, run: RunContext) -> SearchParams:
    return SearchParams(
        filters=run.request.filters,
        content_types=content_types_of(ToolName(tool), run.request.content_types),
        mode=run.settings.search_mode,
        limit=plan["parameters"]["limit"],
        fuzzy=plan["parameters"].get("fuzzy", 0),
        time_suffixes=False,  # times in a question are the planner's
        rerank_pool=MAX_RERANK_POOL,
        rerank_learned=run.settings.learned_order,
        debug=run.request.debug,
    )


def _filters(query: PlannedQuery, run: RunContext) -> Filters:
    """Return the request's filters, and on top of them what the query is narrowed to."""
    if not query["narrowed"] or not query["narrowed"]["filters"]:
        return run.request.filters
    return Filters.model_validate(run.request.filters.model_dump(exclude_none=True) | query["narrowed"]["filters"])
