"""execute_tool: one search call of the planned queries, merged into the evidence."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from recall_loop.memory.search.engine import words_alone
from recall_loop.memory.search.query.query_preparation import SearchResponse
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.nodes.steps.plan_search import search_with_retries
from recall_loop.policy.evidence.llm_query_weight import question_terms, weight_llm_queries
from recall_loop.policy.evidence.merging import QueryHits, merge_hits
from recall_loop.policy.planning.query_search import query_mode, similarity_weight
from recall_loop.policy.planning.round_plan import QueryFingerprinter
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context
from recall_loop.state.run.events import CallCompleted
from recall_loop.state.run.state_entries import Plan, PlannedQuery, QueryOutcome, ToolCallEntry
from recall_loop.text.words.passages import READ_CHARACTERS

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
    call = _call(plan, state["iteration"] + 1, responses, attempts, error, run)
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
    run: RunContext,
) -> ToolCallEntry:
    best: dict[str, float] = {}
    for query, response in zip(plan["queries"], responses, strict=False):
        weight = _similarity_weight(query, run)
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


def _similarity_weight(query: PlannedQuery, run: RunContext) -> float:
    return similarity_weight(query, query_mode(query, run.search_mode), run.settings.search_mode)


def _update(
    state: AgentState, run: RunContext, call: ToolCallEntry, responses: Sequence[SearchResponse]
) -> dict[str, Any]:
    plan, counters = state["plan"], state["counters"]
    found = [
        QueryHits(query, response.hits, similarity_weight=_similarity_weight(query, run))
        for query, response in zip(plan["queries"], responses, strict=False)
    ]
    records = [hit.record for response in responses for hit in response.hits]
    run.long_texts |= {record.id: record.text for record in records if len(record.text) > READ_CHARACTERS}
    run.tags |= {record.id: record.tags for record in records}
    if run.chat_client is not None:
        ranked = run.ranked_entries(state)
        found = weight_llm_queries(found, question_terms(run.question, run.request.messages, state["facets"]), ranked)
    merged = merge_hits(state["evidence_pool"], found, call["iteration"], run.terms)
    degraded = next((response.degraded_reason for response in responses if response.degraded_reason), None)
    warnings = state["warnings"] + ([call["error"]] if call["error"] else [])
    unembedded = words_alone(run.unembedded) if run.unembedded is not None and call["success"] else None
    warnings += [each for each in (degraded, unembedded) if each and each not in warnings]
    return {
        "evidence_pool": merged.pool,
        "tool_calls": [*state["tool_calls"], call],
        "tried_queries": [*state["tried_queries"], *(query["text"] for query in plan["queries"])],
        "query_results": {**state["query_results"], **_outcomes(plan, run, call, responses)},
        "strategies_used": list(dict.fromkeys([*state["strategies_used"], plan["strategy"]])),
        "iteration": call["iteration"],
        "unique_facts_seen": len(merged.pool),
        "warnings": warnings,
        "degraded": state["degraded"] or bool(degraded or unembedded) or not call["success"],
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
