"""What a search may be told, and what it tells back (SEARCH-1, SEARCH-2, SEARCH-6)."""

from __future__ import annotations

from dataclasses import dataclass

from recall_loop.state.errors import InvalidInputError, UnsupportedOptionError
from recall_loop.state.records.records import SearchHit
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType, OrderBy, SearchMode
from recall_loop.text.time.time_expressions import TimeRange

MAX_RESULTS = 1000
FUZZY_LEVELS = (0, 1, 2)
DEFAULT_POOL = 50
"""How many of the best candidates are shown to a reranker, where nothing else is said."""

MAX_POOL = 100
"""How many may be shown; beyond that hardly anything moves into the first ten."""


@dataclass(frozen=True)
class SearchOptions:
    """How to search.

    Attributes:
        mode: which legs run; `auto` takes hybrid, or the leg that the query and the store leave.
        limit: most results, 1–1000; for each content type when `limit_per_type`.
        limit_per_type: every content type has a limit of its own (SEARCH-7).
        order_by: relevance, or newest first among the results that relevance chose.
        fuzzy: typo tolerance of the lexical leg: 0 exact, 1 some, 2 high; True means 1 (SEARCH-2). What is likely
            meant is embedded beside the query. An error in mode `vector`.
        apply_content_scoring: let tool output and reasoning weigh less (SEARCH-5).
        rerank: let late interaction order the best candidates anew; None = where the store holds token vectors.
        rerank_budget_ms: milliseconds that one call may spend on token vectors that aren't stored, 0 and above.
        rerank_pool: how many of the best candidates are ordered anew, 1–100.
        rerank_learned: let the learned order have its say where late interaction runs; not for queries that
            have a lower limit than the others of their call, which support those.
        time_suffixes: read a time at the end of a query, such as `< 3 days`, as a filter (SEARCH-10).
        debug: give per-leg ranks and scores with each hit.
    """

    mode: SearchMode = SearchMode.AUTO
    limit: int = 30
    limit_per_type: bool = True
    order_by: OrderBy = OrderBy.RELEVANCE
    fuzzy: int = 0
    apply_content_scoring: bool = True
    rerank: bool | None = None
    rerank_budget_ms: float = 0.0
    rerank_pool: int = DEFAULT_POOL
    rerank_learned: bool = True
    time_suffixes: bool = True
    debug: bool = False

    def __post_init__(self) -> None:
        """Refuse what is out of range or can't be honoured; modes and orders may be given by name."""
        for name, kind in (("mode", SearchMode), ("order_by", OrderBy)):
            value = getattr(self, name)
            if value not in list(kind):
                raise InvalidInputError(name, value, f"one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(value))
        if type(self.limit) is not int or not 1 <= self.limit <= MAX_RESULTS:
            raise InvalidInputError("limit", self.limit, f"an integer from 1 to {MAX_RESULTS}")
        if not 0.0 <= self.rerank_budget_ms < float("inf"):
            raise InvalidInputError("rerank_budget_ms", self.rerank_budget_ms, "a number of milliseconds, at least 0")
        if type(self.rerank_pool) is not int or not 1 <= self.rerank_pool <= MAX_POOL:
            raise InvalidInputError("rerank_pool", self.rerank_pool, f"an integer from 1 to {MAX_POOL}")
        level: object = self.fuzzy
        if not isinstance(level, int) or level not in FUZZY_LEVELS:
            raise InvalidInputError("fuzzy", self.fuzzy, "0, 1 or 2; True means 1")
        object.__setattr__(self, "fuzzy", int(level))
        if self.fuzzy and self.mode is SearchMode.VECTOR:
            raise UnsupportedOptionError("fuzzy", self.fuzzy, "0: mode vector looks up no words")


@dataclass(frozen=True)
class SearchResponse:
    """Results of one query, and where they were looked for.

    An empty `hits` with `allowed` > 0 means that nothing matched; with `allowed` = 0 that the scope
    and the filters hold no record at all. `filters` has the times that the query itself named; `corrected` is
    the query with likely misspellings mended, where fuzzy search found any; `time_range` the time that the query
    itself named.
    """

    query: str
    hits: tuple[SearchHit, ...]
    scope: Scope
    filters: Filters
    content_types: tuple[ContentType, ...]
    legs: tuple[str, ...]
    generation: str
    allowed: int
    degraded_reason: str | None = None
    corrected: str | None = None
    time_range: TimeRange | None = None

    @property
    def degraded(self) -> bool:
        """Whether the store works without one of its parts; `degraded_reason` says which."""
        return self.degraded_reason is not None
