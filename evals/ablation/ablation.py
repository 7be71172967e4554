"""Ablations: runs without one ingredient each, compared with runs that have it, as tables and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recall_loop.evals.ablation.ingredients import (
    Ingredient,
    IngredientUsage,
    ingredients,
    select_ingredients,
)
from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.replay.eval_report import number, report_table
from recall_loop.evals.replay.policy_comparison import RESAMPLES, differences, policy_figures
from recall_loop.evals.runs.dataset_ingest import StageProgress, ingest, open_eval_store
from recall_loop.evals.runs.loop_policy import LoopPolicy
from recall_loop.evals.runs.prompts import EvalOptions, ReplayPrompt, asked_collections, prompts_from_dataset
from recall_loop.evals.runs.runner import ReplayRun, replay
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType

QUALITY = ("all@10", "recall@10", "ndcg@10")
MEASURES = (*QUALITY, "iterations", "queries_executed", "latency_ms")
EVERYTHING = "everything"


@dataclass(frozen=True)
class AblationPlan:
    """Which ingredients are left out (None = each of all), and how the intervals are made.

    `stores` is a folder where stores are kept from run to run, one for each data set; None = in memory.
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
    """Return the worth of each ingredient on one data set; raises as `select_ingredients` and `run_evaluation`."""
    settings = settings.model_copy(update={"llm_model": None})
    return _Ablation(dataset, prompts_from_dataset(dataset, options), options, plan, settings, progress).run()


@dataclass(frozen=True)
class _Ablation:
    """The ablations on one data set."""

    dataset: Dataset
    prompts: Sequence[ReplayPrompt]
    options: EvalOptions
    plan: AblationPlan
    settings: Settings
    progress: StageProgress | None

    def run(self) -> dict[str, Any]:
        """Return the figures with everything, and the worth of each ingredient."""
        parts = select_ingredients(self.plan.only)
        worth: dict[str, dict[str, Any]] = {}
        with self._store() as store:
            runs: dict[str, list[ReplayRun]] = {}
            for run in self._replay_each([part for part in parts if not part.at_ingest], store):
                runs.setdefault(run.policy, []).append(run)
            whole = runs.pop(EVERYTHING)
            worth |= {name: self._worth(whole, without) for name, without in runs.items()}
        for part in (each for each in parts if each.at_ingest and self._matters_at_ingest(each)):
            with self._store(part) as store:
                policy = LoopPolicy(self.settings, part.name)
                worth[part.name] = self._worth(whole, self._replay(self.prompts, policy, store, self.progress))
        return {
            "set": self.dataset.name,
            "kinds": self.dataset.kinds.value,
            "questions": len(whole),
            EVERYTHING: _figures(whole),
            "worth": {name: worth[name] for name in (each.name for each in parts) if name in worth},
        }

    def _matters_at_ingest(self, part: Ingredient) -> bool:
        """Return whether there are messages, and the embedder is the one whose weights are left out."""
        if "embedder" in part.settings and self.settings.embedder != "minilm":
            return False
        return any(record.kind is ContentType.MESSAGE for pool in self.dataset.collections.values() for record in pool)

    def _replay(
        self,
        prompts: Sequence[ReplayPrompt],
        policy: LoopPolicy,
        store: MemoryStore,
        progress: StageProgress | None = None,
    ) -> list[ReplayRun]:
        return list(replay(prompts, [policy], store, self.options.ks, progress))

    def _replay_each(self, parts: Sequence[Ingredient], store: MemoryStore) -> Iterator[ReplayRun]:
        """Yield every prompt with everything and without each ingredient; policies take turns at going first."""
        # A first run, not counted, embeds the queries, and records which ingredients a prompt uses: without one that
        # it made no use of, the run is the same.
        observed = IngredientUsage()
        first, everything = (LoopPolicy(self.settings, EVERYTHING, on_event) for on_event in (observed.note, None))
        ablated = {
            part.name: LoopPolicy(self.settings.model_copy(update=dict(part.settings)), part.name, parts=part.parts)
            for part in parts
        }
        for at, prompt in enumerate(self.prompts):
            observed.used.clear()
            self._replay([prompt], first, store)
            needed = [part.name for part in parts if not part.needs or part.needs in observed.used]
            policies = [everything, *(ablated[name] for name in needed)]
            turn = at % len(policies)
            policies = [*policies[turn:], *policies[:turn]]
            runs = {run.policy: run for run in replay([prompt], policies, store, self.options.ks)}
            yield runs[EVERYTHING]
            for part in parts:
                yield runs.get(part.name) or replace(runs[EVERYTHING], policy=part.name)
            if self.progress:
                self.progress("ask", at + 1, len(self.prompts))

    @contextmanager
    def _store(self, without: Ingredient | None = None) -> Iterator[MemoryStore]:
        """Open a store with the collections that the prompts ask, written `without` an ingredient."""
        suffix = f"-without-{without.name}" if without else ""
        path = self.plan.stores and self.plan.stores / f"{self.dataset.name}-{self.dataset.kinds.value}{suffix}"
        settings = self.settings.model_copy(update=dict(without.settings)) if without else self.settings
        with open_eval_store(path, settings, cache_queries=True) as store:
            store.writer.context_windows = without is None or without.context_windows
            ingest(store, self.dataset, asked_collections(self.prompts), self.progress)
            yield store

    def _worth(self, whole: Sequence[ReplayRun], without: Sequence[ReplayRun]) -> dict[str, Any]:
        """Return the figures with everything less those without one ingredient, by measure."""
        found = differences(without, whole, resamples=self.plan.resamples, seed=self.plan.seed)
        worth = {
            each.measure: {"worth": each.difference, "low": each.low, "high": each.high}
            for each in found
            if each.measure in MEASURES
        }
        return {"questions": len(whole), **worth}


def _figures(runs: Sequence[ReplayRun]) -> dict[str, float | None]:
    found = policy_figures(runs)
    plain = {name: found.get(name) for name in (*QUALITY, "iterations")}
    return plain | {"queries_executed": found["queries_executed"] / len(runs), "latency_ms": found["latency_ms"]["p50"]}


def ingredients_without_gain(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return ingredients whose interval lies above 0 for no measure of quality on any set."""
    quality = _quality_figures(sets)
    return [name for name in quality if not any(figure["low"] > 0.0 for figure in quality[name])]


def ingredients_with_loss(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return ingredients whose interval lies below 0 for some measure of quality on some set."""
    quality = _quality_figures(sets)
    return [name for name in quality if any(figure["high"] < 0.0 for figure in quality[name])]


def _quality_figures(sets: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, float]]]:
    """Return the worth of each ingredient for every measure of quality on every set."""
    found: dict[str, list[Mapping[str, float]]] = {}
    for each in sets:
        for name, row in each["worth"].items():
            found.setdefault(name, []).extend(row[measure] for measure in QUALITY if measure in row)
    return found


_HEADS = ("All@10", "Recall@10", "nDCG@10", "iterations", "queries", "latency p50, ms")  # of `MEASURES`
_COARSE = {"iterations": 2, "queries_executed": 1, "latency_ms": 0}
_NOTE = "worth = with everything minus without it, with its 95 % interval; * where 0 lies outside it, before rounding"


def build(sets: Sequence[Mapping[str, Any]], options: EvalOptions, resamples: int) -> dict[str, Any]:
    """Return the report; metrics lie in [0,1], latencies are milliseconds."""
    about = {each.name: each.description for each in ingredients()}
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
    for text, key in (
        ("no gain in any measure of quality on any set:", "gain_nothing"),
        ("a loss in some measure of quality on some set:", "lose_somewhere"),
    ):
        console.print(text, ", ".join(report[key]) or "none", markup=False)


def _table(found: Mapping[str, Any]) -> Table:
    title = f"{found['set']} ({found['kinds']}), {found['questions']} questions"
    table = report_table("without", *_HEADS, title=title, no_wrap=True)
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
