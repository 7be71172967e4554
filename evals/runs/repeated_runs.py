"""Count repeated queries from a run's progress events, apart from the filter that prevents them (LOOP-4)."""

from __future__ import annotations

from dataclasses import dataclass, field

from recall_loop.state.run.events import ProgressEvent
from recall_loop.text.words.keys import jaccard, query_terms


@dataclass
class _SearchCall:
    tool: str
    queries: list[str]
    results: int = 0
    failed: bool = False


@dataclass
class CallLog:
    """The search calls of one run.

    Attributes:
        similarity: queries whose terms overlap at least this much, in [0,1], are the same query.
    """

    similarity: float
    _calls: list[_SearchCall] = field(default_factory=list)

    def note(self, event: ProgressEvent) -> None:
        """Take in one progress event; events that tell nothing about calls change nothing."""
        if event["type"] == "queries_planned":
            queries = [str(query["text"]) for query in event["queries"]]
            self._calls.append(_SearchCall(event["tool"], queries))
        elif event["type"] == "call_done" and self._calls:
            self._calls[-1].results = event["result_count"]
            self._calls[-1].failed = event["error"] is not None

    @property
    def executed(self) -> int:
        """Return how many queries were executed, repeats included."""
        return sum(len(call.queries) for call in self._calls)

    def repeats(self) -> int:
        """Return how many executed queries repeated an earlier one of the same tool.

        A query is not a repeat of one whose call failed or found nothing: LOOP-4 lets those be asked
        again, the latter with other parameters.
        """
        count = 0
        asked: list[tuple[str, frozenset[str]]] = []
        for call in self._calls:
            for query in call.queries:
                terms = query_terms(query)
                count += any(
                    tool == call.tool and (terms == others or jaccard(terms, others) >= self.similarity)
                    for tool, others in asked
                )
                if not call.failed and call.results:
                    asked.append((call.tool, terms))
        return count
