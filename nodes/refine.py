"""refine: says what is missing, and plans queries and parameters that look for it (LOOP-5, LOOP-6)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from recall_loop.nodes.runtime.resources import GraphNode, GraphResources
from recall_loop.nodes.steps.query_planning import make_plan
from recall_loop.policy.planning.round_plan import REFINE_ORIGIN
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context


def make_node(resources: GraphResources) -> GraphNode:
    """Return the node, bound to its resources."""

    def refine(state: AgentState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        run = resources.run(state, runtime)
        return make_plan(state, run, resources.store_for(run.context), runtime, REFINE_ORIGIN)

    return refine
