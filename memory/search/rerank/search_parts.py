"""The parts of a search that can be handed in, so that measurements leave out or replace one (OPS-4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recall_loop.memory.search.rerank.learned import learned_gains
from recall_loop.memory.search.scoring.fusion import DEFAULT_FUSION, Fusion

if TYPE_CHECKING:
    from recall_loop.memory.search.rerank.learned import OrderGains


@dataclass(frozen=True)
class SearchParts:
    """The functions that a search uses; the defaults are the product's own.

    Attributes:
        fusion: joins the signals of candidates into one score.
        gains: what the learned order adds to the scores of the best candidates.
    """

    fusion: Fusion = DEFAULT_FUSION
    gains: OrderGains = learned_gains


DEFAULT_SEARCH_PARTS = SearchParts()
