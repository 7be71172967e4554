"""The ingredients of retrieval, and how each one is left out (OPS-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.evals.ablation.patches import Patch
from recall_loop.memory.search.rerank.rerank_stage import RerankStage
from recall_loop.memory.search.scoring import fusion
from recall_loop.policy.planning import strategies
from recall_loop.policy.planning.query_forms import fallback_queries
from recall_loop.policy.planning.round_plan import REFINE_ORIGIN
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.agent_state import PlannedQuery
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.events import ProgressEvent
from recall_loop.state.types import QuerySource, SearchMode, Strategy

EXPERIENCE = "experience"
_RRF_K = 60.0
Signals = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Ingredient:
    """One ingredient.

    Attributes:
        name: as `--only` takes it.
        about: what it does.
        settings: settings that leave it out.
        swaps: what stands in for it where no setting does.
        at_ingest: it works when records are written; the swaps hold then, in a store of its own.
        needs: what a run with everything must have made use of for it to matter, as `IngredientUsage` names it;
            "" = nothing.
    """

    name: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    patches: tuple[Patch, ...] = ()
    at_ingest: bool = False
    needs: str = ""


@dataclass
class IngredientUsage:
    """What a run made use of: `later` rounds, `refine`, `bridges`, `feedback`, and strategies by name."""

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


def ingredients() -> list[Ingredient]:
    """Return all ingredients that can be left out, in the order in which a request meets them."""
    return [*_indexing(), *_searching(), *_planning(), *_ranking()]


def _indexing() -> list[Ingredient]:
    alone = Patch("memory.store.write.context_windows", "neighbours", lambda connection, rowids: {})
    about = "each message indexed and embedded with its neighbours in the conversation"
    plain = Patch("memory.store.embed.embedders", "conversational_embedder", lambda embedder: embedder)
    return [
        Ingredient("context-indexing", about, patches=(alone,), at_ingest=True),
        Ingredient("talk-weights", "the embedder's weights for messages and facts", patches=(plain,), at_ingest=True),
    ]


def _searching() -> list[Ingredient]:
    """Return what a search is made of."""

    def fused_by(name: str, about: str, fuse: Callable[..., Any]) -> Ingredient:
        return Ingredient(name, about, patches=(Patch("memory.search.rerank.top_k", "fuse", fuse),))

    def weight(name: str, about: str, constant: str) -> Ingredient:
        return Ingredient(name, about, patches=(Patch("memory.search.scoring.fusion", constant, 0.0),))

    stage = Patch("memory.search.engine", "make_rerank_stage", lambda *_, **__: RerankStage())
    return [
        Ingredient("words", "the lexical leg (BM25)", {"search_mode": SearchMode.VECTOR}),
        Ingredient("vectors", "the vector leg", {"search_mode": SearchMode.FTS}),
        fused_by("score-fusion", "legs joined by score; reciprocal ranks (k = 60) instead", reciprocal_rank_fusion),
        fused_by("coverage", "share of the query's words that a window holds, as a signal", _without_coverage),
        weight("speaker-prior", "preference for what the named speaker said", "SPEAKER_WEIGHT"),
        weight("session-prior", "preference for sessions with several good turns", "SESSION_WEIGHT"),
        Ingredient(
            "reranker", "late interaction of token vectors on the best 100, and the learned order", patches=(stage,)
        ),
        Ingredient("learned-order", "trees on what legs and token matches say", {"learned_order": False}),
    ]


def reciprocal_rank_fusion(
    signals: Signals, named: NDArray[np.float64], places: fusion.Places, starts: fusion.Starts
) -> NDArray[np.float64]:
    """Fuse legs by reciprocal ranks, spread from the worst candidate to the best; the priors stay as they are."""
    of_query = fusion.query_numbers(starts, len(named))
    total = np.zeros(len(named))
    for signal in signals.values():
        total += np.where(signal > 0.0, 1.0 / (_RRF_K + _ranks(signal, of_query, starts)), 0.0)
    if len(total):
        total -= np.minimum.reduceat(total, starts)[of_query]
    return fusion.fuse(dict.fromkeys(signals, total), named, places, starts)


def _ranks(signal: NDArray[np.float64], of_query: NDArray[np.int64], starts: fusion.Starts) -> NDArray[np.float64]:
    """Return the rank of each candidate among those of its query, best = 1."""
    order = np.lexsort((-signal, of_query))
    ranks = np.empty(len(signal))
    ranks[order] = np.arange(len(signal)) - starts[of_query[order]] + 1.0
    return ranks


def _without_coverage(signals: Signals, *others: Any) -> NDArray[np.float64]:
    return fusion.fuse({name: signal for name, signal in signals.items() if name != "word_share"}, *others)


def _planning() -> list[Ingredient]:
    """Return how the loop asks: the first round's queries, what later rounds add, and the strategies."""

    def nothing(name: str, needs: str, about: str, module: str, function: str) -> Ingredient:
        return Ingredient(name, about, patches=(Patch(module, function, lambda *_: []),), needs=needs)

    rounds = [
        Ingredient("iterations", "further rounds; one alone instead", {"max_iterations": 1}, needs="later"),
        Ingredient(
            "fan-out",
            "several queries in the first round; the whole question alone instead",
            patches=(Patch("policy.planning.strategies", "fallback_queries", _whole_question),),
        ),
        nothing(
            "time-query",
            "",
            "what is asked of a time, looked up among what was made then",
            "policy.planning.query_forms",
            "period_queries",
        ),
        nothing(
            "bridges",
            "bridges",
            "queries from what was found to what is missing",
            "nodes.steps.query_planning",
            "bridge_queries",
        ),
        nothing(
            "feedback",
            "feedback",
            "queries of words that the best facts share",
            "policy.planning.round_plan",
            "feedback_queries",
        ),
        nothing(
            "gap-queries",
            "refine",
            "queries for uncovered parts of the question",
            "policy.planning.round_plan",
            "uncovered_queries",
        ),
    ]
    others = [strategy for strategy in Strategy if strategy is not Strategy.DIRECT]
    return rounds + [
        Ingredient(
            f"strategy-{strategy.value}",
            f"the strategy `{strategy.value}`",
            patches=(Patch("policy.planning.round_plan", "order_strategies", _order_without(strategy)),),
            needs=strategy.value,
        )
        for strategy in others
    ]


def _whole_question(question: AnalysedQuestion, most: int, longest: int) -> list[PlannedQuery]:
    return fallback_queries(question, min(most, 1), longest)


def _order_without(left_out: Strategy) -> Callable[..., list[Strategy]]:
    def order(*arguments: Any) -> list[Strategy]:
        return [strategy for strategy in strategies.order_strategies(*arguments) if strategy is not left_out]

    return order


def _ranking() -> list[Ingredient]:
    def weight(name: str, about: str, needs: str = "") -> Ingredient:
        return Ingredient(f"{name}-bonus", about, {f"rank_{name}_weight": 0.0}, needs=needs)

    return [
        weight("reply", "bonus for the answer to a turn that asks"),
        weight("reference", "bonus for a titled record that the question or a found one names"),
        Ingredient("crowding", "third and further records of one title put lower", {"rank_crowding_weight": 0.0}),
        weight("time", "bonus for records of a time in which the question places what it asks"),
        weight("teller", "bonus for turns of whoever has said what is asked for, as the question tells"),
        weight("novelty", "bonus for facts that a later round found", "later"),
        weight("recency", "bonus for recent records"),
        weight("diversity", "bonus for matching several queries"),
        weight("evidence", "bonus for several sources"),
        Ingredient("near-duplicates", "near-duplicates put behind the rest", {"duplicate_similarity": 1.0}),
    ]


def select_ingredients(names: Iterable[str] | None) -> tuple[list[Ingredient], bool]:
    """Return the ingredients of these names, all for None, and whether experience is among them.

    Raises:
        InvalidInputError: an unknown name.
    """
    known = ingredients()
    wanted = [*(each.name for each in known), EXPERIENCE] if names is None else list(names)
    allowed = [*(each.name for each in known), EXPERIENCE]
    for name in wanted:
        if name not in allowed:
            raise InvalidInputError("only", name, f"some of {', '.join(allowed)}")
    return [each for each in known if each.name in wanted], EXPERIENCE in wanted
