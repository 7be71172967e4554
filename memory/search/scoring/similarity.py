"""Similarity of a record and a query, and the weight of its content."""

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


TOOL_FACTOR = 0.7
NON_CONTENT_SHARE = 0.5


def content_factors(tool: NDArray[np.bool_], aside: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors in [0.35,1] by which the scores of n records are multiplied.

    A tool response (`tool` [n]) gets 0.7; a message with reasoning or tool blocks 1 − 0.5 × their share of its
    characters (`aside` [n], in [0,1]). Both apply to a tool response that has such blocks.
    """
    factors: NDArray[np.float64] = np.where(tool, TOOL_FACTOR, 1.0) * (1.0 - NON_CONTENT_SHARE * aside)
    return factors
