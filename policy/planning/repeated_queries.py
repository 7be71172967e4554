"""The repeat filter: no query is run twice (LOOP-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from recall_loop.state.agent_state import PlannedQuery, QueryOutcome
from recall_loop.text.words.keys import jaccard, query_terms


class RepeatFilter:
    """Decides whether a query may run, given those that were tried; `dropped` has the texts of refused ones.

    Variants in case, space, punctuation, stop words, word form and word order count as the same, and so do queries
    whose terms overlap by at least `threshold` (Jaccard, in [0,1]). A query that failed with an error may run again;
    a query without results may run again with another fingerprint (tool and filters).
    """

    def __init__(
        self,
        outcomes: Mapping[str, QueryOutcome],
        threshold: float,
        fingerprint: Callable[[PlannedQuery], str] = lambda _: "",
    ) -> None:
        self._threshold = threshold
        self._fingerprint = fingerprint
        self._tried = [(query_terms(query), outcome) for query, outcome in outcomes.items()]
        self._accepted: list[frozenset[str]] = []
        self.dropped: list[str] = []

    def allows(self, query: str, fingerprint: str = "") -> bool:
        """Tell whether `query` repeats nothing that was tried or accepted before."""
        terms = query_terms(query)
        if not terms or any(self._same(terms, other) for other in self._accepted):
            return False
        return not any(
            self._same(terms, other) and not _may_retry(outcome, fingerprint) for other, outcome in self._tried
        )

    def _same(self, terms: frozenset[str], other: frozenset[str]) -> bool:
        return terms == other or jaccard(terms, other) >= self._threshold

    def keep(self, queries: Iterable[PlannedQuery], most: int) -> list[PlannedQuery]:
        """Accept the first `most` queries that repeat nothing, and return them ranked from 1."""
        kept: list[PlannedQuery] = []
        for query in queries:
            if len(kept) >= most:
                break
            if not self.allows(query["text"], self._fingerprint(query)):
                self.dropped.append(query["text"])
                continue
            self._accepted.append(query_terms(query["text"]))
            kept.append({**query, "rank": len(kept) + 1})
        return kept


def _may_retry(outcome: QueryOutcome, fingerprint: str) -> bool:
    return outcome["error"] is not None or (outcome["results"] == 0 and outcome["fingerprint"] != fingerprint)
