"""Search options, shared by the library, HTTP, MCP, the command line and the LangChain tools (SEARCH-1, TRAJ-5)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from recall_loop.state.errors import UnsupportedOptionError
from recall_loop.state.language_codes import QUERY_LANGUAGE, LanguageCode
from recall_loop.state.scope import Filters
from recall_loop.state.types import (
    ContentType,
    ContentTypes,
    FiniteFloat,
    FuzzyLevel,
    Integer,
    OrderBy,
    SearchMode,
    Timestamp,
    UnitFloat,
    no_boolean,
)

MAX_RESULTS = 1000
DEFAULT_RERANK_POOL = 50
"""How many of the best candidates a reranker sees by default."""

MAX_RERANK_POOL = 100
"""Most candidates that a reranker sees; beyond that hardly anything moves into the first ten."""

DEFAULT_TRAJECTORY_LIMIT = 5
TRAJECTORY_MIN_SIMILARITY = 0.3
SUCCESS_THRESHOLD = 0.7
FAILURE_THRESHOLD = 0.3

Limit = Annotated[int, Field(ge=1, le=MAX_RESULTS), BeforeValidator(no_boolean)]


class _CommonParams(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    filters: Filters = Field(Filters(), description="Conditions that every result must meet.")
    mode: SearchMode = Field(
        SearchMode.AUTO, description="`vector`: meaning; `fts`: words; `hybrid`: both; `auto`: what fits the query."
    )
    fuzzy: FuzzyLevel = 0
    language: LanguageCode | None = Field(None, description=QUERY_LANGUAGE)
    reference_time: Timestamp | None = Field(
        None, description="Time from which `< 3 days` in a query counts back; absent = now."
    )

    def check_supported(self) -> None:
        """Raise `UnsupportedOptionError` where the mode can't honour an option (SEARCH-2)."""
        if self.fuzzy and self.mode is SearchMode.VECTOR:
            raise UnsupportedOptionError("fuzzy", self.fuzzy, "0: mode vector looks up no words")


class SearchParams(_CommonParams):
    """Options of a search. Absent content types are inferred from the filters (`searched_types`)."""

    content_types: ContentTypes | None = Field(
        None, description="Absent = fact, archival and message, or trajectory with a trajectory filter."
    )
    limit: Limit = Field(30, description="Maximum results, 1 to 1,000; per content type with `limit_per_type`.")
    limit_per_type: bool = Field(True, description="Apply the limit to every content type separately.")
    order_by: OrderBy = Field(OrderBy.RELEVANCE, description="Best first, or newest first among the best.")
    apply_content_scoring: bool = Field(True, description="Weigh tool output and reasoning less than speech.")
    rerank: bool | None = Field(
        None, description="Rerank the best by their token vectors; absent = if the store holds token vectors."
    )
    rerank_budget_ms: FiniteFloat = Field(0.0, ge=0, description="Milliseconds for computing missing token vectors.")
    rerank_pool: Integer = Field(
        DEFAULT_RERANK_POOL, ge=1, le=MAX_RERANK_POOL, description="Number of best results to rerank, 1 to 100."
    )
    rerank_learned: bool = Field(True, description="Apply the learned order if results are reranked.")
    time_suffixes: bool = Field(True, description="Read a time at the end of the query as a filter.")
    debug: bool = Field(False, description="Return the ranks and scores of each retriever with every result.")

    @field_validator("content_types", mode="before")
    @classmethod
    def _one_name(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @property
    def searched_types(self) -> tuple[ContentType, ...]:
        """The content types that are searched: those given, or those that the filters imply."""
        return self.content_types or self.filters.default_content_types


class TrajectorySearchParams(_CommonParams):
    """Options of a search of past runs, with or without contrasts."""

    filters: Filters = Field(Filters(), description="Conditions that every run must meet: status, tags, tools used …")
    limit: Limit = Field(DEFAULT_TRAJECTORY_LIMIT, description="Maximum runs, 1 to 1,000; per tier with contrasts.")
    min_score: UnitFloat | None = Field(None, description="Minimum learning value, 0 to 1; excludes unscored runs.")
    max_score: UnitFloat | None = Field(None, description="Maximum learning value, 0 to 1; excludes unscored runs.")
    min_similarity: UnitFloat = Field(
        TRAJECTORY_MIN_SIMILARITY,
        description="Minimum similarity to the query, 0 to 1; the filter of this name takes precedence.",
    )
    include_contrasts: bool = Field(False, description="Group by learning value; each tier is searched separately.")
    success_threshold: UnitFloat = Field(SUCCESS_THRESHOLD, description="Learning value from which a run is a success.")
    failure_threshold: UnitFloat = Field(
        FAILURE_THRESHOLD,
        description="Learning value up to which a run is a failure; less than `success_threshold`.",
        validate_default=True,
    )

    @field_validator("failure_threshold")
    @classmethod
    def _below_success(cls, value: float, info: ValidationInfo) -> float:
        success = info.data.get("success_threshold")
        if success is not None and not value < success:
            raise ValueError(f"less than success_threshold ({success})")
        return value
