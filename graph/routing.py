"""Conditional edges: pure functions of the state (LOOP-1)."""

from __future__ import annotations

from typing import Literal

from recall_loop.state.agent_state import AgentState


def after_evaluation(state: AgentState) -> Literal["plan_queries", "refine", "synthesize"]:
    """Return the node that follows evaluate_progress."""
    if state["route"] == "stop":
        return "synthesize"
    return "refine" if state["route"] == "refine" else "plan_queries"
