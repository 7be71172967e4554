"""A learned order of the best candidates: a small ensemble of regression trees, read, checked and applied.

Hand-set weights have one way to weigh the signals. The best way depends on the records: long turns of an assistant
match many words of any question, and short answers follow questions. So there are two
ensembles, one for pools of short turns and one for pools of long ones. The trees were fitted
(`benchmarks/weights/fit_order.py`; LambdaRank, Burges 2010) to put gold evidence first; what
they return is added to the mixed score of the stage, which stays the larger part. Features are relative to the pool if
possible, and none names a data set, a person or a word.

The file is a JSON object: `id`, `features` (their order), `trees`, each a list of nodes `[feature, threshold, left,
right]` (left where value ≤ threshold; a negative child `-k` is leaf k − 1) with `leaves`, and `fitted_on`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from recall_loop.text.packaged_data import packaged_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

SHORT_TURNS_FILE, LONG_TURNS_FILE = "order_short_turns.json", "order_long_turns.json"
LONG_TURNS = 25
"""A pool has long turns if its median candidate has at least so many stems: about fifty words."""
_STANDARDISED = (
    "bm25 bm25_window word_share cosine cosine_window own window own_least own_middle own_best own_lead window_least"
    " window_middle window_best window_lead session length window_length before_mixed after_mixed before_own after_own"
    " reply"
)
STANDARDISED_FEATURES = tuple(_STANDARDISED.split())
"""Features that are standardised within the pool: (value − mean) / standard deviation."""
BINARY_FEATURES = ("named", "before_named", "asks", "before_asks")
"""Features of a candidate that are 0 or 1. Speaker and kind of record are left out on purpose: from a set in which
assistants' turns are seldom gold, the order would learn that they seldom are."""
ORDER_FEATURES = ("mixed", *STANDARDISED_FEATURES, *BINARY_FEATURES)
MAX_LEAVES = 16
_ALL = (1 << MAX_LEAVES) - 1
_ALL_LEAVES = np.uint16(_ALL)
# The lowest bit that is set in each number.
_LOWEST_BIT = np.array([0, *((number & -number).bit_length() - 1 for number in range(1, _ALL + 1))], dtype=np.int64)
MIN_POOL = 20
"""Fewer candidates have no meaningful standard deviation; they keep the mixed score."""
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class RegressionTree(BaseModel):
    """One regression tree."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nodes: tuple[tuple[int, _Finite, int, int], ...]
    leaves: tuple[_Finite, ...] = Field(min_length=1, max_length=MAX_LEAVES)

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        for at, (feature, _, *children) in enumerate(self.nodes):
            if not 0 <= feature < len(ORDER_FEATURES):
                raise ValueError(f"features numbered 0 to {len(ORDER_FEATURES) - 1}")
            # Children that come later make every walk end.
            if any(not (at < child < len(self.nodes) or -len(self.leaves) <= child < 0) for child in children):
                raise ValueError("children that come later, or existing leaves")
        children = [child for _, _, *pair in self.nodes for child in pair]
        if len(set(children)) != len(children) or len(self.leaves) != len(self.nodes) + 1:
            raise ValueError("each node and leaf under one node")
        return self


class LearnedRanker(BaseModel):
    """The ensemble, and what it was fitted on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=100)
    features: tuple[str, ...]
    trees: tuple[RegressionTree, ...]
    fitted_on: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _knows_its_features(self) -> Self:
        if self.features != ORDER_FEATURES:
            raise ValueError(f"features in this order: {', '.join(ORDER_FEATURES)}")
        return self

    def gains(self, features: Values) -> Values:
        """Return the additions to the mixed score of n candidates [n].

        Args:
            features: [n, f] in the order of `FEATURES`, finite.
        """
        return self._flat.gains(features)

    @cached_property
    def _flat(self) -> _QuickScorer:
        return _QuickScorer.from_trees(self.trees)


@dataclass(frozen=True)
class _QuickScorer:
    """All t trees at once, each with m nodes and up to 16 leaves (QuickScorer, Lucchese et al. 2015).

    A node whose test fails rules out the leaves on its left; a row ends in the first leaf that no node rules out.

    Attributes:
        feature, threshold: for each node [m·t], one node of each tree in turn; missing nodes test true.
        kept: bits of the leaves that stay when the test fails [m, t].
        values: of leaves [t, 16].
    """

    feature: NDArray[np.int64]
    threshold: Values
    kept: NDArray[np.uint16]
    values: Values

    @classmethod
    def from_trees(cls, trees: Sequence[RegressionTree]) -> _QuickScorer:
        """Convert trees."""
        most = max((len(tree.nodes) for tree in trees), default=0)
        feature = np.zeros((len(trees), most), dtype=np.int64)
        threshold, kept = np.full((len(trees), most), np.inf), np.full((len(trees), most), _ALL, dtype=np.uint16)
        values = np.zeros((len(trees), MAX_LEAVES))
        for number, tree in enumerate(trees):
            under, order = _leaves(tree)
            values[number, : len(order)] = [tree.leaves[leaf] for leaf in order]
            for at, (tested, limit, left, _) in enumerate(tree.nodes):
                feature[number, at], threshold[number, at] = tested, limit
                kept[number, at] = _ALL & ~under[left]
        return cls(feature.T.ravel(), threshold.T.ravel(), kept.T.copy(), values)

    def gains(self, features: Values) -> Values:
        """Return the sum over all trees for each row [n]."""
        # Transposed, so that whole features are copied instead of single values.
        failed = np.ascontiguousarray(features.T)[self.feature] > self.threshold[:, None]
        kept = np.where(failed.reshape(*self.kept.shape, len(features)), self.kept[:, :, None], _ALL_LEAVES)
        first = _LOWEST_BIT[np.bitwise_and.reduce(kept, axis=0, initial=_ALL_LEAVES)]
        # Summed row by row: another order would change the last digits.
        total: Values = np.ascontiguousarray(np.take_along_axis(self.values, first, axis=1).T).sum(axis=1)
        return total


def _leaves(tree: RegressionTree) -> tuple[dict[int, int], list[int]]:
    """Return the bits of the leaves under each node or leaf, and the leaves from left to right."""
    under: dict[int, int] = {}
    order: list[int] = []

    def visit(at: int) -> int:
        if at < 0:
            order.append(-at - 1)
            under[at] = 1 << (len(order) - 1)
        else:
            under[at] = visit(tree.nodes[at][2]) | visit(tree.nodes[at][3])
        return under[at]

    visit(0 if tree.nodes else -1)
    return under, order


def has_long_turns(term_counts: Sequence[int]) -> bool:
    """Tell whether the candidates of a pool are long turns, from how many stems each has."""
    return bool(np.median(term_counts) >= LONG_TURNS)


@lru_cache(maxsize=2)
def default_ranker(long_turns: bool) -> LearnedRanker:
    """Return the shipped order for pools of short or long turns."""
    file = LONG_TURNS_FILE if long_turns else SHORT_TURNS_FILE
    return LearnedRanker.model_validate_json(packaged_text(__package__, file))
