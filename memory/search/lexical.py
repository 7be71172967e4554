"""Term statistics of candidates: counts, idf and BM25 with the tenant's own figures.

The full-text index only proposes candidates; what they score is computed here from the tenant's
document frequencies, so that another tenant's records can't move a score (STORE-3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.rows import Row

# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009): usual values.
K1 = 1.2
B = 0.75


@dataclass(frozen=True)
class TermCounts:
    """Counts of the query's stems in n candidates: own text and window [n, t], lengths [n], idf [t]."""

    own: NDArray[np.float64]
    window: NDArray[np.float64]
    own_length: NDArray[np.float64]
    window_length: NDArray[np.float64]
    idf: NDArray[np.float64]


def idf(documents: int, frequency: int) -> float:
    """Return the BM25 idf, always above 0; a stem that nobody has weighs most."""
    return math.log(1.0 + (max(documents, frequency) - frequency + 0.5) / (frequency + 0.5))


def count_terms(rows: Sequence[Row], stems: Sequence[str], frequencies: dict[str, int], documents: int) -> TermCounts:
    """Count each of `stems` in each of `rows`."""
    return TermCounts(
        own=_counts([row.term_counts for row in rows], stems),
        window=_counts([row.window_counts for row in rows], stems),
        own_length=np.array([len(row.terms) for row in rows], dtype=float),
        window_length=np.array([len(row.window_terms) for row in rows], dtype=float),
        idf=np.array([idf(documents, frequencies[stem]) for stem in stems], dtype=float),
    )


def _counts(counted: Sequence[Mapping[str, int]], stems: Sequence[str]) -> NDArray[np.float64]:
    # `get` and not `[]`: a Counter answers for a missing key by a method call, ten times slower.
    found = [[counts.get(stem, 0) for stem in stems] for counts in counted]
    return np.array(found, dtype=float).reshape(len(counted), len(stems))


def bm25(
    counts: NDArray[np.float64],
    lengths: NDArray[np.float64],
    mean_length: float,
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return BM25 of n candidates from their [n, t] counts."""
    norm = K1 * (1.0 - B + B * lengths / max(mean_length, 1.0))
    scores: NDArray[np.float64] = (counts * (K1 + 1.0) / (counts + norm[:, None])) @ weights
    return scores
