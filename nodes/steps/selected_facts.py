"""The facts of a result: the pool in its final order, folded and cut (RANK-3)."""

from __future__ import annotations

import logging

from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.nodes.steps.answer_reading import order_by_reading
from recall_loop.nodes.steps.corrected_facts import correct_facts
from recall_loop.policy.evidence.evidence_folding import Supersession, demote_superseded, fact_ids, fold_messages
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.repeats import demote_duplicates, fold_repeats
from recall_loop.policy.evidence.statements import put_alike_negated_first
from recall_loop.state.agent_state import AgentState
from recall_loop.state.errors import StoreError
from recall_loop.telemetry.logs import log_failure

_log = logging.getLogger(__name__)


def select_facts(state: AgentState, run: RunContext, most: int) -> list[RankedEntry]:
    """Rank globally, fold messages into the facts drawn from them, and then cut.

    A search keeps records that are similar enough to its query; here the similarity with the request counts (SEARCH-3).
    """
    ranking = run.ranked(state)
    if run.ordered is None or run.ordered[0] is not ranking:
        run.ordered = (ranking, _order_facts(state, run))
    return fold_messages(run.ordered[1], most, run.terms)


def _order_facts(state: AgentState, run: RunContext) -> list[RankedEntry]:
    settings, least = run.settings, run.request.filters.min_similarity or 0.0
    similar = [item for item in run.ranked(state) if item.entry["similarity"] >= least]
    listed, crowding = run.question.listed is not None, settings.rank_crowding_weight
    varied = demote_duplicates(fold_repeats(similar), settings.duplicate_similarity, crowding, listed=listed)
    answered = order_by_reading(_demote_superseded(varied, run), run)
    return correct_facts(put_alike_negated_first(answered, run.question.text), state, run)


def _demote_superseded(ranked: list[RankedEntry], run: RunContext) -> list[RankedEntry]:
    """Rank messages that stated a superseded fact below the facts that hold now."""
    facts = fact_ids(ranked)
    try:
        found = run.store.superseded_sources(run.scope, facts) if facts else {}
    except StoreError as error:
        log_failure(_log, "superseded facts not read", error)
        return ranked
    return demote_superseded(ranked, {source: Supersession(*by) for source, by in found.items()})
