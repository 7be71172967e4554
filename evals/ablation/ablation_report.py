"""Reports of ablations: one JSON-able mapping, and the same as tables for people (OPS-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from recall_loop.evals.ablation.ablation import EVERYTHING, MEASURES, ingredients_with_loss, ingredients_without_gain
from recall_loop.evals.ablation.ingredients import EXPERIENCE, ingredients
from recall_loop.evals.replay.report_tables import number, report_table
from recall_loop.evals.runs.prompts import EvalOptions

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
