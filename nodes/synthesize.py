"""synthesize: ranks over all iterations, cuts, and makes the result (RANK-3, LOOP-10, CONF)."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime

from recall_loop.nodes.model.llm_answer import write_answer
from recall_loop.nodes.model.llm_step import record_steps, usage_totals
from recall_loop.nodes.runtime.inputs import RECALL_MARKER, chat_role, cleared_inputs, is_recall_block
from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.nodes.steps.corrected_facts import correct_facts
from recall_loop.nodes.steps.run_capture import capture_finished_run
from recall_loop.nodes.steps.stored_texts import read_sources, with_whole_texts
from recall_loop.policy.confidence.asked_values import may_answer
from recall_loop.policy.confidence.confidence_mapping import Calibration
from recall_loop.policy.confidence.confidence_score import (
    RAW_SCORE,
    ConfidenceInputs,
    compute_confidence,
    compute_confidence_score,
    confidence_components,
    should_abstain,
)
from recall_loop.policy.confidence.confidence_signals import SIGNAL_DEPTH, confidence_signals
from recall_loop.policy.confidence.relevance import rate_relevance
from recall_loop.policy.evidence.coverage import compute_coverage
from recall_loop.policy.evidence.evidence_folding import (
    Supersession,
    demote_superseded,
    fact_ids,
    fold_messages,
)
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.repeats import demote_duplicates, fold_repeats
from recall_loop.policy.evidence.statements import acts_of, put_alike_negated_first
from recall_loop.policy.prompting.briefing import render_memory_lines
from recall_loop.prompts.templates import render_template
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context
from recall_loop.state.display import NOT_SEARCHED_TEXT
from recall_loop.state.errors import StoreError
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.run.state_entries import LlmStep, PoolEntry
from recall_loop.state.types import Role, Route, StopReason
from recall_loop.telemetry.logs import log_failure
from recall_loop.text.words.snippets import estimate_tokens

_log = logging.getLogger(__name__)
# Share of its similarity that a fact keeps as evidence where an event in it tells nothing of the state asked for.
_MISLEADING = 0.6
# Two recalls of one turn that differ in anything else have a message each.
_NOT_RECALLED = {"id", "messages", "write_answer", "debug"}
NOTHING_RELEVANT = "(nothing in memory is relevant to the question)"
_NOTHING_BEFORE_FAILURE = "(the search failed midway: whether memory holds something relevant is unknown)"
_NOTHING_FOUND = "No memories were found for the last question."
_FACT_FIELDS = (
    "label",
    "agent_id",
    "agent_name",
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
    ranked = read_sources(_select_facts(state, run, run.settings.max_facts), run)
    confidence, abstains = _confidence(state, run, ranked, resources.calibration)
    ranked = rate_relevance(ranked, confidence["answerable"] if abstains else 1.0)
    stop = {"reason": state["stop_reason"], "iteration": state["iteration"], "detail": state["stop_detail"]}
    runtime.stream_writer({"type": "stopped", **stop})
    whole = with_whole_texts(ranked, run)
    answer, step = write_answer(state, run, ranked, confidence["label"], runtime.stream_writer)
    noted = record_steps(state, *([step] if step else []))
    metadata = _metadata(state, run, confidence["score"], noted.pop("llm_steps", state["llm_steps"]))
    result: dict[str, Any] = {
        "facts": [_fact(item, run.request.debug) for item in whole],
        "context": _context(run, ranked, whole, confidence["label"], state["stop_reason"]),
        "answer": answer,
        "confidence": confidence,
        "stop": stop,
        "metadata": {name: value for name, value in metadata.items() if run.request.debug or name != "trace"},
        **noted,
    }
    warning = capture_finished_run(state, run, {**result, "metadata": metadata})
    if warning is not None:
        result |= {"warnings": [*result.get("warnings", state["warnings"]), warning], "degraded": True}
    run.store.count_recalls((fact["id"] for fact in result["facts"]), tenant=run.scope.tenant)
    if append_message:
        result["messages"] = [_message(state["messages"], _block(result), run.request)]
    return result | {"route": Route.DONE.value, **cleared_inputs(state)}


def _select_facts(state: AgentState, run: RunContext, most: int) -> list[RankedEntry]:
    """Rank globally, fold messages into the facts drawn from them, and cut only then.

    A search keeps what is similar enough to its query; here the similarity with the request counts (SEARCH-3).
    """
    ranking = run.ranked(state)
    if run.ordered is None or run.ordered[0] is not ranking:
        run.ordered = (ranking, _order_facts(state, run))
    return fold_messages(run.ordered[1], most, run.terms)


def _order_facts(state: AgentState, run: RunContext) -> list[RankedEntry]:
    settings, least = run.settings, run.request.filters.min_similarity or 0.0
    similar = [item for item in run.ranked(state) if item.entry["similarity"] >= least]
    listed, crowding = run.question.listed is not None, settings.rank_crowding_weight
    similar = put_alike_negated_first(similar, run.question.text)
    varied = demote_duplicates(fold_repeats(similar), settings.duplicate_similarity, crowding, listed=listed)
    return correct_facts(_demote_superseded(varied, run), state, run)


def _demote_superseded(ranked: list[RankedEntry], run: RunContext) -> list[RankedEntry]:
    """Put messages that said what has been superseded behind the facts that hold now."""
    facts = fact_ids(ranked)
    try:
        found = run.store.superseded_sources(run.scope, facts) if facts else {}
    except StoreError as error:
        log_failure(_log, "superseded facts not read", error)
        return ranked
    return demote_superseded(ranked, {source: Supersession(*by) for source, by in found.items()})


def _confidence(
    state: AgentState, run: RunContext, ranked: Sequence[RankedEntry], calibration: Calibration
) -> tuple[dict[str, Any], bool]:
    """Return components, signals, scores, and label (CONF), and whether memory probably holds no answer.

    Signals are of the best twenty facts even where fewer are returned, since the mapping was fitted so.
    """
    ranked = _evidence(ranked, run)
    parts = confidence_components(
        ConfidenceInputs(
            ranked=ranked,
            coverage=state["coverage_score"],
            best_single=state["single_coverage"],
            calls=state["tool_calls"],
            least_similarity=run.settings.novelty_min_similarity,
        )
    )
    examined = ranked
    if run.settings.max_facts < SIGNAL_DEPTH:
        examined = _evidence(_select_facts(state, run, SIGNAL_DEPTH), run)
    first = [run.supported_facets(item.entry) for item in examined[:1]]
    signals = confidence_signals(examined, run.question, compute_coverage(state["facets"], first).best_single)
    raw = compute_confidence_score(parts)
    values = {RAW_SCORE: raw, **parts, **signals}
    calibration = calibration.for_values(values)
    score, answerable = calibration.score(values), calibration.answer_probability(values)
    if not ranked:
        score, answerable = 0.0, None if answerable is None else 0.0
    thresholds = (calibration.thresholds.medium, calibration.thresholds.high)
    least = calibration.answerable.abstain_below if calibration.answerable else None
    abstains = should_abstain(answerable, run.settings, least)
    figures = {
        "label": compute_confidence(score, parts, run.settings, thresholds, abstains=abstains).value,
        "score": score,
        "answerable": answerable,
        "raw_score": raw,
        "components": parts,
        "signals": signals,
        "calibration_id": calibration.id,
    }
    return figures, abstains


def _evidence(ranked: Sequence[RankedEntry], run: RunContext) -> list[RankedEntry]:
    """Return the facts that state what may be asked for, with only that: nothing else makes a result surer (LIVE-2).

    What was found by an event of somebody else's counts for less: asked where I live, "my sister moved" is no answer.
    """
    of_another = {item.id for item in ranked if run.tells_of_another(item.entry)}
    stating = [replace(item, entry=run.evidence(item.entry)) for item in ranked if run.states(item.entry)]
    told = may_answer(run.question, stating, of_another)
    return [replace(item, entry=_judged(item.entry, run.misleads(item.entry))) for item in told]


def _judged(entry: PoolEntry, misleading: bool) -> PoolEntry:
    return {**entry, "similarity": _MISLEADING * entry["similarity"]} if misleading else entry


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
    """Return how often a fact was said, and the first and last time of it (LIVE-6)."""
    times = sorted(time for _, time in entry["said"] if time)
    return {
        "count": len(entry["said"]),
        "first_said": times[0] if times else None,
        "last_said": times[-1] if times else None,
    }


def _context(
    run: RunContext, ranked: Sequence[RankedEntry], whole: Sequence[RankedEntry], confidence: str, stop: str
) -> str:
    """Return the context block within the token budget; empty without facts. `whole` are the facts to be shown.

    Facts below the floor, and what states nothing, are left out; where nothing else is left the block says so (LIVE-5).
    """
    if not ranked:
        return ""
    frame = {"confidence": confidence, "stop": stop}
    floor = run.settings.context_floor
    shown = [
        full.entry
        for item, full in zip(ranked, whole, strict=True)
        if item.relevance >= floor and run.states(item.entry)
    ]
    if not shown:
        missing = _NOTHING_BEFORE_FAILURE if stop == StopReason.TOOL_FAILURE else NOTHING_RELEVANT
        return render_template("context", memories=missing, **frame)
    budget = run.settings.max_context_tokens - estimate_tokens(render_template("context", memories="", **frame))
    lines = render_memory_lines(shown, max(budget, 0), run.terms)
    return render_template("context", memories="\n".join(lines), **frame) if lines else ""


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


def _block(result: Mapping[str, Any]) -> str:
    """Return the context block; where it is empty, why."""
    failed = result["stop"]["reason"] == StopReason.TOOL_FAILURE
    return str(result["context"]) or (NOT_SEARCHED_TEXT if failed else _NOTHING_FOUND)


def _message(messages: Sequence[AnyMessage], content: str, request: RetrieveRequest) -> HumanMessage:
    """Return the context block as a message whose id is the same each time a node recalls a turn by one request.

    A turn is known by its question, so that what an agent's own steps append meanwhile changes nothing (GRAPH-2).
    """
    others = [message for message in messages if not is_recall_block(message)]
    question = next((message for message in reversed(others) if chat_role(message) == Role.USER), others[-1])
    plain = f"{question.id}\n{question.content}" if question.id is None else question.id
    recalled = request.model_dump_json(exclude=_NOT_RECALLED, exclude_none=True)
    identity = hashlib.sha256("\n".join([plain, *_node_path(), recalled]).encode("utf-8", "surrogatepass"))
    return HumanMessage(
        content=content,
        name="recall_loop",
        id=f"recall-loop-{identity.hexdigest()[:32]}",
        additional_kwargs={RECALL_MARKER: True},
    )


def _node_path() -> list[str]:
    """Return the names of the nodes, of all graphs around this one, as which it runs; they are the same in a retry."""
    namespace = str(get_config().get("configurable", {}).get("checkpoint_ns") or "")
    return [part.partition(":")[0] for part in namespace.split("|")[:-1]]
