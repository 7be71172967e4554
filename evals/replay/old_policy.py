"""The retrieval policy that this project set out to replace, to be measured against (OPS-4).

Written apart from the product's own policy, and without a graph. It asks one broad query: the whole conversation as
it stands in lower case, the last 500 characters of it. It stops as soon as a call returned anything, at as many
results as facts are wanted (duplicates counted), after three calls in a row without a result, or at the iteration
limit. Its query never changes, so a call that found nothing is repeated as it was. What was found is cut in the order
of retrieval. Confidence counts calls that returned something, and facts; similarity plays no part, and there is a
label but no score.

The search engine is the product's, with its defaults: what is compared is the policy. So what belongs to the
original's search is left out: its fusion of two lists by rank, and the threshold on similarity that it lowered until
enough was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from recall_loop.evals.runs.loop_policy import PolicyResult
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.policy.evidence.pool_entries import fact_key
from recall_loop.state.errors import EmbedderError, StoreError
from recall_loop.state.records.records import SearchHit
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import Evidence, RecalledFact
from recall_loop.state.search import SearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ConfidenceLabel

OLD = "old"
QUERY_CHARACTERS = 500
LOOP_CALLS = 3
_CONFIDENT = 0.8


@dataclass
class OldPolicyRun:
    """The run of the old policy on one request: the number of results of each call, and what was found.

    `new_facts` counts for each call the facts that no earlier one found and that are similar enough to be relevant;
    `facts` are unique, in the order of retrieval, not cut yet, each with the iteration that found it.
    """

    result_counts: list[int] = field(default_factory=list)
    new_facts: list[int] = field(default_factory=list)
    facts: dict[str, tuple[SearchHit, int]] = field(default_factory=dict)

    def add_hits(self, hits: Sequence[SearchHit], least_similarity: float) -> None:
        """Append the results of one call."""
        self.result_counts.append(len(hits))
        unseen = 0
        for hit in hits:
            key = fact_key(hit.record)
            if key not in self.facts:
                self.facts[key] = (hit, len(self.result_counts))
                unseen += hit.similarity >= least_similarity
        self.new_facts.append(unseen)


@dataclass(frozen=True)
class OldPolicy:
    """The old policy; a call that fails counts as one without results."""

    settings: Settings
    name: str = OLD

    def run(self, request: RetrieveRequest, store: MemoryStore) -> PolicyResult:
        """Answer one request."""
        most_facts = request.max_facts or self.settings.max_facts
        most_iterations = request.max_iterations or self.settings.max_iterations
        done, stop_reason = OldPolicyRun(), ""
        while not stop_reason:
            done.add_hits(_call(request, store, self.settings, most_facts), self.settings.novelty_min_similarity)
            stop_reason = _stop(done.result_counts, most_facts, most_iterations)
        kept = list(done.facts.values())[:most_facts]
        calls = len(done.result_counts)
        return PolicyResult(
            facts=[_recalled_fact(hit) for hit, _ in kept],
            found_in=[iteration for _, iteration in kept],
            new_facts=done.new_facts,
            iterations=calls,
            executed=calls,
            repeated=calls - 1,
            stop_reason=stop_reason,
            label=label_by_counts(done.result_counts, [hit.record.confidence for hit, _ in done.facts.values()]).value,
        )


def broad_query(request: RetrieveRequest) -> str:
    """Return the whole conversation as one query."""
    return " ".join(message.content for message in request.messages).lower()[-QUERY_CHARACTERS:]


def _call(request: RetrieveRequest, store: MemoryStore, settings: Settings, limit: int) -> Sequence[SearchHit]:
    params = SearchParams(
        filters=request.filters,
        content_types=request.content_types,
        mode=settings.search_mode,
        limit=limit,
        limit_per_type=False,
        time_suffixes=False,
    )
    try:
        return search(store, broad_query(request), scope=request.read_scope(), params=params).hits
    except (StoreError, EmbedderError):
        return ()


def _stop(results: Sequence[int], most_facts: int, most_iterations: int) -> str:
    if len(results) >= most_iterations:
        return "iteration_limit"
    if sum(results) >= most_facts:
        return "max_facts"
    if len(results) >= LOOP_CALLS and not any(results[-LOOP_CALLS:]):
        return "tool_loop"
    return "any_result" if results[-1] else ""


def label_by_counts(results: Sequence[int], confidences: Sequence[float | None]) -> ConfidenceLabel:
    """Return the label by each call's number of results, and each unique fact's stored confidence in [0,1], if any."""
    if not confidences:
        return ConfidenceLabel.LOW
    stated = [value for value in confidences if value is not None]
    mean = sum(stated) / len(stated) if stated else 0.0
    sure = sum(value >= _CONFIDENT for value in stated)
    worked = sum(count > 0 for count in results) / len(results)
    if worked >= 0.7 and (sure >= 3 or len(confidences) >= 5):
        return ConfidenceLabel.HIGH
    if worked >= 0.4 and (sure >= 1 or len(confidences) >= 2 or mean >= 0.6):
        return ConfidenceLabel.MEDIUM
    return ConfidenceLabel.LOW


def _recalled_fact(hit: SearchHit) -> RecalledFact:
    """Return a hit in the shape of a result's fact."""
    record = hit.record
    return RecalledFact(
        id=record.id,
        content_type=record.kind,
        text=record.text,
        similarity=hit.similarity,
        score=hit.score,
        evidence=tuple(Evidence(source_id=source, snippet="") for source in record.source_ids),
    )
