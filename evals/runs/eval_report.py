"""Reports of an evaluation: one JSON-able mapping, and the same as tables for people (OPS-4)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.measures.calibration_metrics import optional_auroc
from recall_loop.evals.measures.retrieval_metrics import macro_average, percentile
from recall_loop.evals.runs.cross_collection import CROSS_COLLECTION
from recall_loop.evals.runs.prompts import EvalOptions
from recall_loop.evals.runs.runner import ReplayRun
from recall_loop.state.settings.settings import Settings

_SECRETS = {name for name, field in Settings.model_fields.items() if not field.repr}
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
        "settings": settings.model_dump(mode="json", exclude_defaults=True, exclude=_SECRETS),
        "blank_documents": dataset.blank,
        "asked": len(answers),
        "overall": _scores(scored),
        "categories": {
            name: _scores([answer for answer in scored if answer.prompt.category == name]) for name in categories
        },
        **_behaviour(answers),
    }


def _scores(answers: Sequence[ReplayRun]) -> dict[str, Any]:
    return {"questions": len(answers), **macro_average([answer.scores for answer in answers])}


def _behaviour(answers: Sequence[ReplayRun]) -> dict[str, Any]:
    executed = sum(answer.result.executed for answer in answers)
    repeats = sum(answer.result.repeated for answer in answers)
    latencies = [answer.latency_ms for answer in answers]
    return {
        "mean_iterations": _mean([answer.result.iterations for answer in answers]),
        "queries_executed": executed,
        "repeated_queries": repeats,
        "repeated_query_share": repeats / executed if executed else None,
        "stop_reasons": dict(Counter(answer.result.stop_reason for answer in answers).most_common()),
        "mean_confidence": _mean([answer.result.score or 0.0 for answer in answers]),
        "answerable_auroc": _answerable_auroc(answers),
        "latency_ms": {name: _finite(percentile(latencies, share)) for name, share in (("p50", 0.5), ("p95", 0.95))},
    }


def _answerable_auroc(answers: Sequence[ReplayRun]) -> dict[str, float | None]:
    """Return how well the score and `answerable` rank answerable questions above others; foreign ones don't count."""
    asked = [answer for answer in answers if answer.prompt.category != CROSS_COLLECTION]
    outcomes = [bool(answer.prompt.answerable) for answer in asked]
    return {
        "score": optional_auroc([answer.result.score for answer in asked], outcomes),
        "answerable": optional_auroc([answer.result.answerable for answer in asked], outcomes),
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
    }


def show(report: dict[str, Any], console: Console) -> None:
    """Print the report as tables."""
    console.print(_table(report))
    console.print(_figures(report))


def _table(report: dict[str, Any]) -> Table:
    """Return metrics by category, the whole last."""
    names = [name for name in report["overall"] if name != "questions"]
    title = f"{report['dataset']} ({report['kinds']})"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    table.add_column("category", overflow="fold")
    for name in ("n", *names):
        metric, at, cut = name.partition("@")
        table.add_column(_HEADS.get(metric, metric) + at + cut, justify="right", no_wrap=True)
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
    latency = report["latency_ms"]
    reasons = ", ".join(f"{name} {count}" for name, count in report["stop_reasons"].items())
    for name, value in (
        ("questions asked", str(report["asked"])),
        ("mean iterations", _number(report["mean_iterations"], 2)),
        ("queries executed", str(report["queries_executed"])),
        ("repeated queries", f"{report['repeated_queries']} ({_number(report['repeated_query_share'], 4)})"),
        ("stop reasons", reasons),
        ("mean confidence", _number(report["mean_confidence"], 3)),
        ("unanswerable against answerable, AUROC", _answerable_words(report["answerable_auroc"])),
        ("latency p50 / p95", f"{_number(latency['p50'], 1)} / {_number(latency['p95'], 1)} ms"),
    ):
        table.add_row(name, value)
    return table


def _answerable_words(found: dict[str, float | None]) -> str:
    return ", ".join(f"{_number(value, 3)} by {name}" for name, value in found.items())


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
