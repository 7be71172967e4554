"""One search call: the planned queries, with retries and backoff (STOP-6)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from typing import Any

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
)

from recall_loop.memory.search.query.search_response import SearchResponse
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
    responses: list[SearchResponse] = []
    failure: RecallError | None = None
    with span(names.TOOL_SPAN.format(tool=plan["tool"]), labels) as opened:
        set_content(opened, names.TOOL_ARGUMENTS, {"queries": [query["text"] for query in plan["queries"]]})
        try:
            responses = retrying(_search_groups, plan, run)
        except (StoreError, EmbedderError) as error:
            failure = error
            record_error(opened, error)
        attempts = int(retrying.statistics["attempt_number"])
        if opened.is_recording():
            results = len({hit.record.id for response in responses for hit in response.hits})
            told: dict[str, Any] = {
                names.STRATEGY: plan["strategy"],
                names.QUERIES: len(plan["queries"]),
                names.RESULTS: results,
                names.ATTEMPTS: attempts,
            }
            set_attributes(opened, told)
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


def _search_groups(plan: Plan, run: RunContext) -> list[SearchResponse]:
    """Search all queries, those that are narrowed in the same way together, and return responses in their order."""
    groups: dict[str, list[int]] = {}
    for at, query in enumerate(plan["queries"]):
        groups.setdefault(json.dumps(query["narrowed"], sort_keys=True), []).append(at)
    found: dict[int, SearchResponse] = {}
    for places in groups.values():
        found |= zip(places, _search_group(plan, run, [plan["queries"][at] for at in places]), strict=True)
    return [found[at] for at in range(len(plan["queries"]))]


def _search_group(plan: Plan, run: RunContext, queries: Sequence[PlannedQuery]) -> list[SearchResponse]:
    narrowed, filters = queries[0]["narrowed"], run.request.filters
    tool = plan["tool"]
    if narrowed:
        tool = narrowed["tool"] or tool
        filters = Filters.model_validate(filters.model_dump(exclude_none=True) | narrowed["filters"])
    params = SearchParams(
        filters=filters,
        content_types=content_types_of(ToolName(tool), run.request.content_types),
        mode=run.settings.search_mode,
        limit=plan["parameters"]["limit"],
        fuzzy=plan["parameters"].get("fuzzy", 0),
        time_suffixes=False,  # times in a question are the planner's
        rerank_pool=MAX_RERANK_POOL,
        rerank_learned=run.settings.learned_order,
        debug=run.request.debug,
    )
    return run.parts.search(
        run.store,
        [query["text"] for query in queries],
        scope=run.scope,
        params=params,
        spoken=[query["spoken"] or query["text"] for query in queries],
        limits=[plan["parameters"][limit_parameter(query["weight"])] for query in queries],
    )
