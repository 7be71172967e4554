"""The ingredients of retrieval, and how each one is left out (OPS-4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.search.engine import search_many
from recall_loop.memory.search.query.query_preparation import SearchResponse
from recall_loop.memory.search.rerank.rerank_stage import SearchParts
from recall_loop.memory.search.scoring.fusion import Fusion, query_numbers, share_of_best
from recall_loop.nodes.runtime.run_context import DEFAULT_RETRIEVAL_PARTS, RetrievalParts
from recall_loop.policy.evidence.members import LIST_SOURCES
from recall_loop.policy.planning.query_forms import fallback_queries
from recall_loop.policy.planning.round_plan import REFINE_ORIGIN, PlanningParts
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.run.events import ProgressEvent
from recall_loop.state.run.state_entries import PlannedQuery
from recall_loop.state.search import SearchParams
from recall_loop.state.types import QuerySource, SearchMode, Strategy

_RRF_K = 60.0
Signals = Mapping[str, NDArray[np.float64]]
Starts = NDArray[np.int64]


@dataclass(frozen=True)
class Ingredient:
    """One ingredient: its name as `--only` takes it, its effect, and the settings and parts that leave it out.

    `at_ingest` ones take effect when records are written: the run without it uses a separate store, which indexes
    messages with their neighbours if `context_windows`. `needs` is the field of `IngredientUsage` that a run with
    everything must have set for it to matter; "" = none.
    """

    name: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS
    at_ingest: bool = False
    context_windows: bool = True
    needs: str = ""


@dataclass
class IngredientUsage:
    """The ingredients that a run used: `later` rounds, `refine`, `bridges`, `feedback`, and strategies by name."""

    used: set[str] = field(default_factory=set)

    def note(self, event: ProgressEvent) -> None:
        """Take in one progress event."""
        if event["type"] != "queries_planned":
            return
        self.used.add(event["strategy"])
        self.used |= {"later"} if event["iteration"] > 1 else set()
        self.used |= {"refine"} if event["origin"] == REFINE_ORIGIN else set()
        for query in event["queries"]:
            if query["source"] == QuerySource.FEEDBACK:
                self.used.add("bridges" if query["seed"] else "feedback")
            elif query["source"] in LIST_SOURCES:
                self.used.add("members")


def ingredients() -> list[Ingredient]:
    """Return all ingredients that can be left out, in the order in which a request meets them."""
    return [*_indexing(), *_searching(), *_planning(), *_ranking()]


def _indexing() -> list[Ingredient]:
    about = "each message indexed and embedded with its neighbours in the conversation"
    plain = {"embedder": "minilm-plain"}
    return [
        Ingredient("context-indexing", about, at_ingest=True, context_windows=False),
        Ingredient("talk-weights", "the embedder's weights for messages and facts", plain, at_ingest=True),
    ]


def _searching() -> list[Ingredient]:
    """Return the ingredients of a search."""

    def fused_by(name: str, about: str, fusion: Fusion) -> Ingredient:
        search = partial(search_many, parts=SearchParts(fusion=fusion))
        return Ingredient(name, about, parts=RetrievalParts(search=search))

    reranked = "late interaction of token vectors on the best 100, and the learned order"
    by_score = "retrievers fused by score; reciprocal ranks (k = 60) instead"
    coverage = "share of the query's words that a window holds, as a signal"
    return [
        Ingredient("words", "the lexical retriever (BM25)", {"search_mode": SearchMode.VECTOR}),
        Ingredient("vectors", "the vector retriever", {"search_mode": SearchMode.FTS}),
        fused_by("score-fusion", by_score, Fusion(combine=sum_of_reciprocal_ranks)),
        fused_by("coverage", coverage, Fusion(ignored=frozenset({"word_share"}))),
        fused_by("speaker-prior", "preference for what the named speaker said", Fusion(speaker_weight=0.0)),
        fused_by("session-prior", "preference for sessions with several good turns", Fusion(session_weight=0.0)),
        Ingredient("reranker", reranked, parts=RetrievalParts(search=_search_without_reranking)),
        Ingredient("learned-order", "trees over retriever scores and token matches", {"learned_order": False}),
    ]


def sum_of_reciprocal_ranks(signals: Signals, starts: Starts) -> NDArray[np.float64]:
    """Join signals by reciprocal ranks, spread from the worst candidate to the best, in [0, number of signals]."""
    size = len(next(iter(signals.values())))
    of_query = query_numbers(starts, size)
    total = np.zeros(size)
    for signal in signals.values():
        total += np.where(signal > 0.0, 1.0 / (_RRF_K + _ranks(signal, of_query, starts)), 0.0)
    if size:
        total -= np.minimum.reduceat(total, starts)[of_query]
    return len(signals) * share_of_best(total, starts)


def _ranks(signal: NDArray[np.float64], of_query: NDArray[np.int64], starts: Starts) -> NDArray[np.float64]:
    """Return the rank of each candidate among those of its query, best = 1."""
    order = np.lexsort((-signal, of_query))
    ranks = np.empty(len(signal))
    ranks[order] = np.arange(len(signal)) - starts[of_query[order]] + 1.0
    return ranks


def _search_without_reranking(*given: Any, params: SearchParams, **others: Any) -> list[SearchResponse]:
    return search_many(*given, params=params.model_copy(update={"rerank": False}), **others)


def _planning() -> list[Ingredient]:
    """Return how the loop asks: the first round's queries, what later rounds add, and the strategies."""

    def planned_by(name: str, about: str, planning: PlanningParts, needs: str = "") -> Ingredient:
        return Ingredient(name, about, parts=RetrievalParts(planning), needs=needs)

    fan_out = "several queries in the first round; the whole question alone instead"
    time_query = "questions about a time, searched among records of that time"
    bridges = "queries that lead from found facts to missing ones"
    feedback = "queries of words that the best facts share"
    gaps = "queries for uncovered parts of the question"
    members = "queries for further members of a list, and the bonus for what they find"
    rounds = [
        Ingredient("iterations", "further rounds; one alone instead", {"max_iterations": 1}, needs="later"),
        planned_by("fan-out", fan_out, PlanningParts(direct=_whole_question)),
        planned_by("time-query", time_query, PlanningParts(direct=partial(fallback_queries, periods=False))),
        planned_by("bridges", bridges, PlanningParts(bridges=_no_queries), "bridges"),
        planned_by("feedback", feedback, PlanningParts(feedback=_no_queries), "feedback"),
        planned_by("gap-queries", gaps, PlanningParts(gaps=_no_queries), "refine"),
        planned_by("members", members, PlanningParts(members=_no_queries), "members"),
    ]
    others = {each.value: PlanningParts(strategies=frozenset(Strategy) - {each}) for each in Strategy}
    del others[Strategy.DIRECT.value]
    return rounds + [
        planned_by(f"strategy-{name}", f"the strategy `{name}`", without, name) for name, without in others.items()
    ]


def _whole_question(question: AnalysedQuestion, most: int, longest: int) -> list[PlannedQuery]:
    return fallback_queries(question, min(most, 1), longest)


def _no_queries(*_: Any, **__: Any) -> list[PlannedQuery]:
    return []


def _ranking() -> list[Ingredient]:
    def weight(name: str, about: str, needs: str = "") -> Ingredient:
        return Ingredient(f"{name}-bonus", about, {f"rank_{name}_weight": 0.0}, needs=needs)

    return [
        weight("reply", "bonus for replies to relevant questions"),
        weight("reference", "bonus for a titled record that the question or a found one names"),
        Ingredient("crowding", "lower scores from the third record of one title on", {"rank_crowding_weight": 0.0}),
        weight("time", "bonus for records from the time that the question names, or about it"),
        weight("teller", "bonus for turns of the speaker likely to have said the answer"),
        weight("novelty", "bonus for facts that a later round found", "later"),
        weight("recency", "bonus for recent records"),
        weight("diversity", "bonus for matching several queries"),
        weight("evidence", "bonus for several sources"),
        Ingredient("near-duplicates", "near-duplicates moved behind the rest", {"duplicate_similarity": 1.0}),
    ]


def select_ingredients(names: Iterable[str] | None) -> list[Ingredient]:
    """Return the ingredients of these names, all for None; raise `InvalidInputError` for an unknown one."""
    known = ingredients()
    allowed = [each.name for each in known]
    wanted = allowed if names is None else list(names)
    for name in wanted:
        if name not in allowed:
            raise InvalidInputError("only", name, f"some of {', '.join(allowed)}")
    return [each for each in known if each.name in wanted]
