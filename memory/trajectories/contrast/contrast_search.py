"""Search of past runs, with or without contrasts (TRAJ-5, TRAJ-6, TRAJ-8).

Every tier is searched for itself, by one call that embeds the query once: no tier starves because another one
matches better, and no score lies between two tiers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recall_loop.memory.search.engine import search_many
from recall_loop.memory.search.query.search_response import SearchResponse
from recall_loop.memory.trajectories.contrast.result_notes import (
    contrasts_message,
    count_message,
    empty_message,
    fallback_message,
    tier_note,
)
from recall_loop.memory.trajectories.contrast.results import TrajectoryDetails, TrajectoryItem, TrajectorySearchResult
from recall_loop.memory.trajectories.contrast.tiers import (
    Tier,
    TierThresholds,
    combined_filters,
    stored_score,
    tier_filters,
)
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import DEFAULT_RERANK_POOL, SearchParams, TrajectorySearchParams
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.records.records import SearchHit

_SUMMARY = 500
_HIDDEN_ATTRIBUTES = frozenset({"turns", "scoring"})
_Items = dict[Tier, tuple[TrajectoryItem, ...]]


@dataclass(frozen=True)
class _TierResponses:
    """The responses to one search: of each tier, or one for everything."""

    responses: Sequence[SearchResponse]
    thresholds: TierThresholds

    @property
    def allowed(self) -> int:
        return sum(response.allowed for response in self.responses)

    @property
    def degraded_reason(self) -> str | None:
        return next((response.degraded_reason for response in self.responses if response.degraded_reason), None)


def search_trajectories(
    store: MemoryStore,
    query: str,
    *,
    scope: Scope,
    params: TrajectorySearchParams | None = None,
) -> TrajectorySearchResult:
    """Search the trajectories that `scope` may read.

    Args:
        store: the store to search.
        query: what the run should be about; may end in a time, such as `< 3 days`.
        scope: who may see what. With an agent its own runs only, unless the scope's mode is `constellation`; without
            one those of all agents of the tenant. Another tenant's never (TRAJ-8).
        params: the options; None = the defaults.

    Raises:
        InvalidInputError: a blank query, or bounds of the score that leave none.
        StoreUnavailableError: the store can't be read.
        UnsupportedOptionError: the mode can't honour an option.
        EmbedderError: the embedder fails and the mode needs it.
    """
    params = params or TrajectorySearchParams()
    thresholds = TierThresholds(params.success_threshold, params.failure_threshold)
    asked = combined_filters(params)
    parts = tier_filters(asked, thresholds) if params.include_contrasts else {}
    # No part is left where a bound excludes every tier: the whole is searched then, which finds nothing.
    each = list(parts.values()) or [asked]
    responses = search_many(
        store,
        [query] * len(each),
        scope=scope,
        params=_tier_params(params, len(each)),
        filters=each,
    )
    answer = _TierResponses(responses, thresholds)
    if not params.include_contrasts:
        return _plain(query, answer, asked)
    return _contrasted(query, answer, dict(zip(parts, responses, strict=False)), asked, params.limit)


def _tier_params(params: TrajectorySearchParams, tiers: int) -> SearchParams:
    """Return the options of each tier's search; together the tiers rerank no more than one search would."""
    return SearchParams(
        content_types=(ContentType.TRAJECTORY,),
        mode=params.mode,
        fuzzy=params.fuzzy,
        limit=params.limit,
        rerank_pool=max(DEFAULT_RERANK_POOL // tiers, 1),
        reference_time=params.reference_time,
    )


def _plain(query: str, answer: _TierResponses, asked: Filters) -> TrajectorySearchResult:
    items = tuple(_item(hit, answer.thresholds) for response in answer.responses for hit in response.hits)
    message = count_message(len(items)) if items else empty_message(answer.allowed, asked.min_similarity or 0.0)
    return TrajectorySearchResult(
        query=query,
        message=message,
        include_contrasts=False,
        trajectories=items,
        allowed=answer.allowed,
        degraded_reason=answer.degraded_reason,
    )


def _contrasted(
    query: str, answer: _TierResponses, responses: Mapping[Tier, SearchResponse], asked: Filters, limit: int
) -> TrajectorySearchResult:
    items = {tier: _of_tier(tier, response, answer.thresholds) for tier, response in responses.items()}
    counts = {tier: len(found) for tier, found in items.items()}
    relevant: tuple[TrajectoryItem, ...] = ()
    if items.get(Tier.SUCCESS) or items.get(Tier.FAILURE):
        message = contrasts_message(counts, answer.thresholds)
    else:
        relevant, items = _best(items, limit), {}
        counts = _counts(relevant, answer.thresholds)
        message = fallback_message(counts, len(relevant), answer.thresholds)
    if not relevant and not any(items.values()):
        message = empty_message(answer.allowed, asked.min_similarity or 0.0)
    return TrajectorySearchResult(
        query=query,
        message=message,
        include_contrasts=True,
        successes=items.get(Tier.SUCCESS, ()),
        moderate=items.get(Tier.MODERATE, ()),
        failures=items.get(Tier.FAILURE, ()),
        unscored=items.get(Tier.UNSCORED, ()),
        relevant_experiences=relevant,
        allowed=answer.allowed,
        degraded_reason=answer.degraded_reason,
    )


def _of_tier(tier: Tier, response: SearchResponse, thresholds: TierThresholds) -> tuple[TrajectoryItem, ...]:
    """Return a tier's items; one that was scored anew while the search ran belongs to another tier by now."""
    items = (_item(hit, thresholds) for hit in response.hits)
    return tuple(item for item in items if thresholds.tier(item.outcome_score) is tier)


def _best(items: _Items, limit: int) -> tuple[TrajectoryItem, ...]:
    """Return the best matches of all tiers: similarity compares across searches, the order within one doesn't."""
    joined = [item for found in items.values() for item in found]
    return tuple(sorted(joined, key=lambda item: -item.similarity)[:limit])


def _counts(items: Sequence[TrajectoryItem], thresholds: TierThresholds) -> dict[Tier, int]:
    tiers = [thresholds.tier(item.outcome_score) for item in items]
    return {tier: tiers.count(tier) for tier in Tier}


def _item(hit: SearchHit, thresholds: TierThresholds) -> TrajectoryItem:
    record = hit.record
    # Reading a long run's turns takes longer than finding it, and nothing of them is shown.
    slim = {name: value for name, value in record.attributes.items() if name not in _HIDDEN_ATTRIBUTES}
    run = run_from_record(record.model_copy(update={"attributes": slim}))
    score = stored_score(record.attributes)
    return TrajectoryItem(
        id=record.id,
        similarity=hit.similarity,
        outcome_score=score,
        scoring_pending=run.scoring_pending,
        summary=" ".join((run.summary or run.task or record.text).split())[:_SUMMARY],
        note=tier_note(thresholds.tier(score), thresholds),
        details=TrajectoryDetails(
            status=run.execution.status,
            tools_used=run.metadata.tools_used,
            step_count=run.metadata.step_count,
            task_category=run.task_category,
            complexity_level=run.complexity_level,
        ),
        tags=record.tags,
        agent_id=record.agent_id,
        created_at=record.created_at,
    )
