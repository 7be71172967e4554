"""What the route of searches takes and gives (SEARCH-1 to SEARCH-10)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from recall_loop.memory.search.present.truncation import FULL_PROFILE, TruncationProfile, parse_profile
from recall_loop.memory.search.query.options import DEFAULT_POOL, MAX_RESULTS, SearchOptions
from recall_loop.service.models.scope_models import QueryText, ScopeFields
from recall_loop.state.request import DEFAULT_CONTENT_TYPES
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType, FiniteFloat, Integer, OrderBy, Role, SearchMode, Timestamp

MAX_RERANK_BUDGET_MS = 10_000
_TRAJECTORY_FILTERS = ("execution_status", "min_outcome_score", "max_outcome_score")
Limit = Annotated[Integer, Field(ge=1, le=MAX_RESULTS)]
Fuzzy = Annotated[
    int,
    Field(ge=0, le=2),
    BeforeValidator(lambda level: int(level) if isinstance(level, bool) else level),
    WithJsonSchema({"anyOf": [{"type": "integer", "enum": [0, 1, 2]}, {"type": "boolean"}]}),
    Field(description="Typo tolerance of the words: 0 none, 1 some (also `true`), 2 high. Not in mode `vector`."),
]


class SearchRequest(ScopeFields):
    """One search. Whose memory it is says the key alone."""

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
    filters: Filters = Field(Filters(), description="What results must satisfy; every one that is given.")
    content_types: list[ContentType] | None = Field(
        None,
        min_length=1,
        description="Absent = fact, archival and message; trajectory where a filter of trajectories is given.",
    )
    mode: SearchMode = Field(
        SearchMode.AUTO, description="`vector`: meaning; `fts`: words; `hybrid`: both; `auto`: what fits the query."
    )
    fuzzy: Fuzzy = 0
    limit: Limit = Field(10, description="Most results, 1 to 1,000; of each content type where `limit_per_type`.")
    limit_per_type: bool = Field(True, description="Every content type has the limit for itself.")
    order_by: OrderBy = Field(OrderBy.RELEVANCE, description="Best first, or newest first among the best.")
    apply_content_scoring: bool = Field(True, description="Tool output and reasoning weigh less than what was said.")
    rerank: bool | None = Field(
        None, description="Look at the best once more, word by word; absent = where the store holds token vectors."
    )
    rerank_budget_ms: FiniteFloat = Field(
        0.0,
        ge=0,
        le=MAX_RERANK_BUDGET_MS,
        description="Milliseconds for token vectors that aren't stored, 0 to 10,000.",
    )
    rerank_pool: Integer = Field(
        DEFAULT_POOL, ge=1, le=DEFAULT_POOL, description="How many of the best are looked at again."
    )
    rerank_learned: bool = Field(True, description="Let the learned order have its say where that is done.")
    time_suffixes: bool = Field(True, description="Read a time at the end of the query as a filter.")
    reference_time: Timestamp | None = Field(None, description="What such a time counts from; absent = the clock.")
    profile: str = Field(
        FULL_PROFILE.name,
        max_length=200,
        description="How much of each text: `full`, `local`, `constellation`, `messages`, or steps such as "
        "`2:full,5:1000,400` (ranks 1 and 2 whole, up to rank 5 at most 1000 characters, then 400).",
    )
    debug: bool = Field(False, description="Give each leg's ranks and scores with every result.")

    def kinds(self) -> tuple[ContentType, ...]:
        """Return the kinds of records to look through."""
        if self.content_types is not None:
            return tuple(dict.fromkeys(self.content_types))
        asked = any(getattr(self.filters, name) is not None for name in _TRAJECTORY_FILTERS)
        return (ContentType.TRAJECTORY,) if asked else DEFAULT_CONTENT_TYPES

    def options(self) -> SearchOptions:
        """Return how to search.

        Raises:
            UnsupportedOptionError: an option that the mode can't honour (SEARCH-2).
        """
        return SearchOptions(
            mode=self.mode,
            limit=self.limit,
            limit_per_type=self.limit_per_type,
            order_by=self.order_by,
            fuzzy=self.fuzzy,
            apply_content_scoring=self.apply_content_scoring,
            rerank=self.rerank,
            rerank_budget_ms=self.rerank_budget_ms,
            rerank_pool=self.rerank_pool,
            rerank_learned=self.rerank_learned,
            time_suffixes=self.time_suffixes,
            debug=self.debug,
        )

    def shown(self) -> TruncationProfile:
        """Return how much of each text is given.

        Raises:
            InvalidInputError: no such profile.
        """
        return parse_profile(self.profile)


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
    """Results, best first, and where was looked: an empty answer tells whether anything was there at all."""

    query: str
    hits: list[SearchResultItem]
    allowed: int = Field(description="Records that scope, filters and types leave; 0 = there was nothing to search.")
    scope: Scope
    filters: dict[str, Any] = Field(description="The filters, with the time that the query itself named.")
    content_types: list[ContentType]
    legs: list[str] = Field(description="What ran: `fts` (words), `vector` (meaning).")
    generation: str = Field(description="Generation of the index.")
    time_range: list[Timestamp | None] | None = Field(description="The time that the query named: start and end.")
    corrected: str | None = Field(description="The query with likely misspellings mended, where fuzzy found any.")
    degraded: bool = Field(description="Whether the memory works without one of its parts.")
    degraded_reason: str | None = Field(description="Which part, and why.")
    profile: str
