"""A search's results as JSON, for every surface that shows them (SEARCH-6, SEARCH-8)."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from recall_loop.memory.search.present.truncation import TruncatedText, TruncationProfile, truncate_texts
from recall_loop.memory.search.query.query_spec import SearchResponse
from recall_loop.state.records.records import SearchHit
from recall_loop.text.words.tokens import stems


def response_to_json(found: SearchResponse, profile: TruncationProfile) -> dict[str, Any]:
    """Return the response as plain JSON: every result, and what was searched (SEARCH-6)."""
    hits = zip(found.hits, truncate_hits(found, profile), strict=True)
    return {
        "query": found.query,
        "hits": [_hit(rank, hit, text) for rank, (hit, text) in enumerate(hits, start=1)],
        "allowed": found.allowed,
        "scope": found.scope.model_dump(mode="json"),
        "filters": found.filters.model_dump(mode="json", exclude_none=True),
        "content_types": [str(kind) for kind in found.content_types],
        "legs": list(found.legs),
        "generation": found.generation,
        "time_range": found.time_range and [when and when.isoformat() for when in astuple(found.time_range)],
        "corrected": found.corrected,
        "degraded": found.degraded,
        "degraded_reason": found.degraded_reason,
        "profile": profile.name,
    }


def _hit(rank: int, hit: SearchHit, text: TruncatedText) -> dict[str, Any]:
    record = hit.record.model_dump(mode="json")
    names = ("label", "agent_id", "agent_name", "author", "role", "created_at", "updated_at")
    more = ("subject", "fact_type", "object", "conversation_id", "session", "user_id", "tags", "source_ids")
    ended = ("valid_until", "superseded_by")
    return {
        "rank": rank,
        "id": record["id"],
        "content_type": record["kind"],
        "content": text.text,
        "truncated": text.truncated,
        "similarity": hit.similarity,
        "score": hit.score,
        **{name: record[name] for name in names},
        **{name: record[name] for name in (*more, *ended) if record.get(name)},
        **({"debug": hit.debug} if hit.debug is not None else {}),
    }


def truncate_hits(found: SearchResponse, profile: TruncationProfile) -> list[TruncatedText]:
    """Return the texts of the results, each as much of it as the profile shows (SEARCH-8)."""
    terms = frozenset(stems(found.corrected or found.query))
    return truncate_texts([hit.record.text for hit in found.hits], terms, profile)
