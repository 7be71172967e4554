"""Search of past runs, with or without contrasts (TRAJ-5, TRAJ-6, TRAJ-8).

Each tier has a search of its own, all in one call that embeds the query once: no tier starves because another one
matches better, and no score lies between two tiers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from recall_loop.memory.search.engine import search_many
from recall_loop.memory.trajectories.contrast.results import TrajectoryDetails, TrajectoryItem, TrajectorySearchResult
from recall_loop.memory.trajectories.contrast.tiers import (
    TIER_GROUPS,
    Tier,
    TierThresholds,
    combined_filters,
    contrasts_message,
    count_message,
    empty_message,
    fallback_message,
    tier_filters,
    tier_note,
)
from recall_loop.memory.trajectories.indexing_text import error_notes
from recall_loop.state.records.legacy_trajectories import stored_score
from recall_loop.state.records.trajectories import run_from_record
from recall_loop.state.scope import Scope
from recall_loop.state.search import DEFAULT_RERANK_POOL, SearchParams, TrajectorySearchParams
from recall_loop.state.types import ContentType
from recall_loop.text.words.tokens import stems

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.records.records import SearchHit

_MAX_SUMMARY_CHARS, _MAX_ERRORS = 500, 3
_HIDDEN_ATTRIBUTES = frozenset({"turns", "scoring"})


def search_trajectories(
    store: MemoryStore, query: str, *, scope: Scope, params: TrajectorySearchParams | None = None
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
        EmbedderError: the embedder fails and the mode is `vector`.
    """
    params = params or TrajectorySearchParams()
    thresholds = TierThresholds(params.success_threshold, params.failure_threshold)
    filters = combined_filters(params)
    tiers = tier_filters(filters, thresholds) if params.include_contrasts else {}
    # No tier is left if a bound excludes them all: everything is searched then, and nothing found.
    searches = list(tiers.values()) or [filters]
    responses = search_many(
        store, [query] * len(searches), scope=scope, params=_tier_params(params, len(searches)), filters=searches
    )
    words = frozenset(stems(query))
    found = [[_item(hit, thresholds, words) for hit in response.hits] for response in responses]
    if params.include_contrasts:
        message, groups = _contrasts(dict(zip(tiers, found, strict=False)), thresholds, params.limit)
    else:
        message, groups = count_message(len(found[0])), {"trajectories": found[0]}
    allowed = sum(response.allowed for response in responses)
    if not any(groups.values()):
        message = empty_message(allowed, filters.min_similarity or 0.0)
    return TrajectorySearchResult(
        query=query,
        message=message,
        include_contrasts=params.include_contrasts,
        allowed=allowed,
        degraded_reason=next((response.degraded_reason for response in responses if response.degraded_reason), None),
        **{name: tuple(items) for name, items in groups.items()},
    )


def _tier_params(params: TrajectorySearchParams, tiers: int) -> SearchParams:
    """Return the options of each tier's search; together the tiers rerank no more than one search would."""
    return SearchParams(
        content_types=(ContentType.TRAJECTORY,),
        mode=params.mode,
        fuzzy=params.fuzzy,
        language=params.language,
        limit=params.limit,
        rerank_pool=max(DEFAULT_RERANK_POOL // tiers, 1),
        reference_time=params.reference_time,
    )


def _contrasts(
    found: Mapping[Tier, list[TrajectoryItem]], thresholds: TierThresholds, limit: int
) -> tuple[str, dict[str, list[TrajectoryItem]]]:
    """Return the message and the groups of a search with contrasts: the tiers, or the best matches of all of them."""
    # A run that was scored during the search now belongs to another tier.
    tiers = {
        tier: [item for item in items if thresholds.tier(item.outcome_score) is tier] for tier, items in found.items()
    }
    if tiers.get(Tier.SUCCESS) or tiers.get(Tier.FAILURE):
        counts = {tier: len(items) for tier, items in tiers.items()}
        return contrasts_message(counts, thresholds), {TIER_GROUPS[tier]: items for tier, items in tiers.items()}
    # Similarity is comparable across searches; the order within one isn't.
    joined = [item for items in tiers.values() for item in items]
    best = sorted(joined, key=lambda item: -item.similarity)[:limit]
    best_counts = Counter(thresholds.tier(item.outcome_score) for item in best)
    return fallback_message(best_counts, len(best), thresholds), {"relevant_experiences": best}


def _item(hit: SearchHit, thresholds: TierThresholds, words: frozenset[str]) -> TrajectoryItem:
    record = hit.record
    # Parsing a long run's turns takes longer than finding it, and they aren't shown.
    shown = {name: value for name, value in record.attributes.items() if name not in _HIDDEN_ATTRIBUTES}
    run = run_from_record(record.model_copy(update={"attributes": shown}))
    score = stored_score(record.attributes)
    # Those with most of the query's words first, else in order.
    errors = sorted(error_notes(record.text), key=lambda note: -len(words.intersection(stems(note))))
    return TrajectoryItem(
        id=record.id,
        similarity=hit.similarity,
        outcome_score=score,
        scoring_pending=run.scoring_pending,
        summary=" ".join((run.summary or run.task or record.text).split())[:_MAX_SUMMARY_CHARS],
        errors=tuple(errors[:_MAX_ERRORS]),
        note=tier_note(thresholds.tier(score), thresholds),
        details=TrajectoryDetails.from_run(run),
        tags=record.tags,
        agent_id=record.agent_id,
        created_at=record.created_at,
    )
