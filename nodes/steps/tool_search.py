"""One search call: the planned queries, with retries and backoff (STOP-6)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence

from recall_loop.memory.search.query.options import MAX_POOL, SearchOptions, SearchResponse
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.resources import RunContext
from recall_loop.policy.planning.round_plan import content_types_of, limit_parameter
from recall_loop.state.agent_state import Plan, PlannedQuery
from recall_loop.state.errors import EmbedderError, RecallError, StoreError
from recall_loop.state.scope import Filters
from recall_loop.state.types import ToolName
from recall_loop.telemetry import names
from recall_loop.telemetry.spans import record_error, set_attributes, set_content, span

_log = logging.getLogger(__name__)


def search_with_retries(
    store: MemoryStore, plan: Plan, run: RunContext, deadline: float
) -> tuple[list[SearchResponse], int, str | None]:
    """Search with retries and backoff until `deadline`; return responses, attempts, and the error that used them up."""
    told = {names.OPERATION: "execute_tool", names.TOOL: plan["tool"], names.TOOL_TYPE: "datastore"}
    with span(names.TOOL_SPAN.format(tool=plan["tool"]), told) as opened:
        set_content(opened, names.TOOL_ARGUMENTS, {"queries": [query["text"] for query in plan["queries"]]})
        found, attempts, error = _retry_search(store, plan, run, deadline)
        results = len({hit.record.id for response in found for hit in response.hits}) if opened.is_recording() else 0
        set_attributes(
            opened,
            {
                names.STRATEGY: plan["strategy"],
                names.QUERIES: len(plan["queries"]),
                names.RESULTS: results,
                names.ATTEMPTS: attempts,
            },
        )
        if error is not None:
            record_error(opened, error)
    return found, attempts, None if error is None else f"{type(error).__name__}: {error}"


def _retry_search(
    store: MemoryStore, plan: Plan, run: RunContext, deadline: float
) -> tuple[list[SearchResponse], int, RecallError | None]:
    """Return responses, attempts, and the error of the last."""
    settings = run.settings
    for attempt in range(1, settings.tool_attempts + 1):
        try:
            found = _search_groups(store, plan, run)
        except (StoreError, EmbedderError) as error:
            _log.warning("search failed", extra={"attempt": attempt, "error_type": type(error).__name__})
            wait = settings.tool_backoff_seconds * 2 ** (attempt - 1)
            if attempt == settings.tool_attempts or time.time() + wait >= deadline:
                return [], attempt, error
            time.sleep(wait)
        else:
            return found, attempt, None
    raise AssertionError("unreachable: the last attempt returns")


def _search_groups(store: MemoryStore, plan: Plan, run: RunContext) -> list[SearchResponse]:
    """Search all queries, those that are narrowed in the same way together, and return responses in their order."""
    groups: dict[str, list[int]] = {}
    for at, query in enumerate(plan["queries"]):
        groups.setdefault(json.dumps(query["narrowed"], sort_keys=True), []).append(at)
    found: dict[int, SearchResponse] = {}
    for places in groups.values():
        found |= zip(places, _search_group(store, plan, run, [plan["queries"][at] for at in places]), strict=True)
    return [found[at] for at in range(len(plan["queries"]))]


def _search_group(
    store: MemoryStore, plan: Plan, run: RunContext, queries: Sequence[PlannedQuery]
) -> list[SearchResponse]:
    narrowed, filters = queries[0]["narrowed"], run.request.filters
    tool = plan["tool"]
    if narrowed:
        tool = narrowed["tool"] or tool
        filters = Filters.model_validate(filters.model_dump(exclude_none=True) | narrowed["filters"])
    options = SearchOptions(
        mode=run.settings.search_mode,
        limit=plan["parameters"]["limit"],
        fuzzy=plan["parameters"].get("fuzzy", 0),
        time_suffixes=False,  # times in a question are the planner's
        rerank_pool=MAX_POOL,
        rerank_learned=run.settings.learned_order,
        debug=run.request.debug,
    )
    return run.parts.search(
        store,
        [query["text"] for query in queries],
        scope=run.scope,
        filters=filters,
        content_types=content_types_of(ToolName(tool), run.request.content_types),
        options=options,
        spoken=[query["spoken"] or query["text"] for query in queries],
        limits=[plan["parameters"][limit_parameter(query["weight"])] for query in queries],
    )
