"""Lives written to a store among unrelated records, and asked by `retrieve`, without a language model (LIVE-8).

One store serves all: for each language a tenant of messages and one of facts grows from size to size, and each life is
written to it in order of time, asked, and taken out again. Real conversations are asked for corrections alone (LIVE-4).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.living.life import ASKED_AT, Around, Life, LifeAnswer, LifeQuestion
from recall_loop.evals.living.surroundings import surroundings
from recall_loop.evals.measures.quality_metrics import expand_to_sources
from recall_loop.evals.runs.dataset_ingest import StageProgress, ingest
from recall_loop.evals.runs.prompts import EvalOptions, asked_collections, prompts_from_dataset
from recall_loop.evals.runs.runner import newest_time
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings.settings import Settings

MAX_AROUND = 100_000
_BATCH = 256
_CITED = re.compile(r"^\[([^\]\n]+)\]", re.MULTILINE)


@dataclass(frozen=True)
class LivingOptions:
    """How lives are asked: among how many unrelated records (each 0 to 100,000), which are generated with the seed.

    `around` is a data set whose messages lie around them instead.
    """

    sizes: tuple[int, ...] = (0, 20, 200, 2000)
    seed: int = 0
    around: Dataset | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse sizes out of range with `InvalidInputError`."""
        if not self.sizes or any(not 0 <= size <= MAX_AROUND for size in self.sizes):
            raise InvalidInputError("sizes", self.sizes, f"whole numbers from 0 to {MAX_AROUND}")
        object.__setattr__(self, "sizes", tuple(sorted(set(self.sizes))))


def run_lives(
    lives: Sequence[Life],
    options: LivingOptions,
    store: MemoryStore,
    *,
    settings: Settings | None = None,
    progress: StageProgress | None = None,
) -> Iterator[LifeAnswer]:
    """Yield the result of each question of each life at each size; the lives of a tenant one after the other.

    Raises `InvalidInputError` where a record is rejected, a tenant of the store isn't empty, or the data set around has
    fewer messages than the largest size.
    """
    chosen, total, done = settings or Settings.from_env(), len(lives) * len(options.sizes), 0
    for (language, around), found in groupby(sorted(lives, key=_place), key=_place):
        world = _World(store, chosen, language, around, options)
        group = list(found)
        for size in options.sizes:
            world.grow(size)
            for life in group:
                yield from world.live(life)
                done += 1
                if progress:
                    progress("ask", done, total)


def _place(life: Life) -> tuple[str, Around]:
    return life.language, life.around


@dataclass
class _World:
    """One tenant, and how many unrelated records lie in it."""

    store: MemoryStore
    settings: Settings
    language: str
    around: Around
    options: LivingOptions
    size: int = 0

    @property
    def tenant(self) -> str:
        return f"lives-{self.language}-{self.around}"

    def grow(self, size: int) -> None:
        """Write the missing records around the lives."""
        if not self.size and self.tenant in self.store.tenants():
            raise InvalidInputError("store", self.tenant, "a store without this tenant")
        wanted = surroundings(self.language, self.around, size, self.options.seed, self.options.around)
        records = sorted(list(wanted)[self.size :], key=lambda record: record.created_at or ASKED_AT)
        for start in range(0, len(records), _BATCH):
            self._write(records[start : start + _BATCH])
        self.size = size

    def live(self, life: Life) -> Iterator[LifeAnswer]:
        """Write a life, ask its questions, and take it out again."""
        for session in life.sessions:
            self._write(session)
        try:
            self.store.delete(life.erased, tenant=self.tenant)
            for question in life.questions:
                yield self._ask(life, question)
        finally:
            self.store.delete(life.record_ids, tenant=self.tenant)

    def _write(self, records: Sequence[Record]) -> None:
        for outcome in self.store.upsert(records, tenant=self.tenant):
            if outcome.status == "rejected":
                raise InvalidInputError(f"{self.tenant}.{outcome.id}", outcome.error, "a record that the store accepts")

    def _ask(self, life: Life, question: LifeQuestion) -> LifeAnswer:
        request = RetrieveRequest(
            messages=(ChatMessage(content=question.question),),
            tenant=self.tenant,
            user_id=question.user_id,
            reference_time=ASKED_AT,
            debug=True,
        )
        started = time.perf_counter()
        result = retrieve(request, store=self.store, settings=self.settings)
        return _answer(life, question, self.size, result, (time.perf_counter() - started) * 1000)


def _answer(life: Life, question: LifeQuestion, size: int, result: RetrieveResult, latency_ms: float) -> LifeAnswer:
    return LifeAnswer(
        life=life,
        question=question,
        size=size,
        ids=expand_to_sources(result.facts),
        label=result.confidence.label.value,
        score=result.confidence.score,
        confidence=result.confidence.model_dump(mode="json"),
        superseded=frozenset(fact.id for fact in result.facts if fact.superseded_by_hint),
        counts={fact.id: fact.count for fact in result.facts},
        context_ids=tuple(_CITED.findall(result.context)),
        facts=tuple(
            (fact.id, fact.score, fact.similarity, tuple((fact.debug or {})["alignment"])) for fact in result.facts
        ),
        latency_ms=latency_ms,
    )


_FACTS = 10
_SHOWN = 50


def false_corrections(
    dataset: Dataset,
    questions: int,
    store: MemoryStore,
    *,
    settings: Settings | None = None,
    seed: int = 0,
    progress: StageProgress | None = None,
) -> dict[str, Any]:
    """Return how many of the first ten facts of a data set's own questions are marked as superseded by another one.

    Real people correct themselves, too: the share is an upper bound, and `examples` are for reading. That many of its
    questions are asked, drawn with `seed`. Raises as `ingest`.
    """
    chosen = settings or Settings.from_env()
    prompts = prompts_from_dataset(dataset, EvalOptions(ks=(_FACTS,), limit=questions, seed=seed))
    ingest(store, dataset, asked_collections(prompts), progress)
    facts, examples = 0, []
    for done, prompt in enumerate(prompts, 1):
        now = prompt.request.reference_time or newest_time(store, prompt.request.tenant)
        result = retrieve(prompt.request.model_copy(update={"reference_time": now}), store=store, settings=chosen)
        for fact in result.facts:
            facts += 1
            if fact.superseded_by_hint:
                asked = prompt.request.question.content
                examples.append({"question": asked, "text": fact.text, "hint": fact.superseded_by_hint})
        if progress:
            progress("ask", done, len(prompts))
    return {
        "dataset": dataset.name,
        "questions": len(prompts),
        "facts": facts,
        "marked": len(examples),
        "share": len(examples) / facts if facts else None,
        "examples": examples[:_SHOWN],
    }
