"""Ablations: what each ingredient of retrieval is worth on a data set (OPS-4, RANK-1 to RANK-5).

The worth of an ingredient is a figure with everything in place less the same figure without it, on the same
questions, with a paired bootstrap interval. What works when records are written is left out of a second store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from recall_loop.evals.ablation.ingredients import EXPERIENCE, Ingredient, Use, chosen
from recall_loop.evals.ablation.patches import Swap, swapped
from recall_loop.evals.datasets.datasets import Dataset
from recall_loop.evals.replay.policy_comparison import RESAMPLES, Difference, differences, figures
from recall_loop.evals.replay.prompt_set import Prompt, from_dataset
from recall_loop.evals.replay.replay import Run, replay
from recall_loop.evals.replay.replay_policies import Done, LoopPolicy, Policy
from recall_loop.evals.runs.dataset_ingest import Progress, ingest, open_store
from recall_loop.evals.runs.runner import Options
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.self_capture import TAG
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType

QUALITY = ("all@10", "recall@10", "ndcg@10")
MEASURES = (*QUALITY, "iterations", "queries_executed", "latency_ms")
EVERYTHING = "everything"
_CAPTURED = "captured first half"


@dataclass(frozen=True)
class Plan:
    """What is left out, and how the intervals are made.

    Attributes:
        only: names of ingredients; None = all.
        resamples: resamples of each interval.
        seed: their seed.
        stores: folder where stores are kept from run to run, one for each data set; None = in memory.
    """

    only: tuple[str, ...] | None = None
    resamples: int = RESAMPLES
    seed: int = 0
    stores: Path | None = None


@dataclass(frozen=True)
class _Without(LoopPolicy):
    """The loop while some names stand for something else."""

    swaps: tuple[Swap, ...] = ()

    def run(self, request: RetrieveRequest, store: MemoryStore) -> Done:
        """Answer one request."""
        with swapped(self.swaps):
            return super().run(request, store)


def ablate(
    dataset: Dataset, options: Options, plan: Plan, settings: Settings, progress: Progress | None = None
) -> dict[str, Any]:
    """Return what each ingredient is worth on one data set.

    Raises:
        InvalidInputError: an unknown ingredient, or see `recall_loop.evals.runs.runner.select` and `ingest`.
    """
    parts, with_experience = chosen(plan.only)
    settings = settings.model_copy(update={"llm_model": None})
    prompts = from_dataset(dataset, options)
    everything = LoopPolicy(settings, EVERYTHING)
    worth: dict[str, dict[str, Any]] = {}
    with _store(dataset, prompts, plan, settings, (), "", progress) as store:
        runs = _by_policy(_each(prompts, everything, parts, store, options, progress))
        whole = runs.pop(EVERYTHING)
        worth |= {name: _worth(whole, without, plan) for name, without in runs.items()}
        if with_experience:
            worth[EXPERIENCE] = _experience(prompts, whole, store, settings, options, plan)
    for part in (each for each in parts if each.at_ingest and _has_messages(dataset)):
        with _store(dataset, prompts, plan, settings, part.swaps, f"-without-{part.name}", progress) as store:
            without = list(replay(prompts, [everything], store, options.ks, progress))
        worth[part.name] = _worth(whole, without, plan)
    return {
        "set": dataset.name,
        "kinds": dataset.kinds.value,
        "questions": len(whole),
        EVERYTHING: _figures(whole),
        "worth": {name: worth[name] for name in [*(each.name for each in parts), EXPERIENCE] if name in worth},
    }


def _has_messages(dataset: Dataset) -> bool:
    """Tell whether there is anything that is indexed with neighbours."""
    collections = dataset.collections
    return any(record.kind is ContentType.MESSAGE for name in collections for record in collections.records(name))


def _each(
    prompts: Sequence[Prompt],
    everything: LoopPolicy,
    parts: Sequence[Ingredient],
    store: MemoryStore,
    options: Options,
    progress: Progress | None,
) -> Iterator[Run]:
    """Yield every prompt with everything and without each ingredient.

    A first run, not counted, tells what a prompt makes use of and has its queries embedded. Where it made no use of
    an ingredient, the run without it is the run with it. Policies take turns at going first.
    """
    others = [part for part in parts if not part.at_ingest]
    for at, prompt in enumerate(prompts):
        use = Use()
        for _ in replay([prompt], [replace(everything, watch=use.note)], store, options.ks):
            pass
        needed = [part for part in others if not part.needs or part.needs in use.seen]
        policies = [everything, *(_policy(part, everything.settings) for part in needed)]
        turn = at % len(policies)
        runs = {run.policy: run for run in replay([prompt], [*policies[turn:], *policies[:turn]], store, options.ks)}
        yield runs[EVERYTHING]
        for part in others:
            yield runs.get(part.name) or replace(runs[EVERYTHING], policy=part.name)
        if progress:
            progress("ask", at + 1, len(prompts))


def _policy(part: Ingredient, settings: Settings) -> Policy:
    return _Without(settings.model_copy(update=dict(part.settings)), part.name, swaps=part.swaps)


def _by_policy(runs: Iterator[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.policy, []).append(run)
    return found


@contextmanager
def _store(
    dataset: Dataset,
    prompts: Sequence[Prompt],
    plan: Plan,
    settings: Settings,
    swaps: Sequence[Swap],
    suffix: str,
    progress: Progress | None,
) -> Iterator[MemoryStore]:
    """Open a store with the collections that the prompts ask, written while `swaps` hold."""
    path = plan.stores and plan.stores / f"{dataset.name}-{dataset.kinds.value}{suffix}"
    names = list(dict.fromkeys(prompt.request.tenant for prompt in prompts))
    with ExitStack() as stack:
        store = stack.enter_context(open_store(path, settings, remember=True))
        with swapped(swaps):
            ingest(store, dataset, names, progress)
        yield store


def _worth(whole: Sequence[Run], without: Sequence[Run], plan: Plan) -> dict[str, Any]:
    """Return what everything has over the same without one ingredient, by measure."""
    found = differences(without, whole, resamples=plan.resamples, seed=plan.seed)
    return {"questions": len(whole), **{each.measure: _shown(each) for each in found if each.measure in MEASURES}}


def _shown(each: Difference) -> dict[str, float]:
    shown = asdict(each)
    return {"worth": shown["difference"], "low": shown["low"], "high": shown["high"]}


def _figures(runs: Sequence[Run]) -> dict[str, float | None]:
    found = figures(runs)
    plain = {name: found.get(name) for name in (*QUALITY, "iterations")}
    return plain | {"queries_executed": found["queries_executed"] / len(runs), "latency_ms": found["latency_ms"]["p50"]}


def _experience(
    prompts: Sequence[Prompt],
    whole: Sequence[Run],
    store: MemoryStore,
    settings: Settings,
    options: Options,
    plan: Plan,
) -> dict[str, Any]:
    """Return what it is worth to know the runs of every other question, asked of the rest (TRAJ-9).

    It is off by default; here the figures with it are compared with those of everything else.
    """
    capturing = LoopPolicy(settings.model_copy(update={"capture_runs": True}), _CAPTURED)
    learned = LoopPolicy(settings.model_copy(update={"use_experience": True}), EXPERIENCE)
    try:
        for _ in replay(prompts[::2], [capturing], store, options.ks):
            pass
        knowing = list(replay(prompts[1::2], [learned], store, options.ks)) if prompts[1:] else []
    finally:
        _forget(store, {prompt.request.tenant for prompt in prompts})
    return _worth(knowing, whole[1::2], plan) if knowing else {"questions": 0}


def _forget(store: MemoryStore, tenants: set[str]) -> None:
    """Take captured runs out again: a kept store holds its data set and nothing else."""
    for tenant in sorted(tenants):
        captured = [record.id for record in store.scan(Scope(tenant=tenant)) if TAG in record.tags]
        store.delete(captured, tenant=tenant)


def nothing_gained(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return ingredients whose interval lies above 0 for no measure of quality on any set."""
    return _of(sets, lambda figure: figure["low"] > 0.0, wanted=False)


def something_lost(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return ingredients whose interval lies below 0 for some measure of quality on some set."""
    return _of(sets, lambda figure: figure["high"] < 0.0, wanted=True)


def _of(sets: Sequence[Mapping[str, Any]], test: Callable[[Mapping[str, float]], bool], *, wanted: bool) -> list[str]:
    names = dict.fromkeys(name for each in sets for name in each["worth"])
    rows = {name: [each["worth"][name] for each in sets if name in each["worth"]] for name in names}
    return [name for name in names if any(test(row[m]) for row in rows[name] for m in QUALITY if m in row) is wanted]
