"""Score-level fusion of the signals into one ranking value in [0,1], similarity, and the weight of content.

Each signal is divided by its best value among the candidates of its query; the sum is weighted, two priors are
added, and the whole is divided by its maximum. Rank-only fusion is worse on the labelled
data (`docs/search.md`), because it loses how much better the best hit is.

The candidates of several queries are concatenated in the same arrays; `starts` has the index of each query's first
one. The scores of a query don't depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Signal = NDArray[np.float64]
    Starts = NDArray[np.int64]
    SessionCodes = NDArray[np.int64] | NDArray[np.int32] | Sequence[int]


# Chosen on the development sets (docs/search.md); only the order of magnitude matters.
SPEAKER_WEIGHT = 0.6
SESSION_WEIGHT = 0.3
NO_SESSION = -1
_SESSION_DEPTH = 30
# Weight of vectors for a language that their model doesn't know.
_UNSURE = 0.1
_ONE: Starts = np.zeros(1, dtype=np.int64)


def query_numbers(starts: Starts, size: int) -> NDArray[np.int64]:
    """Return for each of `size` candidates the number of its query; every query has at least one."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=size))


def query_slices(starts: Starts, size: int) -> list[slice]:
    """Return for each query the slice of its candidates, of `size` in all."""
    return [slice(start, end) for start, end in pairwise([*starts.tolist(), size])]


def share_of_best(signal: Signal, starts: Starts = _ONE) -> Signal:
    """Divide by the query's best value; negative values count as 0, unless all are: then the one nearest to 0 is best.

    `signal` is one of n candidates [n], or several of them [s, n].
    """
    size = signal.shape[-1]
    if not size:
        return signal
    best = np.maximum.reduceat(signal, starts, axis=-1)[..., query_numbers(starts, size)]
    shares = np.divide(np.maximum(signal, 0.0), best, out=np.zeros_like(signal), where=best > 0.0)
    below = best < 0.0
    if below.any():
        np.divide(best, signal, out=shares, where=below)
    return shares


def sum_of_shares(signals: Mapping[str, Signal], starts: Starts) -> Signal:
    """Return the sum of all signals, each as a share of its query's best value: 0 to the number of signals."""
    total: Signal = share_of_best(np.array(list(signals.values())), starts).sum(axis=0)
    return total


def words_first(signals: Mapping[str, Signal], starts: Starts) -> Signal:
    """Return the same sum with little weight for meaning, which then only breaks ties."""
    shares = [
        share_of_best(signal, starts) * (_UNSURE if name.startswith("cosine") else 1.0)
        for name, signal in signals.items()
    ]
    total: Signal = np.sum(shares, axis=0)
    return total


@dataclass(frozen=True)
class Fusion:
    """How signals become one score; ablations replace it to measure the value of each part (OPS-4).

    Attributes:
        combine: joins the signals of n candidates [n], by the starts of the queries; at most 1 for each signal.
        speaker_weight: weight of the preference for the named speaker.
        session_weight: weight of the preference for sessions with several good turns.
        ignored: names of signals that are left out.
    """

    combine: Callable[[Mapping[str, Signal], Starts], Signal] = sum_of_shares
    speaker_weight: float = SPEAKER_WEIGHT
    session_weight: float = SESSION_WEIGHT
    ignored: frozenset[str] = frozenset()

    def fuse(
        self, signals: Mapping[str, Signal], named: Signal, session_codes: SessionCodes, starts: Starts = _ONE
    ) -> Signal:
        """Return the fused score of n candidates in [0,1].

        Args:
            signals: values of the retrievers by name, each [n].
            named: 1 if the query names the candidate's author, else 0.
            session_codes: number of the session of each candidate; -1 if it has none.
            starts: the index of each query's first candidate, beginning with 0.
        """
        counted = {name: signal for name, signal in signals.items() if name not in self.ignored}
        total = self.combine(counted, starts) + self.speaker_weight * named
        most = len(counted) + self.speaker_weight + self.session_weight
        fused: Signal = (total + self.session_weight * session_prior(total, session_codes, starts)) / most
        return fused


DEFAULT_FUSION = Fusion()


def session_prior(scores: Signal, session_codes: SessionCodes, starts: Starts = _ONE) -> Signal:
    """Return for each candidate its session's share of the total score of the query's top 30, best session = 1.

    A session with several good turns is more likely to have the answer. A candidate without a session counts by
    itself: its score as a share of the best.
    """
    if not len(scores):
        return scores
    numbers, of_query = np.asarray(session_codes, dtype=np.int64), query_numbers(starts, len(scores))
    order = np.lexsort((-scores, of_query))
    rank = np.arange(len(scores)) - starts[of_query[order]]
    counted = order[(rank < _SESSION_DEPTH) & (numbers[order] != NO_SESSION)]
    prior = share_of_best(scores, starts)
    if not len(counted):
        return np.where(numbers == NO_SESSION, prior, 0.0)
    width = int(numbers.max()) + 1
    sessions, session_of = np.unique(of_query * width + np.maximum(numbers, 0), return_inverse=True)
    sums = np.bincount(session_of[counted], weights=scores[counted], minlength=len(sessions))
    best = np.zeros(len(starts))
    np.maximum.at(best, sessions // width, sums)
    best = best[of_query]
    held = np.divide(sums[session_of], best, out=np.zeros_like(scores), where=best > 0.0)
    return np.where(numbers == NO_SESSION, prior, held)


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

    `own` and `window` are [n, t]: the weight with which each stem is present, where 1 or more is an exact match and
    less a likely misspelling; `weights` is the stems' idf, [t] or [n, t]. Without stems the result is zeros.
    """
    total = np.broadcast_to(weights, own.shape).sum(axis=1)
    present = np.maximum(np.minimum(own, 1.0), NEIGHBOUR_SHARE * np.minimum(window, 1.0))
    share: NDArray[np.float64] = np.zeros(len(own))
    np.divide((present * weights).sum(axis=1), total, out=share, where=total > 0.0)
    return share


def combine_similarities(
    semantic: NDArray[np.float64] | None, coverage: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return the mean of the two parts, or the one that is given."""
    if semantic is None:
        return np.zeros(0) if coverage is None else coverage
    return semantic if coverage is None else 0.5 * semantic + 0.5 * coverage


TOOL_FACTOR = 0.7
NON_CONTENT_SHARE = 0.5


def content_factors(tool: NDArray[np.bool_], aside: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors in [0.35,1] for the scores of n records.

    A tool response (`tool` [n]) gets 0.7; a message with reasoning or tool blocks 1 − 0.5 × their share of its
    characters (`aside` [n], in [0,1]). Both apply to a tool response that has such blocks.
    """
    factors: NDArray[np.float64] = np.where(tool, TOOL_FACTOR, 1.0) * (1.0 - NON_CONTENT_SHARE * aside)
    return factors
