"""synthesize: ranks over all iterations, cuts, and builds the result (RANK-3, LOOP-10, CONF)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from recall_loop.nodes.model.llm_answer import write_answer
from recall_loop.nodes.model.llm_step import record_steps, usage_totals
from recall_loop.nodes.runtime.inputs import cleared_inputs
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.nodes.steps.context_block import recall_message, render_context
from recall_loop.nodes.steps.run_capture import capture_finished_run
from recall_loop.nodes.steps.run_confidence import measure_confidence
from recall_loop.nodes.steps.selected_facts import select_facts
from recall_loop.nodes.steps.stored_texts import read_sources, with_stored_parts
from recall_loop.policy.confidence.relevance import rate_relevance
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.statements import acts_of
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context
from recall_loop.state.run.state_entries import LlmStep, PoolEntry
from recall_loop.state.types import Route

_FACT_FIELDS = (
    "label",
    "agent_id",
    "agent_name",
    "user_id",
    "conversation_id",
    "author",
    "role",
    "created_at",
    "updated_at",
    "valid_until",
    "superseded_by",
    "superseded_by_hint",
    "superseded_reason",
)


def synthesize(
    state: AgentState, runtime: Runtime[Context], resources: GraphResources, *, append_message: bool = False
) -> dict[str, Any]:
    """Return the update with the result; with `append_message` also with the context block as a message."""
    run = resources.run(state, runtime)
    ranked = read_sources(select_facts(state, run, run.settings.max_facts), run)
    confidence, abstains = measure_confidence(state, run, ranked, resources.calibration)
    ranked = rate_relevance(ranked, confidence["answerable"] if abstains else 1.0)
    stop = {"reason": state["stop_reason"], "iteration": state["iteration"], "detail": state["stop_detail"]}
    runtime.stream_writer({"type": "stopped", **stop})
    whole = with_stored_parts(ranked, run)
    answer, step = write_answer(state, run, ranked, confidence["label"], runtime.stream_writer)
    noted = record_steps(state, *([step] if step else []))
    metadata = _metadata(state, run, confidence["score"], noted.pop("llm_steps", state["llm_steps"]))
    result: dict[str, Any] = {
        "facts": [_fact(item, run.request.debug) for item in whole],
        "context": render_context(run, ranked, whole, confidence["label"], state["stop_reason"]),
        "answer": answer,
        "confidence": confidence,
        "stop": stop,
        "metadata": {name: value for name, value in metadata.items() if run.request.debug or name != "trace"},
        **noted,
    }
    captured = capture_finished_run(state, run, {**result, "metadata": metadata})
    if failed := [each for each in (run.unread, captured) if each]:
        result |= {"warnings": [*result.get("warnings", state["warnings"]), *failed], "degraded": True}
    run.store.count_recalls((fact["id"] for fact in result["facts"]), tenant=run.scope.tenant)
    if append_message:
        result["messages"] = [recall_message(state["messages"], result, run.request)]
    return result | {"route": Route.DONE.value, **cleared_inputs(state)}


def _fact(item: RankedEntry, debug: bool) -> dict[str, Any]:
    entry, record = item.entry, item.entry["record"]
    fact: dict[str, Any] = {
        "id": record["id"],
        "content_type": record["kind"],
        "text": record["text"],
        "similarity": item.similarity,
        "score": item.score,
        "relevance": item.relevance,
        **{name: record.get(name) for name in _FACT_FIELDS},
        "tags": record["tags"],
        "evidence": entry["evidence"],
        **_repeats(entry),
    }
    if debug:
        fact["debug"] = {
            "novelty_added": entry["is_new"],
            "supporting_evidence_count": len(entry["evidence_keys"]),
            "query_coverage_count": len({match["query"] for match in entry["matches"]}),
            "first_iteration": entry["first_iteration"],
            "components": item.components,
            "alignment": entry["alignment"],
            "speech_acts": sorted(act.value for act in acts_of(entry)),
            "matches": entry["matches"],
            "legs": entry["legs"],
        }
    return fact


def _repeats(entry: PoolEntry) -> dict[str, Any]:
    """Return how often a fact was said, and the first and last time (LIVE-6)."""
    times = sorted(time for _, time in entry["said"] if time)
    return {
        "count": len(entry["said"]),
        "first_said": times[0] if times else None,
        "last_said": times[-1] if times else None,
    }


def _metadata(state: AgentState, run: RunContext, confidence: float, steps: Sequence[LlmStep]) -> dict[str, Any]:
    """Return the counters of the run (OPS-3), and its trace."""
    counters = state["counters"]
    return {
        **counters,
        "iterations": state["iteration"],
        "new_facts_by_iteration": state["new_facts_by_iteration"],
        "unique_facts_seen": state["unique_facts_seen"],
        "coverage": state["coverage_score"],
        "uncovered": state["uncovered"],
        "strategies_used": state["strategies_used"],
        **usage_totals(run.chat_client.name if run.chat_client else None, steps),
        "confidence_score": confidence,
        "duration_ms": round((time.time() - state["started"]) * 1000, 3),
        "trace": {
            "facets": state["facets"],
            "tool_calls": state["tool_calls"],
            "query_results": list(state["query_results"].values()),
            "llm_steps": list(steps),
        },
    }
