"""The agent's own finished runs, stored as trajectories if requested (TRAJ-9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from recall_loop.memory.trajectories.capture.self_capture import capture_run
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.state.agent_state import AgentState
from recall_loop.state.errors import EmbedderError, StoreError
from recall_loop.state.result import RetrieveResult


def capture_finished_run(state: AgentState, run: RunContext, result: Mapping[str, Any]) -> str | None:
    """Store the run that has just ended; return a warning if that fails, which doesn't affect the result."""
    if not run.settings.capture_runs:
        return None
    if run.unembedded is not None:  # it would be asked once more, perhaps for its whole timeout
        return f"run not captured: {EmbedderError.__name__}: {run.unembedded}"
    names = RetrieveResult.model_fields
    whole = {name: value for name, value in {**state, **result}.items() if name in names}
    finished = RetrieveResult.model_validate(whole)
    record = capture_run(finished, run.request, finished_at=datetime.now(UTC))
    try:
        (outcome,) = run.store.upsert([record], tenant=run.request.tenant, on_reject="report")
    except (StoreError, EmbedderError) as error:
        return f"run not captured: {type(error).__name__}: {error.told}"
    return f"run not captured: {outcome.error}" if outcome.error else None
