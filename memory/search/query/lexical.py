"""Terms of a query: their groups and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recall_loop.memory.store.index.row_index import RowIndex


# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009): usual values.
K1 = 1.2
B = 0.75


class TermGroup(NamedTuple):
    """A stem of a query with the stems that count as it: itself first with weight 1, then likely corrections.

    Or a time that the query names, with the stems of its days or months: these match when a record was made, not its
    text.
    """

    stem: str
    variants: tuple[tuple[str, float], ...]
    dated: bool = False


@dataclass(frozen=True)
class TermMatches:
    """How n candidates match t groups of stems.

    Attributes:
        own: weighted counts in the record's own text [n, t].
        window: weighted counts in the window [n, t].
        own_present: weight of the best variant that the own text has [n, t]; 0 if it has none.
        window_present: the same for the window [n, t].
        idf: weight of each group [t]; for several queries [q, t].
    """

    own: NDArray[np.float64]
    window: NDArray[np.float64]
    own_present: NDArray[np.float64]
    window_present: NDArray[np.float64]
    idf: NDArray[np.float64]


def idf(documents: int, frequency: int) -> float:
    """Return the BM25 idf, always above 0; a stem that no document has weighs most."""
    return math.log(1.0 + (max(documents, frequency) - frequency + 0.5) / (frequency + 0.5))


def group_idf(group: TermGroup, frequencies: Mapping[str, int], documents: int) -> float:
    """Return the idf of a group's first variant that the tenant has, else of its own stem."""
    known = (frequencies[stem] for stem, _ in group.variants if frequencies.get(stem))
    return idf(documents, next(known, 0))


def match_terms(
    index: RowIndex,
    positions: NDArray[np.int64],
    groups: Sequence[TermGroup],
    frequencies: Mapping[str, int],
    documents: int,
) -> TermMatches:
    """Count groups of stems in the rows at `positions`; of several variants, the highest weighted count is taken."""
    rarity = np.array([group_idf(group, frequencies, documents) for group in groups], dtype=float)
    if all(len(group.variants) == 1 for group in groups):
        found = index.counts([group.stem for group in groups], positions)
        present = [np.minimum(counts, 1.0) for counts in found]
        return TermMatches(found.own, found.window, present[0], present[1], rarity)
    size = (len(positions), len(groups))
    own, window, own_present, window_present = (np.zeros(size) for _ in range(4))
    depth = max((len(group.variants) for group in groups), default=0)
    for level in range(depth):
        columns = [number for number, group in enumerate(groups) if len(group.variants) > level]
        variants = [groups[number].variants[level] for number in columns]
        found = index.counts([stem for stem, _ in variants], positions)
        idfs = np.array([idf(documents, frequencies[stem]) for stem, _ in variants])
        # A common variant of a rare word must not score as much as the rare word.
        weighed = np.array([weight for _, weight in variants]) * np.minimum(idfs / rarity[columns], 1.0)
        for total, counts in ((own, found.own), (window, found.window)):
            total[:, columns] = np.maximum(total[:, columns], counts * weighed)
        for total, counts in ((own_present, found.own), (window_present, found.window)):
            total[:, columns] = np.maximum(total[:, columns], (counts > 0) * weighed)
    return TermMatches(own, window, own_present, window_present, rarity)


def bm25(
    counts: NDArray[np.float64], lengths: NDArray[np.float64], mean_length: float, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return BM25 of n candidates from their [n, t] counts; `weights` is [t] or [n, t]."""
    norm = K1 * (1.0 - B + B * lengths / max(mean_length, 1.0))
    scores: NDArray[np.float64] = (counts * (K1 + 1.0) / (counts + norm[:, None]) * weights).sum(axis=1)
    return scores
