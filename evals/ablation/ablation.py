"""Ablations: runs without one ingredient each, compared with runs that have it, as tables and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recall_loop.evals.ablation.ingredients import (
    EXPERIENCE,
    Ingredient,
    IngredientUsage,
    ingredients,
    select_ingredients,
)
from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.replay.eval_report import number, report_table
from recall_loop.evals.replay.policy_comparison import RESAMPLES, Difference, differences, policy_figures
from recall_loop.evals.runs.dataset_ingest import StageProgress, ingest, open_eval_store
from recall_loop.evals.runs.loop_policy import LoopPolicy
from recall_loop.evals.runs.prompts import EvalOptions, ReplayPrompt, prompts_from_dataset
from recall_loop.evals.runs.runner import ReplayRun, replay
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.self_capture import SELF_CAPTURE_TAG
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType

QUALITY = ("all@10", "recall@10", "ndcg@10")
MEASURES = (*QUALITY, "iterations", "queries_executed", "latency_ms")
EVERYTHING = "everything"
_CAPTURED = "captured first half"


@dataclass(frozen=True)
class AblationPlan:
    """Which ingredients are left out, and how the intervals are made.

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


def ablate(
    dataset: Dataset,
    options: EvalOptions,
    plan: AblationPlan,
    settings: Settings,
    progress: StageProgress | None = None,
) -> dict[str, Any]:
    """Return the worth of each ingredient on one data set.

    Raises:
        InvalidInputError: an unknown ingredient, or see `recall_loop.evals.runs.runner.select_questions` and `ingest`.
    """
    parts, with_experience = select_ingredients(plan.only)
    settings = settings.model_copy(update={"llm_model": None})
    prompts = prompts_from_dataset(dataset, options)
    everything = LoopPolicy(settings, EVERYTHING)
    worth: dict[str, dict[str, Any]] = {}
    with _store(dataset, prompts, plan, settings, None, progress) as store:
        runs = _group_by_policy(_replay_each(prompts, everything, parts, store, options, progress))
        whole = runs.pop(EVERYTHING)
        worth |= {name: _measure_worth(whole, without, plan) for name, without in runs.items()}
        if with_experience:
            worth[EXPERIENCE] = _measure_experience(prompts, whole, store, settings, options, plan)
    for part in (each for each in parts if each.at_ingest and _matters_at_ingest(each, dataset, settings)):
        with _store(dataset, prompts, plan, settings, part, progress) as store:
            without = list(replay(prompts, [LoopPolicy(settings, part.name)], store, options.ks, progress))
        worth[part.name] = _measure_worth(whole, without, plan)
    return {
        "set": dataset.name,
        "kinds": dataset.kinds.value,
        "questions": len(whole),
        EVERYTHING: _figures(whole),
        "worth": {name: worth[name] for name in [*(each.name for each in parts), EXPERIENCE] if name in worth},
    }


def _matters_at_ingest(part: Ingredient, dataset: Dataset, settings: Settings) -> bool:
    """Tell whether there are messages, and the embedder is the one whose weights are left out."""
    if "embedder" in part.settings and settings.embedder != "minilm":
        return False
    collections = dataset.collections
    return any(record.kind is ContentType.MESSAGE for name in collections for record in collections.records(name))


def _replay_each(
    prompts: Sequence[ReplayPrompt],
    everything: LoopPolicy,
    parts: Sequence[Ingredient],
    store: MemoryStore,
    options: EvalOptions,
    progress: StageProgress | None,
) -> Iterator[ReplayRun]:
    """Yield every prompt with everything and without each ingredient.

    A first run, not counted, tells what a prompt makes use of and has its queries embedded. Where it made no use of
    an ingredient, the run without it is the run with it. Policies take turns at going first.
    """
    others = [part for part in parts if not part.at_ingest]
    observed = IngredientUsage()
    first = LoopPolicy(everything.settings, EVERYTHING, observed.note)
    ablated = {part.name: _without(part, everything.settings) for part in others}
    for at, prompt in enumerate(prompts):
        observed.used.clear()
        for _ in replay([prompt], [first], store, options.ks):
            pass
        needed = [part.name for part in others if not part.needs or part.needs in observed.used]
        policies = [everything, *(ablated[name] for name in needed)]
        turn = at % len(policies)
        runs = {run.policy: run for run in replay([prompt], [*policies[turn:], *policies[:turn]], store, options.ks)}
        yield runs[EVERYTHING]
        for part in others:
            yield runs.get(part.name) or replace(runs[EVERYTHING], policy=part.name)
        if progress:
            progress("ask", at + 1, len(prompts))


def _without(part: Ingredient, settings: Settings) -> LoopPolicy:
    return LoopPolicy(settings.model_copy(update=dict(part.settings)), part.name, parts=part.parts)


def _group_by_policy(runs: Iterator[ReplayRun]) -> dict[str, list[ReplayRun]]:
    found: dict[str, list[ReplayRun]] = {}
    for run in runs:
        found.setdefault(run.policy, []).append(run)
    return found


@contextmanager
def _store(
    dataset: Dataset,
    prompts: Sequence[ReplayPrompt],
    plan: AblationPlan,
    settings: Settings,
    without: Ingredient | None,
    progress: StageProgress | None,
) -> Iterator[MemoryStore]:
    """Open a store with the collections that the prompts ask, written `without` an ingredient."""
    suffix = f"-without-{without.name}" if without else ""
    path = plan.stores and plan.stores / f"{dataset.name}-{dataset.kinds.value}{suffix}"
    names = list(dict.fromkeys(prompt.request.tenant for prompt in prompts))
    settings = settings.model_copy(update=dict(without.settings)) if without else settings
    with open_eval_store(path, settings, cache_queries=True) as store:
        store.writer.context_windows = without is None or without.context_windows
        ingest(store, dataset, names, progress)
        yield store


def _measure_worth(whole: Sequence[ReplayRun], without: Sequence[ReplayRun], plan: AblationPlan) -> dict[str, Any]:
    """Return the figures with everything less those without one ingredient, by measure."""
    found = differences(without, whole, resamples=plan.resamples, seed=plan.seed)
    return {"questions": len(whole), **{each.measure: _shown(each) for each in found if each.measure in MEASURES}}


def _shown(each: Difference) -> dict[str, float]:
    shown = asdict(each)
    return {"worth": shown["difference"], "low": shown["low"], "high": shown["high"]}


def _figures(runs: Sequence[ReplayRun]) -> dict[str, float | None]:
    found = policy_figures(runs)
    plain = {name: found.get(name) for name in (*QUALITY, "iterations")}
    return plain | {"queries_executed": found["queries_executed"] / len(runs), "latency_ms": found["latency_ms"]["p50"]}


def _measure_experience(
    prompts: Sequence[ReplayPrompt],
    whole: Sequence[ReplayRun],
    store: MemoryStore,
    settings: Settings,
    options: EvalOptions,
    plan: AblationPlan,
) -> dict[str, Any]:
    """Return the worth of knowing the runs of every other question, measured on the rest (TRAJ-9).

    It is off by default; here the figures with it are compared with those of everything else.
    """
    capturing = LoopPolicy(settings.model_copy(update={"capture_runs": True}), _CAPTURED)
    learned = LoopPolicy(settings.model_copy(update={"use_experience": True}), EXPERIENCE)
    try:
        for _ in replay(prompts[::2], [capturing], store, options.ks):
            pass
        knowing = list(replay(prompts[1::2], [learned], store, options.ks)) if prompts[1:] else []
    finally:
        _delete_captured_runs(store, {prompt.request.tenant for prompt in prompts})
    return _measure_worth(knowing, whole[1::2], plan) if knowing else {"questions": 0}


def _delete_captured_runs(store: MemoryStore, tenants: set[str]) -> None:
    """Delete captured runs: a kept store holds its data set and nothing else."""
    for tenant in sorted(tenants):
        captured = [record.id for record in store.scan(Scope(tenant=tenant)) if SELF_CAPTURE_TAG in record.tags]
        store.delete(captured, tenant=tenant)


def ingredients_without_gain(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return ingredients whose interval lies above 0 for no measure of quality on any set."""
    return _filter_ingredients(sets, lambda figure: figure["low"] > 0.0, wanted=False)


def ingredients_with_loss(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return ingredients whose interval lies below 0 for some measure of quality on some set."""
    return _filter_ingredients(sets, lambda figure: figure["high"] < 0.0, wanted=True)


def _filter_ingredients(
    sets: Sequence[Mapping[str, Any]], test: Callable[[Mapping[str, float]], bool], *, wanted: bool
) -> list[str]:
    names = dict.fromkeys(name for each in sets for name in each["worth"])
    rows = {name: [each["worth"][name] for each in sets if name in each["worth"]] for name in names}
    return [name for name in names if any(test(row[m]) for row in rows[name] for m in QUALITY if m in row) is wanted]


_HEADS = {
    "all@10": "All@10",
    "recall@10": "Recall@10",
    "ndcg@10": "nDCG@10",
    "queries_executed": "queries",
    "latency_ms": "latency p50, ms",
}
_COARSE = {"iterations": 2, "queries_executed": 1, "latency_ms": 0}
_NOTE = "worth = with everything less without it, with its 95 % interval; * where the interval doesn't hold 0"


def build(sets: Sequence[Mapping[str, Any]], options: EvalOptions, resamples: int) -> dict[str, Any]:
    """Return the report; metrics lie in [0,1], latencies are milliseconds."""
    about = {each.name: each.description for each in ingredients()}
    about[EXPERIENCE] = "captured runs of every other question (off by default), asked of the rest"
    return {
        "options": asdict(options) | {"ks": list(options.ks)},
        "resamples": resamples,
        "ingredients": about,
        "sets": list(sets),
        "gain_nothing": ingredients_without_gain(sets),
        "lose_somewhere": ingredients_with_loss(sets),
    }


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print one table for each set, and which ingredients earn nothing."""
    console.print(_NOTE, markup=False)
    for found in report["sets"]:
        console.print(_table(found))
    console.print("no measure of quality gains on any set:", ", ".join(report["gain_nothing"]) or "none", markup=False)
    console.print(
        "some measure of quality loses on some set:", ", ".join(report["lose_somewhere"]) or "none", markup=False
    )


def _table(found: Mapping[str, Any]) -> Table:
    title = f"{found['set']} ({found['kinds']}), {found['questions']} questions"
    table = report_table("without", *(_HEADS.get(name, name) for name in MEASURES), title=title, no_wrap=True)
    everything = found[EVERYTHING]
    table.add_row(
        EVERYTHING,
        *(number(everything[name], _COARSE.get(name, 3)) for name in MEASURES),
        style="bold",
        end_section=True,
    )
    for name, worth in found["worth"].items():
        table.add_row(name, *(_worth(measure, worth.get(measure)) for measure in MEASURES))
    return table


def _worth(name: str, found: Mapping[str, float] | None) -> str:
    if found is None:
        return "–"
    digits = _COARSE.get(name, 3)
    star = "" if found["low"] <= 0.0 <= found["high"] else "*"
    shown = (f"{found[part]:+.{digits}f}" for part in ("worth", "low", "high"))
    value, low, high = (text.replace(f"-{0:.{digits}f}", f"+{0:.{digits}f}") for text in shown)
    return f"{value}{star} [{low}, {high}]"
