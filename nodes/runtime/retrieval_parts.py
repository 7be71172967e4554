"""The parts of a retrieval that can be handed in, so that measurements leave out or replace one (OPS-4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recall_loop.memory.search.engine import search_many
from recall_loop.memory.search.query.search_response import SearchResponse
from recall_loop.policy.planning.round_plan import DEFAULT_PLANNING_PARTS, PlanningParts


@dataclass(frozen=True)
class RetrievalParts:
    """Which functions a retrieval is made of; the defaults are the product's own.

    Attributes:
        planning: how queries are made.
        search: searches several queries, as `search_many` does.
    """

    planning: PlanningParts = DEFAULT_PLANNING_PARTS
    search: Callable[..., list[SearchResponse]] = search_many


DEFAULT_RETRIEVAL_PARTS = RetrievalParts()
