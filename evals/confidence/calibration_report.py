"""Reports of a fitted confidence mapping: tables, and the reliability diagram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recall_loop.evals.replay.eval_report import number, report_table
from recall_loop.evals.replay.replay_page import check_plotting, html_page, labelled_svg, reliability_plot
from recall_loop.policy.confidence.confidence_mapping import AnswerabilityModel, Calibration
from recall_loop.state.errors import InvalidInputError

_BAR = 24
_COLUMNS = ("n", "base", "AUROC", "ECE", "perfect", "Brier", "unanswerable", "high: precision", "high: coverage")


def show(mapping: Calibration, console: Console) -> None:
    """Print the figures before and after, the labels, the reliability diagram and the candidates."""
    found = mapping.figures
    console.print(_figures(found))
    console.print(_labels(found["parts"]["all"]["after"]["labels"]))
    console.print(_reliability(found["reliability"]))
    if mapping.answerable:
        console.print(_holding(mapping.answerable))
    console.print(_candidates(found))
    edges = mapping.thresholds
    console.print(f"{mapping.id}: medium from {edges.medium:.4f}, high from {edges.high:.4f}", markup=False)


def _table(title: str, *columns: str) -> Table:
    return report_table(*columns, title=title, padding=0)


def _figures(found: Mapping[str, Any]) -> Table:
    rows = {name: _cells(both["before"], both["after"]) for name, both in found["parts"].items()}
    unseen = {name: _cells(None, after) for name, after in found["left_out_set"].items()}
    return _parts_table("out of fold: before → after", _COLUMNS, rows, unseen)


def _parts_table(
    title: str, columns: Sequence[str], rows: Mapping[str, list[str]], unseen: Mapping[str, list[str]]
) -> Table:
    """Return a table of the parts of a sample, and below of each set under a fit on the others."""
    table = _table(title, "part", *columns)
    for name, cells in rows.items():
        table.add_row(name, *cells, style="bold" if name == "all" else None)
    table.add_section()
    for name, cells in unseen.items():
        table.add_row(f"fitted without {name}", *cells)
    return table


def _holding(mapping: AnswerabilityModel) -> Table:
    """Return how well answerable questions are recognised, and the effect of abstaining below the threshold."""
    title = f"whether memory holds an answer, out of fold ({mapping.figures['chosen']}); abstained below"
    columns = ("n", "unanswerable", "AUROC", "ECE", "perfect", "Brier", "abstained: unanswerable", "answerable")
    rows, unseen = (
        {name: _holding_cells(row) for name, row in mapping.figures[key].items()} for key in ("parts", "left_out_set")
    )
    return _parts_table(f"{title} {mapping.abstain_below:.4f}", columns, rows, unseen)


def _holding_cells(row: Mapping[str, Any]) -> list[str]:
    none, perfect, below = row["unanswerable"], row["ece_of_perfect"], row["abstained"]
    return [
        str(row["questions"]),
        str(none),
        number(row["auroc"]),
        number(row["ece"]),
        number(perfect and perfect["mean"]),
        number(row["brier"]),
        _share(below["unanswerable"], none),
        _share(below["answerable"], row["questions"] - none),
    ]


def _share(count: int, whole: int) -> str:
    return f"{count} of {whole} ({count / whole:.3f})" if whole else "–"


def _cells(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    def both(name: str) -> str:
        return number(after[name]) if before is None else f"{number(before[name])} → {number(after[name])}"

    perfect = after["ece_of_perfect"]
    high = after["labels"]["high"]
    return [
        str(after["questions"]),
        number(after["base_rate"]),
        both("auroc"),
        both("ece"),
        number(perfect and perfect["mean"]),
        both("brier"),
        both("answerable_auroc"),
        number(high["precision"]),
        number(high["coverage"]),
    ]


def _labels(labels: Mapping[str, Any]) -> Table:
    table = _table("labels, after", "label", "true", "false", "precision", "coverage")
    for name, row in labels.items():
        table.add_row(name, str(row["true"]), str(row["false"]), number(row["precision"]), number(row["coverage"]))
    return table


def _reliability(found: Mapping[str, Any]) -> Table:
    title = "reliability: bins with equal numbers of questions; = observed, | score, + both"
    table = _table(title, "bin", "before", "came true", "", "after", "came true", "")
    for at, (before, after) in enumerate(zip(found["before"], found["after"], strict=True), 1):
        cells: list[str] = []
        for part in (before, after):
            cells += [number(part["score"]), number(part["share"]), bar(part["score"], part["share"])]
        table.add_row(str(at), *cells)
    return table


def bar(score: float, share: float, width: int = _BAR) -> str:
    """Return the observed share as a bar from 0 to 1, with a mark at the score: they meet if it is calibrated."""
    filled, at = round(share * width), min(round(score * width), width - 1)
    drawn = ["="] * filled + ["."] * (width - filled)
    drawn[at] = "+" if at in (filled - 1, filled) else "|"
    return "".join(drawn)


def _candidates(found: Mapping[str, Any]) -> Table:
    table = _table("candidates, log loss out of fold", "candidate", "log loss")
    for name, loss in sorted(found["log_loss_by_candidate"].items(), key=lambda pair: pair[1]):
        table.add_row(name, f"{loss:.4f}", style="bold" if name == found["chosen"] else None)
    return table


_KINDS = {".svg": "svg", ".png": "png", ".html": "svg"}


def check_plot(path: Path) -> None:
    """Raise `InvalidInputError` where a file can't be drawn, before anything is fitted."""
    if path.suffix not in _KINDS:
        raise InvalidInputError("--plot", str(path), f"a file that ends in {', '.join(_KINDS)}")
    if not path.parent.is_dir():
        raise InvalidInputError("--plot", str(path), "a file in an existing folder")
    check_plotting("--plot", path)


def draw_reliability(mapping: Calibration, path: Path) -> None:
    """Write the diagram: the mean score of bins of equally many questions, and the share that came true out of fold."""
    bins = {
        name: [{"score": part["score"], "complete": part["share"]} for part in mapping.figures["reliability"][name]]
        for name in ("before", "after")
    }
    drawn = reliability_plot(bins, _KINDS[path.suffix])
    if path.suffix == ".html":
        title = f"Reliability of {mapping.id}"
        drawn = html_page(title, f"<h1>{escape(title)}</h1>\n{labelled_svg(drawn, title)}").encode()
    path.write_bytes(drawn)
