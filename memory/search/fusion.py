"""Score-level fusion of the legs into one ranking value in [0,1].

Each signal is divided by its best value among the candidates; the sum is weighted, two priors are
added, and the whole is divided by the most that could be had. Rank-only fusion loses on the labelled
data (`docs/search.md`), because it forgets how much better the best hit is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Signal = NDArray[np.float64]

SPEAKER_WEIGHT = 0.3
SESSION_WEIGHT = 0.3
_SESSION_DEPTH = 30


def share_of_best(signal: Signal) -> Signal:
    """Divide by the best value; negative values count as 0, unless all are: then the least of them is best."""
    if len(signal) and float(signal.max()) < 0.0:
        closeness: Signal = signal.max() / signal
        return closeness
    positive = np.maximum(signal, 0.0)
    best = float(positive.max(initial=0.0))
    return positive / best if best > 0.0 else positive


def fuse(signals: dict[str, Signal], named: Signal, places: Sequence[str | None]) -> Signal:
    """Return the fused score of n candidates in [0,1].

    Args:
        signals: legs by name, each [n].
        named: 1 where the query names the candidate's author, else 0.
        places: the session of each candidate; None where it has none.
    """
    total = np.sum([share_of_best(signal) for signal in signals.values()], axis=0)
    total = total + SPEAKER_WEIGHT * named
    most = len(signals) + SPEAKER_WEIGHT + SESSION_WEIGHT
    fused: Signal = (total + SESSION_WEIGHT * session_prior(total, places)) / most
    return fused


def session_prior(scores: Signal, places: Sequence[str | None]) -> Signal:
    """Return for each candidate how much of the top 30's score its session holds, best session = 1.

    A session with several good turns is the likelier place of the answer. A candidate without a
    session is taken for itself: its score as a share of the best.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    for index in np.argsort(-scores, kind="stable")[:_SESSION_DEPTH]:
        place = places[int(index)]
        if place is not None:
            sums[place] += float(scores[index])
    best = max(sums.values(), default=0.0)
    alone = share_of_best(scores)
    return np.array(
        [
            alone[index] if place is None else sums.get(place, 0.0) / best if best > 0 else 0.0
            for index, place in enumerate(places)
        ]
    )
