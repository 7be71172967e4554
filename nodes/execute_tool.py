"""execute_tool: one search call of the planned queries, with retries (STOP-6), merged into the evidence."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

from langgraph.runtime import Runtime
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
)

from recall_loop.memory.search.query.query_preparation import SearchResponse
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.evidence.llm_query_weight import question_terms, weight_llm_queries
from recall_loop.policy.evidence.merging import QueryHits, merge_hits
from recall_loop.policy.planning.query_search import is_reranked, limit_parameter, query_mode, similarity_weight
from recall_loop.policy.planning.round_plan import QueryFingerprinter, content_types_of
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context
from recall_loop.state.errors import EmbedderError, RecallError, StoreError
from recall_loop.state.language_codes import LanguageCode
from recall_loop.state.run.events import CallCompleted
from recall_loop.state.run.state_entries import Plan, PlannedQuery, QueryOutcome, ToolCallEntry
from recall_loop.state.scope import Filters
from recall_loop.state.search import MAX_RERANK_POOL, SearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import SearchMode, ToolName
from recall_loop.telemetry import names
from recall_loop.telemetry.logs import log_failure
from recall_loop.telemetry.spans import record_error, set_attributes, set_content, span
from recall_loop.text.words.languages import ENGLISH
from recall_loop.text.words.passages import READ_CHARACTERS

_log = logging.getLogger(__name__)


def search_with_retries(plan: Plan, run: RunContext, deadline: float) -> tuple[list[SearchResponse], int, str | None]:
    """Search with retries and backoff until `deadline`; return responses, attempts, and the error of the last one."""
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
        retrying.iter_state.reset()  # breaks a reference cycle with `retrying`
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
    return responses, attempts, None if failure is None else f"{type(failure).__name__}: {failure.told}"


# Made once: each instance is a reference cycle, left to the garbage collector.
_TRANSIENT = retry_if_exception_type((StoreError, EmbedderError))


def _retrying(settings: Settings, deadline: float) -> Retrying:
    """Return the attempts of one call: none starts if its wait would end after `deadline`."""
    return Retrying(
        retry=_TRANSIENT,
        stop=stop_after_attempt(settings.tool_attempts) | stop_before_delay(deadline - time.time()),
        wait=wait_exponential(multiplier=settings.tool_backoff_seconds),
        after=_log_failure,
        reraise=True,
    )


def _log_failure(tries: RetryCallState) -> None:
    error = tries.outcome.exception() if tries.outcome else None
    log_failure(_log, "search failed", error, attempt=tries.attempt_number)


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
                "limits": [plan["parameters"][limit_parameter(query)] for query in queries],
                "modes": [query_mode(query, run.settings.search_mode) for query in queries],
                "reranked": list(map(is_reranked, queries)),
            },
        )


def _params(tool: str, plan: Plan, run: RunContext) -> SearchParams:
    return SearchParams(
        filters=run.request.filters,
        content_types=content_types_of(ToolName(tool), run.request.content_types),
        mode=run.settings.search_mode,
        limit=plan["parameters"]["limit"],
        fuzzy=max(run.request.fuzzy, plan["parameters"].get("fuzzy", 0)),
        language=_language(run),
        time_suffixes=False,  # times in a question are the planner's
        rerank_pool=MAX_RERANK_POOL,
        rerank_learned=run.settings.learned_order,
        debug=run.request.debug,
    )


def _language(run: RunContext) -> LanguageCode | None:
    """Return the language of a run's queries: they are too short to detect it, but the question isn't."""
    asked = run.question.language
    return run.request.language or (None if asked == ENGLISH else cast("LanguageCode", asked))


def _filters(query: PlannedQuery, run: RunContext) -> Filters:
    """Return the request's filters, narrowed by those of the query."""
    if not query["narrowed"] or not query["narrowed"]["filters"]:
        return run.request.filters
    return Filters.model_validate(run.request.filters.model_dump(exclude_none=True) | query["narrowed"]["filters"])


_TOP_HITS = 10


def execute_tool(state: AgentState, runtime: Runtime[Context], resources: GraphResources) -> dict[str, Any]:
    """Return the update with the results of the plan's queries; empty if there are none."""
    plan = state["plan"]
    if not plan["queries"] or not state["in_scope"]:
        return {}
    run = resources.run(state, runtime)
    began = time.perf_counter()
    deadline = state["started"] + (run.settings.deadline_seconds or math.inf)
    responses, attempts, error = search_with_retries(plan, run, deadline)
    call = _call(plan, state["iteration"] + 1, responses, attempts, error, run.settings.search_mode)
    call["duration_ms"] = round((time.perf_counter() - began) * 1000, 3)
    event: CallCompleted = {
        "type": "call_done",
        "iteration": call["iteration"],
        "tool": call["name"],
        "result_count": call["result_count"],
        "attempts": attempts,
        "duration_ms": call["duration_ms"],
        "error": error,
    }
    runtime.stream_writer(event)
    return _update(state, run, call, responses)


def _call(
    plan: Plan,
    iteration: int,
    responses: Sequence[SearchResponse],
    attempts: int,
    error: str | None,
    usual: SearchMode,
) -> ToolCallEntry:
    best: dict[str, float] = {}
    for query, response in zip(plan["queries"], responses, strict=False):
        weight = similarity_weight(query, usual)
        for hit in response.hits:
            best[hit.record.id] = max(best.get(hit.record.id, 0.0), hit.similarity * weight)
    top = sorted(best.values(), reverse=True)[:_TOP_HITS]
    return {
        "name": plan["tool"],
        "input": {"queries": [query["text"] for query in plan["queries"]], **plan["parameters"], **plan["refinement"]},
        "strategy": plan["strategy"],
        "iteration": iteration,
        "result_count": len(best),
        "new_facts": 0,
        "mean_similarity": round(sum(top) / len(top), 6) if top else 0.0,
        "success": error is None,
        "attempts": attempts,
        "duration_ms": 0.0,
        "error": error,
    }


def _update(
    state: AgentState, run: RunContext, call: ToolCallEntry, responses: Sequence[SearchResponse]
) -> dict[str, Any]:
    plan, counters = state["plan"], state["counters"]
    usual = run.settings.search_mode
    found = [
        QueryHits(query, response.hits, similarity_weight=similarity_weight(query, usual))
        for query, response in zip(plan["queries"], responses, strict=False)
    ]
    records = [hit.record for response in responses for hit in response.hits]
    run.long_texts |= {record.id: record.text for record in records if len(record.text) > READ_CHARACTERS}
    if run.chat_client is not None:
        ranked = run.ranked_entries(state)
        found = weight_llm_queries(found, question_terms(run.question, run.request.messages, state["facets"]), ranked)
    merged = merge_hits(state["evidence_pool"], found, call["iteration"], run.terms)
    degraded = next((response.degraded_reason for response in responses if response.degraded_reason), None)
    warnings = state["warnings"] + ([call["error"]] if call["error"] else [])
    if degraded and degraded not in warnings:
        warnings = [*warnings, degraded]
    return {
        "evidence_pool": merged.pool,
        "tool_calls": [*state["tool_calls"], call],
        "tried_queries": [*state["tried_queries"], *(query["text"] for query in plan["queries"])],
        "query_results": {**state["query_results"], **_outcomes(plan, run, call, responses)},
        "strategies_used": list(dict.fromkeys([*state["strategies_used"], plan["strategy"]])),
        "iteration": call["iteration"],
        "unique_facts_seen": len(merged.pool),
        "warnings": warnings,
        "degraded": state["degraded"] or bool(degraded) or not call["success"],
        "counters": {
            **counters,
            "queries_executed": counters["queries_executed"] + len(plan["queries"]),
            "duplicates_merged": counters["duplicates_merged"] + merged.duplicates,
            "evidence_added": counters["evidence_added"] + merged.new_evidence,
        },
    }


def _outcomes(
    plan: Plan, run: RunContext, call: ToolCallEntry, responses: Sequence[SearchResponse]
) -> dict[str, QueryOutcome]:
    """Return the outcome of each query; NEW facts are credited later, once they are known."""
    mark = QueryFingerprinter(plan["tool"], run.request.filters)
    counts = [len(response.hits) for response in responses] or [0] * len(plan["queries"])
    return {
        query["text"]: {
            "query": query["text"],
            "source": query["source"],
            "strategy": plan["strategy"],
            "iteration": call["iteration"],
            "tool": (query["narrowed"] and query["narrowed"]["tool"]) or plan["tool"],
            "fingerprint": mark(query),
            "results": count,
            "new_facts": 0,
            "error": call["error"],
        }
        for query, count in zip(plan["queries"], counts, strict=True)
    }
