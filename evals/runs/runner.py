"""Run a data set: ingest its collections, ask its questions, keep what each run found and did (OPS-4).

Every collection is a tenant of one store, so that a question searches its own collection and nothing
else. Retrieval goes the way that every caller's request goes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from recall_loop.evals.datasets.datasets import Dataset
from recall_loop.evals.datasets.questions import LabelledQuestion
from recall_loop.evals.measures.retrieval_metrics import expand_to_sources, score_ranking
from recall_loop.evals.runs.dataset_ingest import StageProgress, ingest
from recall_loop.evals.runs.repeated_runs import CallLog
from recall_loop.graph.builder import build_graph
from recall_loop.graph.graph_tracing import TracedGraph
from recall_loop.graph.run import stream_graph
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.retrieval_parts import DEFAULT_RETRIEVAL_PARTS, RetrievalParts
from recall_loop.nodes.runtime.run_context import RunInputs
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings.settings import Settings

MOST_FACTS = 1000
_FIXED_SETTINGS = {
    "max_facts": "left out: the largest K decides it",
    "store_path": "left out: the folder is an argument of its own",
    "tenant": "left out: every collection is a tenant",
}


@dataclass(frozen=True)
class EvalOptions:
    """What is asked, and how far results are looked at.

    Attributes:
        ks: cuts of recall and all, each 1–1000, ascending; the largest is the request's `max_facts`.
        categories: only questions of these categories; None = all.
        limit: ask at most this many questions, drawn with `seed`; None = all.
        seed: seed of that draw. Nothing else is random.
        unscored: also ask questions that are unanswerable or have no gold. They count for iterations,
            stop reasons and latency, never for recall.
    """

    ks: tuple[int, ...] = (5, 10, 20)
    categories: tuple[str, ...] | None = None
    limit: int | None = None
    seed: int = 0
    unscored: bool = False

    def __post_init__(self) -> None:
        """Refuse values out of range with `InvalidInputError`."""
        if not self.ks or any(not 1 <= k <= MOST_FACTS for k in self.ks):
            raise InvalidInputError("k", self.ks, f"whole numbers from 1 to {MOST_FACTS}")
        if self.limit is not None and self.limit < 1:
            raise InvalidInputError("limit", self.limit, "a whole number of 1 or more")
        object.__setattr__(self, "ks", tuple(sorted(set(self.ks))))


@dataclass(frozen=True)
class QuestionResult:
    """What one question brought.

    Attributes:
        ids: what the result's facts stand for, in rank order, without duplicates.
        scores: metrics by name; {} when the question isn't scored.
        executed: queries that were executed.
        repeats: those of them that repeated an earlier one (LOOP-4).
        latency_ms: wall time of the request.
        confidence: calibrated score in [0,1].
        confidence_detail: all that the result says of its confidence, which a mapping can be fitted on (CONF-4).
    """

    question: LabelledQuestion
    ids: list[str]
    scores: dict[str, float]
    facts: int
    iterations: int
    executed: int
    repeats: int
    latency_ms: float
    stop_reason: str
    confidence: float
    confidence_label: str
    confidence_detail: dict[str, Any] = field(default_factory=dict)


def settings_with(overrides: Iterable[str]) -> Settings:
    """Return the settings with `name=value` pairs over what the environment says.

    Raises:
        InvalidInputError: a pair without `=`, an unknown name, a value out of its range, or a setting
            that an evaluation fixes by other means.
    """
    values: dict[str, str] = {}
    for pair in overrides:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidInputError("set", pair, "name=value, such as max_iterations=1")
        if name.strip() in _FIXED_SETTINGS:
            raise InvalidInputError("set", pair, _FIXED_SETTINGS[name.strip()])
        values[name.strip()] = value.strip()
    return Settings(**values)


def select_questions(dataset: Dataset, options: EvalOptions) -> list[LabelledQuestion]:
    """Return the questions to ask, in the order of the data set.

    Raises:
        InvalidInputError: a category that no question has, or nothing left to ask.
    """
    known = {question.category for question in dataset.questions}
    wanted = known if options.categories is None else set(options.categories)
    if wanted - known:
        raise InvalidInputError("categories", sorted(wanted - known), f"some of {sorted(known)}")
    chosen = [
        (place, question)
        for place, question in enumerate(dataset.questions)
        if question.category in wanted and (question.scored or options.unscored)
    ]
    if not chosen:
        raise InvalidInputError("categories", sorted(wanted), "some with answerable questions that have gold")
    if options.limit is not None and options.limit < len(chosen):
        chosen = sorted(random.Random(options.seed).sample(chosen, options.limit), key=lambda each: each[0])
    return [question for _, question in chosen]


def run_evaluation(
    dataset: Dataset,
    options: EvalOptions,
    store: MemoryStore,
    *,
    settings: Settings | None = None,
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS,
    progress: StageProgress | None = None,
) -> Iterator[QuestionResult]:
    """Ingest what the chosen questions need, ask them, and yield what each one brought.

    A question's reference time is its own; without one it is asked right after its collection's
    newest record, so that a result doesn't depend on the day of the evaluation (LOOP-9).

    Raises:
        InvalidInputError: see `select` and `ingest`.
    """
    settings = settings or Settings.from_env()
    questions = select_questions(dataset, options)
    names = list(dict.fromkeys(question.collection for question in questions))
    written = ingest(store, dataset, names, progress)
    graph = build_graph(store, settings=settings, output="state", parts=parts)
    store.embedder.embed_queries([questions[0].question])  # loads the model, which is no question's latency
    for done, question in enumerate(questions, 1):
        request = RetrieveRequest(
            id=question.id,
            messages=(ChatMessage(content=question.question),),
            tenant=question.collection,
            reference_time=question.reference_time or written[question.collection].newest,
            max_facts=options.ks[-1],
            **content_types_field(dataset),
        )
        yield _ask(question, request, options.ks, graph, settings)
        if progress:
            progress("ask", done, len(questions))


def content_types_field(dataset: Dataset) -> dict[str, Any]:
    """Return the content types that a data set's questions search, as a request's field; {} for the usual ones."""
    return {"content_types": dataset.content_types} if dataset.content_types else {}


def _ask(
    question: LabelledQuestion, request: RetrieveRequest, ks: Sequence[int], graph: TracedGraph, settings: Settings
) -> QuestionResult:
    calls, result = CallLog(settings.repeat_similarity), None
    started = time.perf_counter()
    for item in stream_graph(graph, RunInputs(request)):
        if isinstance(item, RetrieveResult):
            result = item
        else:
            calls.note(item)
    latency_ms = (time.perf_counter() - started) * 1000
    if result is None:
        raise RuntimeError(f"question {question.id}: the run ended without a result")
    ids = expand_to_sources(result.facts)
    return QuestionResult(
        question=question,
        ids=ids,
        scores=score_ranking(ids, question.gold, ks) if question.scored else {},
        facts=len(result.facts),
        iterations=result.stop.iteration,
        executed=calls.executed,
        repeats=calls.repeats(),
        latency_ms=latency_ms,
        stop_reason=result.stop.reason.value,
        confidence=result.confidence.score,
        confidence_label=result.confidence.label.value,
        confidence_detail=result.confidence.model_dump(mode="json"),
    )
