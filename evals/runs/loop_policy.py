"""The loop as a policy of an evaluation, with the counters of its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from recall_loop.graph.builder import build_graph
from recall_loop.graph.run import follow, stream_graph
from recall_loop.graph.traced_graph import TracedGraph
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.run_context import DEFAULT_RETRIEVAL_PARTS, RetrievalParts
from recall_loop.nodes.runtime.run_holder import RunInputs
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RecalledFact
from recall_loop.state.run.events import ProgressEvent
from recall_loop.state.settings.settings import Settings
from recall_loop.text.words.tokens import jaccard, query_terms


@dataclass
class _SearchCall:
    tool: str
    queries: list[str]
    found: bool = False


@dataclass
class CallLog:
    """The search calls of one run; queries whose terms overlap by `similarity` in [0,1] or more are the same query."""

    similarity: float
    _calls: list[_SearchCall] = field(default_factory=list)

    def note(self, event: ProgressEvent) -> None:
        """Process one progress event; events that aren't about calls change nothing."""
        if event["type"] == "queries_planned":
            queries = [str(query["text"]) for query in event["queries"]]
            self._calls.append(_SearchCall(event["tool"], queries))
        elif event["type"] == "call_done" and self._calls:
            self._calls[-1].found = event["error"] is None and event["result_count"] > 0

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
                if call.found:
                    asked.append((call.tool, terms))
        return count


NEW = "new"


@dataclass(frozen=True)
class PolicyResult:
    """The outcome of one request under one policy; facts are best first.

    Attributes:
        found_in: for each fact, the iteration that found it first, from 1; empty where the run isn't traced.
        new_facts: for each iteration, the relevant facts that it added.
        executed: queries that were executed, repeats included.
        repeated: those of them that repeated an earlier one.
        score: confidence in [0,1]; None where the policy gives a label alone.
        answerable: probability in [0,1] that memory holds an answer; None where the policy doesn't tell.
        confidence: all that the result says of its confidence, which a mapping can be fitted on (CONF-4).
    """

    facts: Sequence[RecalledFact]
    found_in: Sequence[int]
    new_facts: Sequence[int]
    iterations: int
    executed: int
    repeated: int
    stop_reason: str
    label: str
    score: float | None = None
    answerable: float | None = None
    confidence: Mapping[str, Any] = field(default_factory=dict)
    llm_calls: int = 0
    llm_tokens: int = 0


class Policy(Protocol):
    """A way to answer requests from a store."""

    @property
    def name(self) -> str:
        """Name that reports use."""

    @property
    def settings(self) -> Settings:
        """Settings that it runs with."""

    def run(self, request: RetrieveRequest, store: MemoryStore) -> PolicyResult:
        """Answer one request."""


@dataclass(frozen=True)
class LoopPolicy:
    """The product's own loop with the given settings, or with other parts; `on_event` is called with every event.

    Results say which iteration found each fact if they are `traced`.
    """

    settings: Settings
    name: str = NEW
    on_event: Callable[[ProgressEvent], None] | None = None
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS
    traced: bool = True

    def run(self, request: RetrieveRequest, store: MemoryStore) -> PolicyResult:
        """Answer one request.

        A written answer is left out where there is no language model, so that a log of requests that asked for
        one can be replayed.
        """
        calls = CallLog(self.settings.repeat_similarity)
        unanswered = {"write_answer": None} if self.settings.llm_model is None else {}
        asked = request.model_copy(update=({"debug": True} if self.traced else {}) | unanswered)

        def note(event: ProgressEvent) -> None:
            calls.note(event)
            if self.on_event:
                self.on_event(event)

        result = follow(stream_graph(self._graph, RunInputs(asked, store)), note)
        confidence, metadata = result.confidence, result.metadata
        return PolicyResult(
            facts=result.facts,
            found_in=[int(fact.debug["first_iteration"]) for fact in result.facts if fact.debug],
            new_facts=metadata["new_facts_by_iteration"],
            iterations=result.stop.iteration,
            executed=calls.executed,
            repeated=calls.repeats(),
            stop_reason=result.stop.reason.value,
            label=confidence.label.value,
            score=confidence.score,
            answerable=confidence.answerable,
            confidence=confidence.model_dump(mode="json"),
            llm_calls=metadata["llm_calls"],
            llm_tokens=metadata["llm_tokens"],
        )

    @cached_property
    def _graph(self) -> TracedGraph:
        return build_graph(settings=self.settings, output="state", parts=self.parts)
