"""The next plan, for plan_queries and refine (LOOP-3, LOOP-6, LOOP-7)."""

from __future__ import annotations

import logging
from typing import Any

from langgraph.types import StreamWriter

from recall_loop.memory.search.query.fuzzy import corrected_query
from recall_loop.memory.search.query.spelling import ReadableVocabulary, SpellingVocabulary
from recall_loop.nodes.model.llm_answer import request_advice
from recall_loop.nodes.model.llm_step import record_steps
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.planning.bridges import bridge_candidates, candidate_terms
from recall_loop.policy.planning.member_queries import (
    kind_words,
    stems_by_word,
    words_in_memory,
    words_not_mentioned,
    words_to_look_up,
)
from recall_loop.policy.planning.refinement import (
    NO_REFINEMENT,
    SPELLING_LEVEL,
    Refinement,
    likely_slips,
    may_be_misspelt,
    plan_refinement,
)
from recall_loop.policy.planning.round_plan import (
    REFINE_ORIGIN,
    PlanningContext,
    PlanningResult,
    plan_next,
)
from recall_loop.policy.stopping import refine_reasons
from recall_loop.state.agent_state import AgentState
from recall_loop.state.errors import StoreError
from recall_loop.state.run.events import QueriesPlanned
from recall_loop.state.run.state_entries import PlannedQuery, PoolEntry
from recall_loop.state.scope import Scope
from recall_loop.state.types import QuerySource
from recall_loop.telemetry.logs import log_failure
from recall_loop.text.words.tokens import has_word

_log = logging.getLogger(__name__)


def make_plan(state: AgentState, run: RunContext, write: StreamWriter, origin: str) -> dict[str, Any]:
    """Return the state update with the next plan, and send it as an event."""
    ranked = run.ranked_entries(state)
    bridges = _bridges(state, run, ranked)
    known = PlanningContext(
        question=run.question,
        ranked=ranked,
        outcomes=state["query_results"],
        used=state["strategies_used"],
        bridges=bridges or (),
        readable=bridges is not None,
        uncovered=state["uncovered"],
        refinement=_refinement(state, run) if origin == REFINE_ORIGIN else NO_REFINEMENT,
        member_words=_member_words(state, run, ranked),
    )
    asks_model = run.chat_client and state["in_scope"] and has_word(run.question.text)
    advice, step = request_advice(state, run, known, origin) if asks_model else (None, None)
    planned = plan_next(
        known, run.request.content_types, run.settings, origin, run.request.filters, advice, run.parts.planning
    )
    if advice and step:
        step["detail"] = {"queries": len(advice.queries), "kept": planned.llm_queries, "missing": list(advice.missing)}
    write(_event(state, planned))
    counters = state["counters"]
    return {
        "plan": planned.plan,
        **record_steps(state, *([step] if step else [])),
        "counters": {
            **counters,
            "queries_generated": counters["queries_generated"] + planned.generated,
            "queries_dropped": counters["queries_dropped"] + len(planned.repeats),
        },
    }


def _refinement(state: AgentState, run: RunContext) -> Refinement:
    """Return a refinement's changes besides its queries, and its reasons."""
    pool, settings = state["evidence_pool"], run.settings
    reasons = refine_reasons(state["tool_calls"], pool, state["new_facts_last_iteration"], settings)
    best = max((entry["similarity"] for entry in pool.values()), default=0.0)
    corrected = _corrected_question(run) if may_be_misspelt(reasons, settings) else None
    return plan_refinement(run.question, reasons, corrected, best, settings)


def _corrected_question(run: RunContext) -> str | None:
    """Return the question with likely misspellings replaced by words of readable records; None if there are none."""
    view, asked = run.store.view(run.scope), run.question.text
    try:
        whole = view.derived_from_vocabulary(SpellingVocabulary)
        known = corrected_query(asked, ReadableVocabulary(whole, view.frequency_within), SPELLING_LEVEL)
    except StoreError as error:  # the search that follows also fails: it retries, counts and reports it
        log_failure(_log, "spelling not checked", error)
        return None
    return likely_slips(asked, known)


def _bridges(state: AgentState, run: RunContext, ranked: list[PoolEntry]) -> list[PlannedQuery] | None:
    """Return bridge queries, unless one record supports the whole question; None if the store can't be read."""
    if not ranked or state["single_coverage"] >= 1.0:
        return []
    candidates = bridge_candidates(run.question, ranked)
    if not candidates:
        return []
    view = run.store.view(Scope(tenant=run.request.tenant))
    try:
        frequencies, rows = view.document_frequency(candidate_terms(candidates)), view.corpus().rows
    except StoreError as error:  # the search that follows also fails: it retries, counts and reports it
        log_failure(_log, "no bridges", error)
        return None
    return run.parts.planning.bridges(candidates, frequencies, rows, run.settings.fallback_max_length)


def _member_words(state: AgentState, run: RunContext, ranked: list[PoolEntry]) -> list[str]:
    """Return words in the scope's records for further members of the asked kind that weren't looked up yet."""
    known = kind_words(run.question)
    if not known or not ranked:
        return []
    tried = [outcome["query"] for outcome in state["query_results"].values() if outcome["source"] == QuerySource.MEMBER]
    words = stems_by_word(words_to_look_up(known, tried), run.question.language)
    view = run.store.view(run.scope)
    try:
        frequencies, rows = view.frequency_within(frozenset().union(*words.values())), view.count()
    except StoreError as error:  # the search that follows also fails: it retries, counts and reports it
        log_failure(_log, "no members looked up", error)
        return []
    return words_not_mentioned(words_in_memory(words, frequencies, rows), ranked, run.question.language)


def _event(state: AgentState, planned: PlanningResult) -> QueriesPlanned:
    plan = planned.plan
    return {
        "type": "queries_planned",
        "iteration": state["iteration"] + 1,
        "strategy": plan["strategy"],
        "origin": plan["origin"],
        "tool": plan["tool"],
        "refinement": plan["refinement"],
        "queries": [dict(query) for query in plan["queries"]],
        "missing": plan["missing"],
        "dropped_repeats": len(planned.repeats),
        "repeats": list(dict.fromkeys(planned.repeats)),
    }
