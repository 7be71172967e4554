"""Retrieval metrics over one ranked list of ids and a set of gold ids (OPS-4).

Pure functions. A list may name an id twice; the second time doesn't count, and takes no rank. Every
metric lies in [0,1] and needs at least one gold id: a question without gold isn't scored, so it isn't
part of any average: without gold, or with a cut `k` below 1, they raise `InvalidInputError`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from recall_loop.state.errors import InvalidInputError
from recall_loop.state.result import RecalledFact
from recall_loop.state.types import ContentType

NDCG_CUT = 10


def expand_to_sources(facts: Iterable[RecalledFact]) -> list[str]:
    """Return the ids that `facts`, in rank order, stand for, without duplicates (OPS-4).

    A message, an archival entry or a trajectory stands for itself. A fact stands for the sources it
    was drawn from, in the order of its evidence, or for itself where it names no source. Several
    sources of one fact take several ranks, so that a fact with many sources gains nothing by that;
    the cut at K comes after.
    """
    ids: dict[str, None] = {}
    for fact in facts:
        ids.update(dict.fromkeys(_stands_for(fact)))
    return list(ids)


def _stands_for(fact: RecalledFact) -> list[str]:
    if fact.content_type is not ContentType.FACT:
        return [fact.id]
    sources = [evidence.source_id for evidence in fact.evidence if evidence.source_id != fact.id]
    return sources or [fact.id]


def recall_at_k(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return the share of `gold` among the first `k` ids."""
    wanted = _gold(gold)
    return len(wanted.intersection(_top(ranked, k))) / len(wanted)


def all_at_k(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return 1.0 when every gold id is among the first `k` ids, else 0.0."""
    return float(_gold(gold).issubset(_top(ranked, k)))


def ndcg_at_10(ranked: Sequence[str], gold: Collection[str]) -> float:
    """Return the normalised discounted gain of the first ten ids.

    Gain is binary, the discount log2(rank + 1), and the ideal list begins with min(|gold|, 10) gold ids.
    """
    wanted = _gold(gold)
    gain = sum(_discount(rank) for rank, id_ in enumerate(_top(ranked, NDCG_CUT), 1) if id_ in wanted)
    return gain / sum(_discount(rank) for rank in range(1, min(len(wanted), NDCG_CUT) + 1))


def mrr(ranked: Sequence[str], gold: Collection[str]) -> float:
    """Return 1 / rank of the first gold id, 0.0 when there is none."""
    wanted = _gold(gold)
    ranks = (rank for rank, id_ in enumerate(dict.fromkeys(ranked), 1) if id_ in wanted)
    return 1.0 / next(ranks, math.inf)


def score_ranking(ranked: Sequence[str], gold: Collection[str], ks: Sequence[int]) -> dict[str, float]:
    """Return all metrics of one question, by name, in the order in which reports show them."""
    figures = {f"recall@{k}": recall_at_k(ranked, gold, k) for k in ks}
    figures |= {f"all@{k}": all_at_k(ranked, gold, k) for k in ks}
    return figures | {f"ndcg@{NDCG_CUT}": ndcg_at_10(ranked, gold), "mrr": mrr(ranked, gold)}


def macro_average(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over questions, every question weighing the same; {} for none."""
    if not scores:
        return {}
    return {name: math.fsum(each[name] for each in scores) / len(scores) for name in scores[0]}


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None for none."""
    return math.fsum(values) / len(values) if values else None


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (in [0,1]) of `values` lie, interpolated; NaN for none."""
    return float(np.quantile(values, share)) if values else math.nan


def _discount(rank: int) -> float:
    return 1.0 / math.log2(rank + 1)


def _top(ranked: Sequence[str], k: int) -> list[str]:
    if k < 1:
        raise InvalidInputError("k", k, "a whole number of 1 or more")
    return list(dict.fromkeys(ranked))[:k]


def _gold(gold: Collection[str]) -> frozenset[str]:
    if not gold:
        raise InvalidInputError("gold", list(gold), "at least one id; leave questions without gold out")
    return frozenset(gold)
