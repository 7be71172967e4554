"""Conditional edges: pure functions of the state (LOOP-1)."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class RouteState(TypedDict):
    """What the decision reads; LangGraph then reads no more of the state than this."""

    route: str


def route_after_evaluation(state: RouteState) -> Literal["plan_queries", "refine", "synthesize"]:
    """Return the node that follows evaluate_progress."""
    if state["route"] == "stop":
        return "synthesize"
    return "refine" if state["route"] == "refine" else "plan_queries"
