"""How likely a single fact matters for a question: what the context block keeps (LIVE-5).

A logistic regression of how well the fact's own words match the question, of its share of the best score, and of its
rank. A fact that only other queries found, at the end of a bridge for instance, has no match of its own: its
similarity stands for it, which is never above that of the fact that led there. The weights are in
`relevance_weights.json`, made by `benchmarks/weights/confidence/fit_relevance.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.text.packaged_data import packaged_table

ALIGNED_FEATURES = ("cosine", "tokens", "least", "similarity", "share_of_best", "log_rank")
_DIGITS = 6
WEIGHTS_FILE = "relevance_weights.json"


@lru_cache(maxsize=1)
def _weights() -> dict[str, dict[str, float]]:
    weights: dict[str, dict[str, float]] = packaged_table(__package__, WEIGHTS_FILE)["weights"]
    return weights


def relevance_features(
    alignment: Sequence[float], similarity: float, score: float, best_score: float, rank: int
) -> dict[str, float]:
    """Return the features of a fact, by name.

    Args:
        alignment: cosine, mean and least token match; empty where only other queries found the fact.
        similarity: its similarity, in [0,1].
        score: its score, in [0,1].
        best_score: the best score of all facts.
        rank: its rank, from 1.
    """
    shared = {
        "similarity": similarity,
        "share_of_best": score / best_score if best_score else 0.0,
        "log_rank": math.log(rank),
    }
    return shared | dict(zip(ALIGNED_FEATURES, alignment, strict=False))


def rate_relevance(ranked: Sequence[RankedEntry], holds_answer: float = 1.0) -> list[RankedEntry]:
    """Return the facts, best first, each with the probability in [0,1] that it matters for the question.

    `holds_answer` is the probability in [0,1] that memory holds an answer at all, where that is in doubt.
    """
    best = max((item.score for item in ranked), default=0.0)
    rated = ((item, _relevance(item, best, rank)) for rank, item in enumerate(ranked, 1))
    return [replace(item, relevance=round(holds_answer * relevance, _DIGITS)) for item, relevance in rated]


def _relevance(item: RankedEntry, best: float, rank: int) -> float:
    alignment = item.entry["alignment"]
    features = relevance_features(alignment, item.entry["similarity"], item.score, best, rank)
    weights: dict[str, Any] = _weights()["aligned" if alignment else "unaligned"]
    total = weights["intercept"] + math.fsum(weights[name] * value for name, value in features.items())
    return 1.0 / (1.0 + math.exp(-max(min(total, 50.0), -50.0)))
