"""The agent's own runs: consulted before a plan, captured after the end (TRAJ-9). Both are off unless asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from recall_loop.memory.search.engine import search_many
from recall_loop.memory.trajectories.capture.self_capture import SELF_CAPTURE_TAG, capture_run
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.planning.strategies import summarise_runs
from recall_loop.state.agent_state import AgentState, ExperienceState
from recall_loop.state.errors import EmbedderError, StoreError
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.result import RetrieveResult
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import TRAJECTORY_MIN_SIMILARITY, SearchParams
from recall_loop.state.types import ContentType

SIMILAR_RUNS = 10
_log = logging.getLogger(__name__)


def load_experience(run: RunContext) -> ExperienceState | None:
    """Return what similar past runs of the same tenant, agent and user gave; None where it is off or fails.

    Only counts by strategy and source are taken from them, never their words.
    """
    if not run.settings.use_experience:
        return None
    request = run.request
    scope = Scope(tenant=request.tenant, agent_id=request.agent_id, user_id=request.user_id)
    filters = Filters(tags=(SELF_CAPTURE_TAG,), min_similarity=TRAJECTORY_MIN_SIMILARITY)
    params = SearchParams(
        filters=filters,
        content_types=(ContentType.TRAJECTORY,),
        limit=SIMILAR_RUNS,
        language=request.language,
        time_suffixes=False,
    )
    try:
        (found,) = search_many(run.store, [run.question.text], scope=scope, params=params)
    except (StoreError, EmbedderError) as error:  # the search that follows meets it too, and reports it
        _log.warning("no experience", extra={"error_type": type(error).__name__})
        return None
    experience = summarise_runs((hit.similarity, _queries(run_from_record(hit.record).extra)) for hit in found.hits)
    return {
        "strategies": dict(experience.strategies),
        "sources": dict(experience.sources),
        "runs": experience.runs,
    }


def _queries(extra: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    queries = extra.get("queries")
    return [query for query in queries if isinstance(query, Mapping)] if isinstance(queries, list) else []


def capture_finished_run(state: AgentState, run: RunContext, result: Mapping[str, Any]) -> str | None:
    """Store the run that has just ended; return the warning where that fails, which doesn't harm the result."""
    if not run.settings.capture_runs:
        return None
    names = RetrieveResult.model_fields
    whole = {name: value for name, value in {**state, **result}.items() if name in names}
    finished = RetrieveResult.model_validate(whole)
    record = capture_run(finished, run.request, finished_at=datetime.now(UTC))
    try:
        (outcome,) = run.store.upsert([record], tenant=run.request.tenant, on_reject="report")
    except (StoreError, EmbedderError) as error:
        return f"run not captured: {type(error).__name__}: {error.told}"
    return f"run not captured: {outcome.error}" if outcome.error else None
