"""What one run has worked out already, so that the next node needn't do it again.

Everything here is a pure function of the state: without it, as after a resume in another process, a run gives
the same result. It lives as long as its run, so no text outlasts the request that read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from recall_loop.policy.evidence.coverage import FacetMatcher
from recall_loop.policy.evidence.ranking import RankedEntry, rank_entries
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.agent_state import Facet, PoolEntry
from recall_loop.state.settings.settings import Settings

EvidencePool = Mapping[str, PoolEntry]


@dataclass
class RunCache:
    """The pool's ranking, and which facets its entries support, of one run."""

    question: AnalysedQuestion
    settings: Settings
    reference_time: datetime
    _ranking: tuple[EvidencePool, list[RankedEntry]] | None = None
    _support: tuple[list[Facet], FacetMatcher] | None = None
    _supported: dict[str, tuple[dict[str, Any], frozenset[int]]] = field(default_factory=dict)

    def ranked(self, pool: EvidencePool) -> list[RankedEntry]:
        """Return all entries of `pool`, best first."""
        known = self._ranking
        if known is None or known[0] is not pool:
            question = self.question
            known = (
                pool,
                rank_entries(pool.values(), self.settings, self.reference_time, question.text, question.event_times),
            )
            self._ranking = known
        return known[1]

    def mark_new(self, pool: EvidencePool, new: frozenset[str]) -> dict[str, PoolEntry]:
        """Return `pool` with the entries of the keys in `new` marked as NEW; the mark changes no rank."""
        ranked = self.ranked(pool)
        marked: dict[str, PoolEntry] = {
            key: {**entry, "is_new": True} if key in new else entry for key, entry in pool.items()
        }
        changed = [
            replace(item, entry=marked[item.entry["key"]]) if item.entry["key"] in new else item for item in ranked
        ]
        self._ranking = (marked, changed)
        return marked

    def supports(self, facets: list[Facet], entry: PoolEntry) -> frozenset[int]:
        """Return the indices of the facets that one record supports."""
        if self._support is None or self._support[0] is not facets:
            self._support = (facets, FacetMatcher(facets, self.question.times))
            self._supported = {}
        known = self._supported.get(entry["key"])
        if known is None or known[0] is not entry["record"]:
            known = self._supported[entry["key"]] = (entry["record"], self._support[1](entry))
        return known[1]
