"""The confidence of a result: components, signals, scores and label (CONF)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.nodes.steps.answer_reading import likely_answers, read_facts
from recall_loop.nodes.steps.selected_facts import select_facts
from recall_loop.policy.confidence.asked_values import asks_for_name, holds_asked_kind, may_answer
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
from recall_loop.policy.confidence.unanswered import NOTHING_UNANSWERED, Unanswered, find_unanswered
from recall_loop.policy.evidence.coverage import compute_coverage
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.agent_state import AgentState
from recall_loop.state.run.state_entries import PoolEntry

# Share of its similarity that a fact keeps as evidence where an event in it tells nothing of the state asked for.
_MISLEADING = 0.6


def measure_confidence(
    state: AgentState, run: RunContext, ranked: Sequence[RankedEntry], calibration: Calibration
) -> tuple[dict[str, Any], bool]:
    """Return components, signals, scores, and label (CONF), and whether memory probably holds no answer.

    Signals are of the best twenty facts even where fewer are returned, since the mapping was fitted so.
    """
    unanswered = _find_unanswered(state, run)
    ranked = examined = _evidence(ranked, run, unanswered)
    if run.settings.max_facts < SIGNAL_DEPTH:
        examined = _evidence(select_facts(state, run, SIGNAL_DEPTH), run, unanswered)
    parts = confidence_components(
        ConfidenceInputs(
            ranked=ranked,
            coverage=state["coverage_score"],
            best_single=state["single_coverage"],
            calls=state["tool_calls"],
            least_similarity=run.settings.novelty_min_similarity,
        )
    )
    signals = _signals(state, run, examined)
    raw = compute_confidence_score(parts)
    values = {RAW_SCORE: raw, **parts, **signals}
    calibration = calibration.for_values(values)
    score, answerable = calibration.score(values), calibration.answer_probability(values)
    if not ranked:
        score, answerable = 0.0, None if answerable is None else 0.0
    thresholds = (calibration.thresholds.medium, calibration.thresholds.high)
    least = calibration.answerable.abstain_below if calibration.answerable else None
    abstains = should_abstain(answerable, run.settings, least)
    label = compute_confidence(score, parts, run.settings, thresholds, abstains=abstains).value
    figures = {"label": label, "score": score, "answerable": answerable, "raw_score": raw}
    return {**figures, "components": parts, "signals": signals, "calibration_id": calibration.id}, abstains


def _signals(state: AgentState, run: RunContext, examined: Sequence[RankedEntry]) -> dict[str, float]:
    first = [run.supported_facets(item.entry) for item in examined[:1]]
    support = compute_coverage(state["facets"], first).best_single
    return confidence_signals(examined, run.question, support, read_facts(examined, run))


def _find_unanswered(state: AgentState, run: RunContext) -> Unanswered:
    if run.question.about_questions:
        return NOTHING_UNANSWERED
    holds_name = partial(holds_asked_kind, run.question) if asks_for_name(run.question) else None
    return find_unanswered(state["evidence_pool"].values(), holds_name)


def _evidence(ranked: Sequence[RankedEntry], run: RunContext, unanswered: Unanswered) -> list[RankedEntry]:
    """Return the facts that state a possible answer, reduced to that; nothing else raises the confidence (LIVE-2).

    A record found by an event in somebody else's life counts for less: "my sister moved" doesn't answer where I live.
    What memory held when the same question last went `unanswered` doesn't count unless it matches plainly.
    """
    of_another = {item.id for item in ranked if run.is_about_another(item.entry)}
    stating = [replace(item, entry=run.evidence(item.entry)) for item in ranked if run.states(item.entry)]
    stating = [item for item in stating if not unanswered.includes(item.entry)]
    told = may_answer(run.question, stating, of_another)
    if len(told) < len(stating):
        kept = {item.id for item in told} | (likely_answers(stating, run) - of_another)
        told = [item for item in stating if item.id in kept]
    return [replace(item, entry=_judged(item.entry, run.misleads(item.entry))) for item in told]


def _judged(entry: PoolEntry, misleading: bool) -> PoolEntry:
    return {**entry, "similarity": _MISLEADING * entry["similarity"]} if misleading else entry
