"""The report of an evaluation of lives: one JSON-able mapping, and the same as tables (LIVE-8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from recall_loop.evals.living.life import Life, LifeAnswer
from recall_loop.evals.living.life_figures import (
    Answers,
    confidence_figures,
    context_figures,
    group_figures,
    label_moves,
    wanted_rows,
)
from recall_loop.evals.living.life_runner import LivingOptions
from recall_loop.evals.replay.eval_report import number, report_table
from recall_loop.evals.runs.prompts import changed_settings
from recall_loop.state.settings.settings import Settings

_GROUPS: Mapping[str, Callable[[LifeAnswer], object]] = {
    "scenario": lambda answer: answer.question.scenario.value,
    "form": lambda answer: answer.question.form.value,
    "language": lambda answer: answer.life.language,
    "size": lambda answer: answer.size,
    "kind": lambda answer: answer.question.kind,
}
_SHOWN = ("scenario", "form", "language")


def build_living_report(
    source: str,
    lives: Sequence[Life],
    options: LivingOptions,
    settings: Settings,
    answers: Answers,
    conversations: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the report of asked lives; shares lie in [0,1], and a figure that has nothing to be taken over is null.

    `source` is a file's name, or how lives were generated; `answers` are of every question at every size. Of the
    settings, those that differ from their defaults are named, without secrets.
    """
    sizes = options.sizes
    by_size = [(str(size), [answer for answer in answers if answer.size == size]) for size in sizes]
    return {
        "source": source,
        "lives": len(lives),
        "sizes": list(sizes),
        "seed": options.seed,
        "around": options.around.name if options.around else None,
        "settings": changed_settings(settings),
        "asked": len(answers),
        "rows": [
            row.figures(answers) for row in wanted_rows(sizes, list(dict.fromkeys(life.language for life in lives)))
        ],
        "label_moves": label_moves(answers),
        "confidence": {name: confidence_figures(some) for name, some in (("all", answers), *by_size)},
        "context": {name: context_figures(some) for name, some in (("all", answers), *by_size)},
        "groups": {name: _by(answers, key, group_figures) for name, key in _GROUPS.items()},
        "by_size": {name: _by(some, _GROUPS["scenario"], group_figures) for name, some in by_size},
        "conversations": dict(conversations) if conversations else None,
    }


def _by(
    answers: Answers, key: Callable[[LifeAnswer], object], figures: Callable[[Answers], dict[str, Any]]
) -> dict[str, Any]:
    groups: dict[str, list[LifeAnswer]] = {}
    for answer in answers:
        groups.setdefault(str(key(answer)), []).append(answer)
    return {name: figures(group) for name, group in groups.items()}


def life_line(answer: LifeAnswer) -> dict[str, Any]:
    """Return one question's line of a `--per-question` file, which `recall-loop calibrate --replay` reads, too.

    `gold` names one record that holds the answer, the first that was found: any of them is enough.
    """
    question, rank = answer.question, answer.rank
    found = answer.ids[rank - 1] if rank else next(iter(question.gold), None)
    return {
        "id": f"{question.id}@{answer.size}",
        "collection": answer.life.group,
        "set": f"lives among {answer.size}",
        "category": question.scenario.value,
        "kind": question.kind,
        "form": question.form.value,
        "language": answer.life.language,
        "alone": answer.life.alone,
        "size": answer.size,
        "question": question.question,
        "ids": answer.ids,
        "gold": [found] if found else [],
        "answerable": question.answerable,
        "rank": rank,
        "older_rank": answer.older_rank,
        "superseded": sorted(answer.superseded),
        "counts": dict(answer.counts),
        "context": list(answer.context_ids),
        "all_gold": sorted(question.gold) if question.answerable else [],
        "facts": [[name, score, similarity, *alignment] for name, score, similarity, alignment in answer.facts],
        "confidence": answer.score,
        "confidence_label": answer.label,
        "confidence_detail": dict(answer.confidence),
        "latency_ms": answer.latency_ms,
    }


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print the report as tables."""
    console.print(_wanted_table(report))
    for name in _SHOWN:
        console.print(_group_table(name, report["groups"][name]))
    console.print(_size_table(report))
    console.print(_figures(report))


def _wanted_table(report: Mapping[str, Any]) -> Table:
    title = f"{report['source']}: {report['lives']} lives, {report['asked']} questions"
    table = report_table("scripted lives", "count", "of", "share", "wanted", "met", title=title, no_wrap=True)
    for row in report["rows"]:
        met = {True: "yes", False: "no", None: "–"}[row["met"]]
        table.add_row(row["name"], str(row["count"]), str(row["of"]), number(row["value"]), row["wanted"], met)
    return table


def _group_table(name: str, groups: Mapping[str, Any]) -> Table:
    table = report_table(name, "n", "first", "within 3", "within 10", "high", "medium", "low", "ms", no_wrap=True)
    for group, found in groups.items():
        shares = [number(found[each]) for each in ("first", "within_3", "within_10")]
        labels = [str(found["labels"][level]) for level in ("high", "medium", "low")]
        table.add_row(group, str(found["questions"]), *shares, *labels, number(found["latency_ms"], 0))
    return table


def _size_table(report: Mapping[str, Any]) -> Table:
    heads = ("AUROC", "ECE", "Brier", "high", "precision", "in block", "precise", "lines", "empty")
    table = report_table("records around", *heads, no_wrap=True)
    for name, found in report["confidence"].items():
        block = report["context"][name]
        table.add_row(
            name,
            *(number(found[each]) for each in ("auroc", "ece", "brier")),
            str(found["high"]),
            number(found["high_precision"]),
            *(number(block[each]) for each in ("holds_answer", "precision")),
            number(block["lines"], 1),
            number(block["empty_never_said"]),
        )
    return table


def _figures(report: Mapping[str, Any]) -> Table:
    """Return the figures outside the tables, one per line."""
    table = Table(show_header=False, box=None)
    moves = report["label_moves"]
    table.add_row("label moves by more than one between sizes", f"{moves['moved']} of {moves['questions']}")
    if conversations := report["conversations"]:
        found = f"{conversations['marked']} of {conversations['facts']} ({number(conversations['share'], 4)})"
        table.add_row(f"taken for corrected in {conversations['dataset']}", found)
    return table
