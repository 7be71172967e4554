"""Content scoring: tool output and reasoning weigh less than what was said (SEARCH-5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOOL_FACTOR = 0.7
NON_CONTENT_SHARE = 0.5


def content_factors(tool: NDArray[np.bool_], aside: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors in [0.35,1] by which the scores of n records are multiplied.

    A tool response (`tool` [n]) gets 0.7; a message with reasoning or tool blocks 1 − 0.5 × their share of its
    characters (`aside` [n], in [0,1]). Both apply to a tool response that has such blocks.
    """
    factors: NDArray[np.float64] = np.where(tool, TOOL_FACTOR, 1.0) * (1.0 - NON_CONTENT_SHARE * aside)
    return factors
