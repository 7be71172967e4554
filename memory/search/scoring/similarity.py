"""Similarity: how well one record matches one query, in [0,1], independently of other records.

It is the mean of two parts (SEARCH-6):

- meaning: the cosine of query and record (the better of its own and its context vector) through a fixed
  logistic curve with its middle at 0.35 and a slope of 8, so that 0.10 gives 0.12, 0.35 gives 0.50 and
  0.60 gives 0.88;
- words: the share of the query's stems that the record has, weighted by idf in the tenant; a stem that
  only the neighbouring turns have counts 0.8.

A query without any indexable word is judged by meaning alone, a search without vectors by words alone.
Both parts rise with relevance, neither depends on other results, so values compare across queries, modes
and content types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

COSINE_MIDDLE = 0.35
COSINE_SLOPE = 8.0
NEIGHBOUR_SHARE = 0.8


def semantic_similarity(cosines: NDArray[np.float32]) -> NDArray[np.float64]:
    """Map cosines to (0,1) by the logistic curve of this module."""
    curve: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-COSINE_SLOPE * (cosines.astype(np.float64) - COSINE_MIDDLE)))
    return curve


def idf_weighted_coverage(
    own: NDArray[np.float64], window: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weighted share of query stems present.

    `own` and `window` are [n, t]: how much of each stem is there, where 1 and more is all of it, and less a
    likely misspelling; `weights` the stems' idf, [t] or [n, t]. No stems gives zeros.
    """
    total = np.broadcast_to(weights, own.shape).sum(axis=1)
    present = np.maximum(np.minimum(own, 1.0), NEIGHBOUR_SHARE * np.minimum(window, 1.0))
    share: NDArray[np.float64] = np.zeros(len(own))
    np.divide((present * weights).sum(axis=1), total, out=share, where=total > 0.0)
    return share


def combine_similarities(
    semantic: NDArray[np.float64] | None, coverage: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return the mean of the two parts, or the one that isn't None."""
    if semantic is None:
        return np.zeros(0) if coverage is None else coverage
    return semantic if coverage is None else 0.5 * semantic + 0.5 * coverage
