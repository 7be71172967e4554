"""Request and response models of searches (SEARCH-1 to SEARCH-10)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.memory.search.present.truncation import FULL_PROFILE
from recall_loop.service.models.scope_models import QueryText, ScopeFields
from recall_loop.state.scope import Scope
from recall_loop.state.search import Limit, SearchParams
from recall_loop.state.types import ContentType, FiniteFloat, Role, Timestamp

MAX_RERANK_BUDGET_MS = 10_000


class ServiceSearchParams(SearchParams):
    """Options of a search over the network: fewer results by default, and a bounded budget."""

    limit: Limit = Field(10, description="Most results, 1 to 1,000; of each content type where `limit_per_type`.")
    rerank_budget_ms: FiniteFloat = Field(
        0.0,
        ge=0,
        le=MAX_RERANK_BUDGET_MS,
        description="Milliseconds for computing token vectors that aren't stored, 0 to 10,000.",
    )


class SearchRequest(ServiceSearchParams, ScopeFields):
    """One search. The key alone says whose memory is searched."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "ferry to the island", "limit": 3},
                {
                    "query": "deploy failed < 3 days",
                    "content_types": ["message"],
                    "filters": {"role": "tool", "min_similarity": 0.3},
                    "mode": "hybrid",
                    "fuzzy": 1,
                    "debug": True,
                },
            ]
        }
    )

    query: QueryText = Field(description="What to look for; may end in a time, such as `< 3 days`.")
    profile: str = Field(
        FULL_PROFILE.name,
        max_length=200,
        description="How much of each text: `full`, `local`, `constellation`, `messages`, or steps such as "
        "`2:full,5:1000,400` (ranks 1 and 2 whole, up to rank 5 at most 1000 characters, then 400).",
    )


class SearchResultItem(BaseModel):
    """One result (SEARCH-6); fields of the record that are empty may be absent."""

    model_config = ConfigDict(extra="allow")

    rank: int = Field(description="From 1, the best.")
    id: str
    content_type: ContentType
    content: str = Field(description="The record's text, or the part of it that the profile shows.")
    truncated: bool = Field(description="Whether that is less than the whole.")
    similarity: float = Field(ge=0, le=1, description="Doesn't depend on the other results; thresholds use it.")
    score: float = Field(ge=0, le=1, description="Orders the results of this search.")
    label: str | None
    agent_id: str | None
    agent_name: str | None
    author: str | None
    role: Role | None
    created_at: Timestamp | None
    updated_at: Timestamp | None
    debug: dict[str, Any] | None = Field(None, description="Each leg's ranks and scores, where asked for.")


class SearchResults(BaseModel):
    """Results, best first, with what was searched: an empty answer says whether there was anything to search."""

    query: str
    hits: list[SearchResultItem]
    allowed: int = Field(description="Records that scope, filters and types leave; 0 = there was nothing to search.")
    scope: Scope
    filters: dict[str, Any] = Field(description="The filters, with the time that the query itself named.")
    content_types: list[ContentType]
    legs: list[str] = Field(description="What ran: `fts` (words), `vector` (meaning).")
    generation: str = Field(description="Generation of the index.")
    time_range: list[Timestamp | None] | None = Field(description="The time that the query named: start and end.")
    corrected: str | None = Field(
        description="The query with likely misspellings corrected, where fuzzy search found any."
    )
    degraded: bool = Field(description="Whether the memory works without one of its parts.")
    degraded_reason: str | None = Field(description="Which part, and why.")
    profile: str
