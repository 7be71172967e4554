"""Runs: every policy answers every prompt from the same store; an evaluation is that with one policy (OPS-4).

Every collection of a data set is a tenant of one store, so that a question searches its own collection and nothing
else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.measures.quality_metrics import expand_to_sources, score_ranking
from recall_loop.evals.runs.dataset_ingest import StageProgress, ingest
from recall_loop.evals.runs.loop_policy import LoopPolicy, Policy, PolicyResult
from recall_loop.evals.runs.prompts import EvalOptions, ReplayPrompt, asked_collections, prompts_from_dataset
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.run_context import DEFAULT_RETRIEVAL_PARTS, RetrievalParts
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings


@dataclass(frozen=True)
class ReplayRun:
    """One prompt under one policy; what only a scored prompt has is None or {} for others.

    Attributes:
        result: the policy's result, without the facts.
        facts: how many facts it returned.
        ids: ids of the sources of the facts, in rank order, without duplicates.
        found_in: the iteration that found each of `ids` first, where the policy tells.
        gold_found: gold ids among all that were returned.
        relevant: facts whose similarity is at least `novelty_min_similarity`, each counted once.
        complete: whether all gold evidence is in the first ten; None where that isn't known.
    """

    policy: str
    prompt: ReplayPrompt
    result: PolicyResult
    facts: int
    ids: list[str]
    found_in: dict[str, int]
    scores: dict[str, float]
    gold_found: int | None
    relevant: int
    complete: bool | None
    latency_ms: float


def run_evaluation(
    dataset: Dataset,
    options: EvalOptions,
    store: MemoryStore,
    *,
    settings: Settings | None = None,
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS,
    progress: StageProgress | None = None,
) -> Iterator[ReplayRun]:
    """Ingest the documents that the chosen questions need, ask them, and yield each result; see `replay`.

    Raises:
        InvalidInputError: see `recall_loop.evals.runs.prompts.select_questions` and `ingest`.
    """
    prompts = prompts_from_dataset(dataset, options)
    policy = LoopPolicy(settings or Settings.from_env(), parts=parts, traced=False)
    later = [prompt for prompt in prompts if prompt.before]
    if later:
        yield from _replay_as_written(dataset, later, policy, store, options.ks)
    rest = [prompt for prompt in prompts if not prompt.before]
    ingest(store, dataset, asked_collections(prompts), progress)
    if rest:
        yield from replay(rest, [policy], store, options.ks, progress)


def _replay_as_written(
    dataset: Dataset, prompts: Sequence[ReplayPrompt], policy: Policy, store: MemoryStore, ks: Sequence[int]
) -> Iterator[ReplayRun]:
    """Write each collection up to a question's `before`, ask it, and continue; later documents don't exist yet."""
    for name in asked_collections(prompts):
        records, written = list(dataset.collections[name]), 0
        places = {record.id: at for at, record in enumerate(records)}
        asked = [prompt for prompt in prompts if prompt.request.tenant == name]
        for prompt in asked:
            if prompt.before not in places:
                raise InvalidInputError(f"{prompt.request.id}.before", prompt.before, f"a document of {name}")
        for prompt in sorted(asked, key=lambda each: places[each.before or ""]):
            until = places[prompt.before or ""] + 1
            store.upsert(records[written:until], tenant=name)
            written = max(written, until)
            yield from replay([prompt], [policy], store, ks)


def replay(
    prompts: Sequence[ReplayPrompt],
    policies: Sequence[Policy],
    store: MemoryStore,
    ks: Sequence[int],
    progress: StageProgress | None = None,
) -> Iterator[ReplayRun]:
    """Yield every prompt under every policy.

    Policies take turns at going first, so that none of them always finds the caches filled by another. A request
    that says no time is asked at the time of its tenant's newest record, so that a replay doesn't depend on
    the day (LOOP-9); where no record has a time, at one reading of the clock for all.
    """
    times: dict[str, datetime] = {}
    clock = datetime.now(UTC)
    store.embedder.embed_queries([prompts[0].request.messages[-1].content])  # loads the model outside the measured time
    for at, prompt in enumerate(prompts):
        request = _timed(prompt.request, store, times, clock)
        turn = at % len(policies)
        for policy in [*policies[turn:], *policies[:turn]]:
            yield _run(policy, prompt, request, store, ks)
        if progress:
            progress("ask", at + 1, len(prompts))


def _timed(
    request: RetrieveRequest, store: MemoryStore, times: dict[str, datetime], clock: datetime
) -> RetrieveRequest:
    if request.reference_time or any(message.timestamp for message in request.messages):
        return request
    if request.tenant not in times:
        times[request.tenant] = newest_time(store, request.tenant) or clock
    return request.model_copy(update={"reference_time": times[request.tenant]})


def newest_time(store: MemoryStore, tenant: str) -> datetime | None:
    """Return the time of a tenant's newest record; None if no record has one."""
    view = store.view(Scope(tenant=tenant))
    return next((row.record.created_at for row in view.rows(view.newest(1)).values()), None)


def _run(
    policy: Policy, prompt: ReplayPrompt, request: RetrieveRequest, store: MemoryStore, ks: Sequence[int]
) -> ReplayRun:
    started = time.perf_counter()
    done = policy.run(request, store)
    latency_ms = (time.perf_counter() - started) * 1000
    ids = expand_to_sources(done.facts)
    found_in: dict[str, int] = {}
    for fact, iteration in zip(done.facts, done.found_in, strict=bool(done.found_in)):
        for each in expand_to_sources([fact]):
            found_in[each] = min(iteration, found_in.get(each, iteration))
    return ReplayRun(
        policy=policy.name,
        prompt=prompt,
        result=replace(done, facts=(), found_in=()),  # a long log is held in memory: ids suffice
        facts=len(done.facts),
        ids=ids,
        found_in=found_in,
        scores=score_ranking(prompt.counted(ids), prompt.counted(prompt.gold), ks) if prompt.scored else {},
        gold_found=len(set(prompt.gold).intersection(ids)) if prompt.scored else None,
        relevant=sum(fact.similarity >= policy.settings.novelty_min_similarity for fact in done.facts),
        complete=prompt.complete(ids),
        latency_ms=latency_ms,
    )
