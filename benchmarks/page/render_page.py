"""Write the measured parts of docs/benchmarks.md, and its picture, from a report of `benchmarks/peers/run.py`.

    python benchmarks/page/render_page.py build/benchmarks.json [--docs DIR]

Nothing is measured here. Parts stand between `<!-- measured: NAME -->` and `<!-- end -->`; the rest is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bars import TITLES, draw_bars

from recall_loop.state.errors import InvalidInputError

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, PICTURE = "benchmarks.md", "benchmarks.svg"
_PART = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEADS = {
    "recall@10": "Recall@10",
    "ndcg@10": "nDCG@10",
    "any@10": "any@10",
    "gold_in_context": "gold in 1,000 tokens",
    "p50": "ms per question",
    "data_mb": "MB",
}
_LESS_IS_BETTER = ("p50", "data_mb")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    try:
        report = read_report(arguments.report)
        page = arguments.docs / PAGE
        text = write_parts(page.read_text(encoding="utf-8"), report)
    except InvalidInputError as error:
        sys.stderr.write(f"page: error: {error}\n")
        return 2
    page.write_text(text, encoding="utf-8")
    (arguments.docs / PICTURE).write_text(draw_bars(report["sets"]), encoding="utf-8")
    return 0


def read_report(path: Path) -> dict[str, Any]:
    """Return a report; `InvalidInputError` where the file is none, or one without figures."""
    allowed = "a file that benchmarks/peers/run.py wrote with --json, with figures in it"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError("report", str(path), allowed) from error
    if not isinstance(report, dict) or not {"machine", "date", "seed", "asked", "sets"} <= set(report):
        raise InvalidInputError("report", str(path), allowed)
    if not report["sets"] or not all(each["peers"] for each in report["sets"]):
        raise InvalidInputError("report.sets", [each["title"] for each in report["sets"]], allowed)
    return report


def write_parts(text: str, report: Mapping[str, Any]) -> str:
    """Return the page with its measured parts updated; `InvalidInputError` where one is unknown or missing."""
    parts = {"run": run_part(report), "figures": "\n".join(map(set_part, report["sets"]))}
    named = [part[2] for part in _PART.finditer(text)]
    if sorted(named) != sorted(parts):
        raise InvalidInputError(PAGE, named, f"one part each of {', '.join(sorted(parts))}")
    return _PART.sub(lambda part: f"{part[1]}{parts[part[2]]}{part[3]}", text)


def run_part(report: Mapping[str, Any]) -> str:
    """Return where, when and with what was measured."""
    machine = report["machine"]
    rows = [row for each in report["sets"] for row in each["peers"]]
    versions = {name: said for row in rows for name, said in row["versions"].items()}
    told = ", ".join(f"{name} {said}" for name, said in sorted(versions.items()))
    return (
        f"Measured on {report['date']} in one run on one machine: {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gb']} GB, {machine['system']}, Python {machine['python']}. Questions were drawn with seed "
        f"{report['seed']}; each peer was asked for its {report['asked']} best. Versions: {told}.\n"
    )


def set_part(found: Mapping[str, Any]) -> str:
    """Return the section of one set: what it is, a table, and what couldn't be measured."""
    columns = [name for name in _HEADS if found["wide"] or name != "any@10"]
    rows = sorted(found["peers"], key=lambda row: -row["recall@10"])
    best = {name: _best(name, rows) for name in columns}
    lines = [
        f"### {found['title']}\n",
        f"{found['questions']:,} questions, {found['documents']:,} documents in {_counted(found['collections'])}. "
        f"{found['note']}\n",
        f"| | {' | '.join(_HEADS[name] for name in columns)} |",
        f"|---{'|---' * len(columns)}|",
    ]
    for row in rows:
        cells = [_cell(name, row) for name in columns]
        shown = [f"**{cell}**" if cell == best[name] else cell for name, cell in zip(columns, cells, strict=True)]
        lines.append(f"| {TITLES.get(row['name'], row['name'])} | {' | '.join(shown)} |")
    lines += [f"\nNot measured: {TITLES.get(name, name)}, which failed." for name in found["failed"]]
    return "\n".join(lines) + "\n"


def _counted(collections: int) -> str:
    return "one collection" if collections == 1 else f"{collections} collections"


def _value(name: str, row: Mapping[str, Any]) -> float:
    return float(row["latency_ms"]["p50"] if name == "p50" else max(row[name], 0.0))


def _best(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    choose = min if name in _LESS_IS_BETTER else max
    return _cell(name, choose(rows, key=lambda row: _value(name, row)))


def _cell(name: str, row: Mapping[str, Any]) -> str:
    value = _value(name, row)
    if name in _LESS_IS_BETTER:
        return f"{value:.1f}" if value < 10 else f"{value:,.0f}"
    return f"{value:.3f}".removeprefix("0")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="report of benchmarks/peers/run.py --json")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="DIR", help="folder of the page and its picture")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
