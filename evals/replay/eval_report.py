"""Reports of an evaluation: one JSON-able mapping, and the same as tables (OPS-4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.measures.quality_metrics import macro_average, mean
from recall_loop.evals.replay.policy_comparison import answerable_auroc, search_figures
from recall_loop.evals.runs.dataset_ingest import CROSS_COLLECTION
from recall_loop.evals.runs.prompts import EvalOptions, changed_settings
from recall_loop.evals.runs.runner import ReplayRun
from recall_loop.state.settings.settings import Settings


def report_table(
    *columns: str,
    rows: Iterable[Sequence[str]] = (),
    title: str | None = None,
    left: int = 1,
    padding: int = 1,
    no_wrap: bool = False,
) -> Table:
    """Return a table; its first `left` columns hold words, the others figures, which `no_wrap` keeps in one line."""
    table = Table(title=title and escape(title), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, padding))
    for name in columns[:left]:
        table.add_column(escape(name), overflow="fold")
    for name in columns[left:]:
        table.add_column(escape(name), justify="right", no_wrap=no_wrap)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def number(value: float | None, digits: int = 3) -> str:
    """Return a figure with this many decimals; a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return names with their counts."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


_HEADS = {"recall": "R", "all": "All", "ndcg": "nDCG", "mrr": "MRR"}


def build_eval_report(
    dataset: Dataset, options: EvalOptions, settings: Settings, answers: Sequence[ReplayRun]
) -> dict[str, Any]:
    """Return the report of one evaluation.

    Shares and metrics lie in [0,1], latencies are milliseconds, and a figure that has nothing to be
    taken over is null. `settings` names those that differ from their defaults, without secrets.
    """
    scored = [answer for answer in answers if answer.scores]
    categories = sorted({answer.prompt.category for answer in scored})
    return {
        "dataset": dataset.name,
        "kinds": dataset.kinds.value,
        "options": asdict(options),
        "settings": changed_settings(settings),
        "blank_documents": dataset.blank,
        "asked": len(answers),
        CROSS_COLLECTION: sum(answer.prompt.category == CROSS_COLLECTION for answer in answers),
        "overall": _scores(scored),
        "categories": {
            name: _scores([answer for answer in scored if answer.prompt.category == name]) for name in categories
        },
        **_behaviour(answers),
    }


def _scores(answers: Sequence[ReplayRun]) -> dict[str, Any]:
    return {"questions": len(answers), **macro_average([answer.scores for answer in answers])}


def _behaviour(answers: Sequence[ReplayRun]) -> dict[str, Any]:
    """Return figures of the runs; questions about other collections don't measure how well answers are recognised."""
    figures = search_figures(answers)
    executed, repeats = figures["queries_executed"], figures["queries_repeated"]
    native = [answer for answer in answers if answer.prompt.category != CROSS_COLLECTION]
    return {
        "mean_iterations": figures["iterations"],
        "queries_executed": executed,
        "repeated_queries": repeats,
        "repeated_query_share": repeats / executed if executed else None,
        "stop_reasons": figures["stop_reasons"],
        "mean_confidence": mean([answer.result.score or 0.0 for answer in answers]),
        "answerable_auroc": answerable_auroc(native),
        "latency_ms": {name: value if answers else None for name, value in figures["latency_ms"].items()},
    }


def question_line(answer: ReplayRun) -> dict[str, Any]:
    """Return one question's line of a `--per-question` file."""
    prompt, result = answer.prompt, answer.result
    return {
        "id": prompt.request.id,
        "collection": prompt.request.tenant,
        "category": prompt.category,
        "question": prompt.request.messages[-1].content,
        "ids": answer.ids,
        "scores": answer.scores,
        "facts": answer.facts,
        "iterations": result.iterations,
        "executed": result.executed,
        "repeats": result.repeated,
        "latency_ms": answer.latency_ms,
        "stop_reason": result.stop_reason,
        "confidence": result.score,
        "confidence_label": result.label,
        "confidence_detail": dict(result.confidence),
        "gold": list(prompt.gold),
        "answerable": prompt.answerable,
        "complete": answer.complete,
    }


def show(report: dict[str, Any], console: Console) -> None:
    """Print the report as tables."""
    console.print(_table(report))
    console.print(_figures(report))


def _table(report: dict[str, Any]) -> Table:
    """Return metrics by category, the whole last."""
    names = [name for name in report["overall"] if name != "questions"]
    parts = [name.partition("@") for name in ("n", *names)]
    heads = [_HEADS.get(metric, metric) + at + cut for metric, at, cut in parts]
    title = f"{report['dataset']} ({report['kinds']})"
    table = report_table("category", *heads, title=title, padding=0, no_wrap=True)
    for category, row in report["categories"].items():
        table.add_row(category, *_cells(row, names))
    table.add_section()
    table.add_row("overall", *_cells(report["overall"], names), style="bold")
    return table


def _cells(row: dict[str, Any], names: Sequence[str]) -> list[str]:
    return [str(row["questions"]), *(f"{row[name]:.3f}" for name in names)]


def _figures(report: dict[str, Any]) -> Table:
    """Return how the runs went, one figure to a line."""
    table = Table(show_header=False, box=None)
    latency, aurocs = report["latency_ms"], report["answerable_auroc"].items()
    others = f", {count} of them about another collection" if (count := report[CROSS_COLLECTION]) else ""
    for name, value in (
        ("questions asked", f"{report['asked']}{others}"),
        ("mean iterations", number(report["mean_iterations"], 2)),
        ("queries executed", str(report["queries_executed"])),
        ("repeated queries", f"{report['repeated_queries']} ({number(report['repeated_query_share'], 4)})"),
        ("stop reasons", counts_text(report["stop_reasons"])),
        ("mean confidence", number(report["mean_confidence"], 3)),
        ("unanswerable against answerable, AUROC", ", ".join(f"{number(value)} by {by}" for by, value in aurocs)),
        ("latency p50 / p95", f"{number(latency['p50'], 1)} / {number(latency['p95'], 1)} ms"),
    ):
        table.add_row(name, value)
    return table
