"""synthesize: ranks over all iterations, cuts, and makes the result (RANK-3, LOOP-10, CONF)."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.runtime import Runtime

from recall_loop.memory.store.sqlite.fact_keys import superseded_sources
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.model.llm_answer import write_answer
from recall_loop.nodes.model.llm_step import recorded, totals
from recall_loop.nodes.runtime.inputs import RECALL_MARK, role_of, spent_inputs
from recall_loop.nodes.runtime.resources import Node, Resources, Run
from recall_loop.nodes.steps.past_experience import captured
from recall_loop.policy.confidence.confidence_mapping import Calibration
from recall_loop.policy.confidence.confidence_score import (
    RAW,
    Signals,
    abstention,
    components,
    compute_confidence,
    compute_confidence_score,
)
from recall_loop.policy.confidence.confidence_signals import BEST, LOOKED_AT, signals_of
from recall_loop.policy.evidence.coverage import covered
from recall_loop.policy.evidence.evidence_folding import absorb, unread_sources, with_sources
from recall_loop.policy.evidence.ranking import Ranked, diversified
from recall_loop.policy.evidence.superseded_last import Outdated, behind, fact_ids
from recall_loop.policy.prompting.context_block import memory_lines
from recall_loop.prompts.templates import render
from recall_loop.state.agent_state import AgentState, LlmStep
from recall_loop.state.context import Context
from recall_loop.state.errors import StoreError
from recall_loop.state.types import Role
from recall_loop.text.words.token_budget import estimate_tokens

_log = logging.getLogger(__name__)
_COPIED = (
    "label",
    "agent_id",
    "agent_name",
    "author",
    "role",
    "created_at",
    "updated_at",
    "valid_until",
    "superseded_by",
)


def make(resources: Resources, output: str) -> Node:
    """Return the node, bound to its resources; with output "message" it appends the context block."""

    def synthesize(state: AgentState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        run = resources.run(state, runtime)
        store, most = resources.store_for(run.context), run.settings.max_facts
        ranked = _sourced(_final(state, run, store, most), run, store)
        confidence = _confidence(state, run, store, ranked, resources.calibration)
        stop = {
            "reason": state["stop_reason"],
            "iteration": state["iteration"],
            "detail": state["stop_detail"],
        }
        runtime.stream_writer({"type": "stopped", **stop})
        answer, step = write_answer(state, run, ranked, confidence["label"], runtime.stream_writer)
        noted = recorded(state, *([step] if step else []))
        metadata = _metadata(state, run, confidence["score"], noted.pop("llm_steps", state["llm_steps"]))
        result: dict[str, Any] = {
            "facts": [_fact(item, run.request.debug) for item in ranked],
            "context": _context(run, ranked, confidence["label"], state["stop_reason"]),
            "answer": answer,
            "confidence": confidence,
            "stop": stop,
            "metadata": metadata if run.request.debug else _without_trace(metadata),
            **noted,
        }
        warning = captured(state, run, store, {**result, "metadata": metadata})
        if warning is not None:
            result |= {"warnings": [*result.get("warnings", state["warnings"]), warning], "degraded": True}
        result |= {"route": "done", **spent_inputs(state)}
        if output == "message":
            result["messages"] = [_message(state["messages"], result["context"])]
        resources.forget(state)
        return result

    return synthesize


def _final(state: AgentState, run: Run, store: MemoryStore, most: int) -> list[Ranked]:
    """Rank globally, fold messages into the facts drawn from them, and cut only then.

    A search keeps what is similar enough to its query; here the similarity with the request counts (SEARCH-3).
    """
    settings, least = run.settings, run.request.filters.min_similarity or 0.0
    similar = [item for item in run.memo.ranked(state["evidence_pool"]) if item.entry["similarity"] >= least]
    varied = diversified(similar, settings.duplicate_similarity, settings.rank_crowding_weight)
    return absorb(_current(varied, run, store), most, run.terms)


def _current(ranked: list[Ranked], run: Run, store: MemoryStore) -> list[Ranked]:
    """Put messages that said what has been superseded behind the facts that hold now."""
    facts = fact_ids(ranked)
    try:
        found = superseded_sources(store.sidecar, run.scope, facts) if facts else {}
    except StoreError as error:
        _log.warning("superseded facts not read", extra={"error_type": type(error).__name__})
        return ranked
    return behind(ranked, {source: Outdated(*by) for source, by in found.items()})


def _sourced(ranked: Sequence[Ranked], run: Run, store: MemoryStore) -> list[Ranked]:
    """Read the sources that the returned facts name and the loop didn't find, as far as the scope allows."""
    wanted = unread_sources(ranked)
    try:
        found = store.get(wanted, scope=run.scope) if wanted else []
    except StoreError as error:
        _log.warning("sources not read", extra={"error_type": type(error).__name__})
        return list(ranked)
    records = {record.id: record.model_dump(mode="json", exclude={"attributes", "blocks"}) for record in found}
    return with_sources(ranked, records, run.terms)


def _confidence(
    state: AgentState, run: Run, store: MemoryStore, ranked: Sequence[Ranked], calibration: Calibration
) -> dict[str, Any]:
    """Return components, signals, raw and calibrated score, whether memory holds an answer, and label (CONF).

    Signals are of the best twenty facts even where fewer are returned, since the mapping was fitted so. Where fewer
    than ten are found at all the score is at most the raw one.
    """
    parts = components(
        Signals(
            ranked=ranked,
            coverage=state["coverage_score"],
            single=state["single_coverage"],
            calls=state["tool_calls"],
            least_similarity=run.settings.novelty_min_similarity,
        )
    )
    looked_at = ranked if run.settings.max_facts >= LOOKED_AT else _final(state, run, store, LOOKED_AT)
    first = [run.memo.supports(state["facets"], item.entry) for item in looked_at[:1]]
    signals = signals_of(looked_at, run.question, covered(state["facets"], first).single)
    raw = compute_confidence_score(parts)
    values = {RAW: raw, **parts, **signals}
    score, answerable = calibration.score(values), calibration.holds_answer(values)
    if not ranked:
        score, answerable = 0.0, None if answerable is None else 0.0
    if len(looked_at) < BEST:  # in a memory of a few records the first stands out whatever is asked
        score = min(score, raw)
    thresholds = (calibration.thresholds.medium, calibration.thresholds.high)
    least = calibration.answerable.abstain_below if calibration.answerable else None
    abstains = abstention(answerable, run.settings, least)
    return {
        "label": compute_confidence(score, parts, run.settings, thresholds, abstains=abstains).value,
        "score": score,
        "answerable": answerable,
        "raw_score": raw,
        "components": parts,
        "signals": signals,
        "calibration_id": calibration.id,
    }


def _fact(item: Ranked, debug: bool) -> dict[str, Any]:
    entry, record = item.entry, item.entry["record"]
    fact: dict[str, Any] = {
        "id": record["id"],
        "content_type": record["kind"],
        "text": record["text"],
        "similarity": entry["similarity"],
        "score": item.score,
        **{name: record.get(name) for name in _COPIED},
        "evidence": entry["evidence"],
    }
    if debug:
        fact["debug"] = {
            "novelty_added": entry["is_new"],
            "supporting_evidence_count": len(entry["evidence_keys"]),
            "query_coverage_count": len({match["query"] for match in entry["matches"]}),
            "first_iteration": entry["first_iteration"],
            "components": item.components,
            "matches": entry["matches"],
            "legs": entry["legs"],
        }
    return fact


def _context(run: Run, ranked: Sequence[Ranked], confidence: str, stop: str) -> str:
    """Return the context block within the token budget; empty without facts."""
    if not ranked:
        return ""
    frame = {"confidence": confidence, "stop": stop}
    budget = run.settings.max_context_tokens - estimate_tokens(render("context", memories="", **frame))
    lines = memory_lines([item.entry for item in ranked], max(budget, 0), run.terms)
    return render("context", memories="\n".join(lines), **frame) if lines else ""


def _metadata(state: AgentState, run: Run, confidence: float, steps: Sequence[LlmStep]) -> dict[str, Any]:
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
        **totals(run.door.name if run.door else None, steps),
        "confidence_score": confidence,
        "duration_ms": round((time.time() - state["started"]) * 1000, 3),
        "trace": {
            "facets": state["facets"],
            "tool_calls": state["tool_calls"],
            "query_results": list(state["query_results"].values()),
            "llm_steps": list(steps),
            "experience": state["experience"],
        },
    }


def _without_trace(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != "trace"}


def _message(messages: Sequence[AnyMessage], context: str) -> HumanMessage:
    """Return the context block as a message whose id is the same each time the same turn is recalled.

    A turn is known by its question, so that what an agent's own steps append meanwhile changes nothing.
    """
    others = [message for message in messages if not message.additional_kwargs.get(RECALL_MARK)]
    asked = next((message for message in reversed(others) if role_of(message) == Role.USER), others[-1])
    plain = f"{asked.id}\n{asked.content}" if asked.id is None else asked.id
    identity = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return HumanMessage(
        content=context or "No memories were found for the last question.",
        name="recall_loop",
        id=f"recall-loop-{identity}",
        additional_kwargs={RECALL_MARK: True},
    )
