"""The report of a replay as one HTML page that needs nothing else: tables and plots (OPS-4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from recall_loop.evals.replay.eval_report import counts_text
from recall_loop.evals.replay.policy_comparison import COMPLETE_DESCRIPTION
from recall_loop.evals.replay.replay_plots import draw_plots
from recall_loop.evals.replay.replay_report import comparison_headers, comparison_rows, confusion_cells

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .75rem; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top }
th:first-child, td:first-child { text-align: left }
.words td { text-align: left }
.wide { overflow-x: auto }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem }
figure { margin: 0 } figcaption { font-weight: 600 } svg { width: 100%; height: auto }
"""


def render_page(report: Mapping[str, Any]) -> str:
    """Return the page; every name is escaped.

    Raises:
        ImportError: matplotlib isn't installed; see `recall_loop.evals.replay.replay_plots.check_plotting`.
    """
    first, policies = report["policies"][0], report["policies"]
    title = f"Replay of {report['asked']['source']}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{first['prompts']:,} requests, {first['scored']:,} of them with gold evidence. Differences are those of "
        f"the same requests, with 95 % bootstrap intervals ({report['asked']['resamples']:,} resamples).</p>",
        _table(comparison_headers(report), comparison_rows(report)),
        "<h2>Plots</h2>",
        _figures(draw_plots(report)),
        "<h2>Stop reasons</h2>",
        _table(
            ("policy", "reasons"),
            ((policy["name"], counts_text(policy["stop_reasons"])) for policy in policies),
            "words",
        ),
        f"<h2>Confidence</h2><p>The event is {COMPLETE_DESCRIPTION}.</p>",
        _table(("label", "yes", "no", "share"), _labels(policies)),
        "<h2>Recall by category</h2>",
        _table(("category", "requests", *(policy["name"] for policy in policies)), _categories(report)),
        "<h2>Settings that differ from their defaults</h2>",
        _table(("policy", "settings"), ((policy["name"], _settings(policy)) for policy in policies), "words"),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def _figures(drawn: Iterable[tuple[str, str]]) -> str:
    each = (
        f"<figure><figcaption>{escape(title)}</figcaption>{svg.replace('<svg', _svg_tag(title), 1)}</figure>"
        for title, svg in drawn
    )
    return f'<div class="plots">{"".join(each)}</div>'


def _svg_tag(title: str) -> str:
    return f'<svg role="img" aria-label="{escape(title)}"'


def _table(names: Sequence[str], lines: Iterable[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in lines)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _settings(policy: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in policy["settings"].items()) or "none"


def _labels(policies: Sequence[Mapping[str, Any]]) -> Iterable[Sequence[str]]:
    for policy in policies:
        for label, counts in policy["confusion"].items():
            yield f"{policy['name']}: {label}", *confusion_cells(counts)


def _categories(report: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    """Yield recall at ten, or at the largest cut where ten isn't among them, by category."""
    ks = report["asked"]["ks"]
    measure = f"recall@{10 if 10 in ks else ks[-1]}"
    for name, row in report["policies"][0]["categories"].items():
        cells = (f"{policy['categories'][name][measure]:.3f}" for policy in report["policies"])
        yield f"{name} ({measure})", str(row["prompts"]), *cells
