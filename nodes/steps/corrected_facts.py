"""Corrections among the ranked facts (LIVE-4): a later statement takes the place of the one it corrects."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.nodes.steps.answer_reading import read_fact
from recall_loop.policy.confidence.asked_values import asks_for_kind, holds_asked_kind, may_tell, told_by_words
from recall_loop.policy.evidence.changes.correcting import older_terms, order_corrections
from recall_loop.policy.evidence.changes.latest_first import put_latest_first
from recall_loop.policy.evidence.changes.matter import Matter, asked_moment
from recall_loop.policy.evidence.changes.renewals import put_renewal_first
from recall_loop.policy.evidence.coverage import NAME, PHRASE, FacetMatcher
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.facts.corrections import question_terms
from recall_loop.policy.facts.rarity import Rarity
from recall_loop.state.agent_state import AgentState
from recall_loop.state.errors import StoreError
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.telemetry.logs import log_failure

_log = logging.getLogger(__name__)


def correct_facts(ranked: list[RankedEntry], state: AgentState, run: RunContext) -> list[RankedEntry]:
    """Return the facts with corrections above the corrected ones; unchanged if the store can't be read.

    No further search is made: a correction that neither the question nor a variant of it finds has hardly a word in
    common with the corrected fact, so a search with that wouldn't find it either.
    """
    folded = {name for item in ranked for name, _ in item.entry["said"][1:]}  # repeats correct nothing
    found = [item for item in run.ranked(state) if item.id not in folded]
    moment = asked_moment(run.question, run.reference_time, datetime.now(UTC))
    try:
        rarity = _rarity(ranked, run)
        matter = _matter(run, rarity)
        ordered = order_corrections(ranked, found, run.question, moment, matter)
        if run.question.asks_last:
            named = [facet for facet in run.facets if facet["kind"] in (NAME, PHRASE)]
            told = FacetMatcher(named, run.question)
            return put_latest_first(ordered, matter, run.reference_time, lambda entry: told(_alone(entry)))
        return put_renewal_first(ordered, run.question, moment, matter)
    except StoreError as error:
        log_failure(_log, "corrections not looked for", error)
        return ranked


def _alone(entry: PoolEntry) -> PoolEntry:
    """Return an entry without the turns around it."""
    return {**entry, "window": entry["record"]["text"]}


def _matter(run: RunContext, rarity: Rarity) -> Matter:
    question = run.question
    read = partial(read_fact, run=run)
    names = frozenset[str]() if told_by_words(question) else question.name_terms
    terms = question_terms(question.text)

    def holds_kind(entry: PoolEntry) -> bool:
        return holds_asked_kind(question, entry) and may_tell(question, entry)

    return Matter(terms, asks_for_kind(question), run.is_evidence, holds_kind, rarity, read, names)


def _rarity(ranked: list[RankedEntry], run: RunContext) -> Rarity:
    """Return the rarity of words; the store is read only once two statements have something in common."""

    def count() -> tuple[Mapping[str, int], int]:
        view = run.store.view(run.scope)
        return view.document_frequency(sorted(older_terms(ranked, run.question.text))), view.corpus().rows

    return Rarity(count)
