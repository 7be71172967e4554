"""execute_tool: runs the planned queries in one search call, with retries, and merges what they found."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from recall_loop.memory.search.query.query_spec import SearchResponse
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.nodes.steps.tool_search import search_with_retries
from recall_loop.policy.evidence.llm_query_weight import question_terms, weight_llm_queries
from recall_loop.policy.evidence.merging import QueryHits, merge_hits
from recall_loop.policy.planning.round_plan import QueryFingerprinter
from recall_loop.state.agent_state import AgentState, Plan, QueryOutcome, ToolCallEntry
from recall_loop.state.context import Context
from recall_loop.state.run.events import CallCompleted

_TOP_HITS = 10


def execute_tool(state: AgentState, runtime: Runtime[Context], resources: GraphResources) -> dict[str, Any]:
    """Return the update with what the plan's queries found; nothing where there are none."""
    plan = state["plan"]
    if not plan["queries"] or not state["in_scope"]:
        return {}
    run = resources.run(state, runtime)
    began = time.perf_counter()
    deadline = state["started"] + (run.settings.deadline_seconds or math.inf)
    responses, attempts, error = search_with_retries(plan, run, deadline)
    call = _call(plan, state["iteration"] + 1, responses, attempts, error)
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
    plan: Plan, iteration: int, responses: Sequence[SearchResponse], attempts: int, error: str | None
) -> ToolCallEntry:
    best: dict[str, float] = {}
    for query, response in zip(plan["queries"], responses, strict=False):
        for hit in response.hits:
            best[hit.record.id] = max(best.get(hit.record.id, 0.0), hit.similarity * query["weight"])
    top = sorted(best.values(), reverse=True)[:_TOP_HITS]
    return {
        "name": plan["tool"],
        "input": {"queries": [query["text"] for query in plan["queries"]], **plan["parameters"]},
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
    found = [QueryHits(query, response.hits) for query, response in zip(plan["queries"], responses, strict=False)]
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
    """Return the outcome of each query; NEW facts are credited when they are known."""
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
