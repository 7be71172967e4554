"""refine: plans queries and parameters to find the missing parts (LOOP-5, LOOP-6)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.nodes.steps.query_planning import make_plan
from recall_loop.policy.planning.round_plan import REFINE_ORIGIN
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context


def refine(state: AgentState, runtime: Runtime[Context], resources: GraphResources) -> dict[str, Any]:
    """Return the update with a plan for the missing parts."""
    return make_plan(state, resources.run(state, runtime), runtime.stream_writer, REFINE_ORIGIN)
