"""The report of a replay as one HTML page, and its plots; they need matplotlib, of the extra `eval` (OPS-4)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from recall_loop.evals.replay.policy_comparison import COMPLETE_DESCRIPTION
from recall_loop.evals.replay.replay_report import comparison_headers, comparison_rows, confusion_rows, stop_rows
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_STYLE: Any = {  # stubs know the names of only one matplotlib release
    "svg.fonttype": "none",  # text remains text: it can be read aloud, searched and copied
    "svg.hashsalt": "recall-loop",  # the same figures give the same bytes
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
# Okabe and Ito's palette, which people with any colour vision tell apart; markers and dashes help in print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vP*"
_DASHES = ("-", "--", "-.", ":")
_Policy = Mapping[str, Any]
# A logarithmic axis has no zero.
_LEAST_MS = 0.01


def check_plotting(option: str, value: object) -> None:
    """Raise `InvalidInputError` for `option` where matplotlib isn't installed."""
    if find_spec("matplotlib") is None:
        raise InvalidInputError(option, str(value), "needs matplotlib: pip install 'recall-loop[eval]'")


def draw_plots(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return title and SVG of each plot; one that has nothing to show is left out."""
    policies: Sequence[_Policy] = report["policies"]
    seconds: dict[str, list[float]] = {policy["name"]: [] for policy in policies}
    for run in report["runs"]:
        seconds[run["policy"]].append(run["latency_ms"])
    plots: list[tuple[str, Callable[[Axes, Sequence[_Policy]], None]]] = []
    if any(policy["scored"] for policy in policies):
        plots.append(("Recall against iterations", _recall))
    plots.append(("Novelty per iteration", _novelty))
    if any(policy["reliability"] for policy in policies):
        plots.append(("Reliability of the confidence score", _reliability))
    plots.append(("Latency", partial(_latency, latencies=seconds)))
    return [(title, labelled_svg(_render(policies, draw, "svg"), title)) for title, draw in plots]


def labelled_svg(drawn: bytes, title: str) -> str:
    """Return an SVG file as an element of a page, with its title for those who can't see it."""
    svg = drawn.decode()
    return svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)


def html_page(title: str, body: str, head: str = "") -> str:
    """Return a whole page; `body` and `head` are HTML."""
    head = f'<meta charset="utf-8">{head}<title>{escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _render(policies: Sequence[_Policy], draw: Callable[[Axes, Sequence[_Policy]], None], kind: str) -> bytes:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot()
        draw(axes, policies)
        axes.legend(frameon=False)
        made = io.BytesIO()
        unsaid = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        figure.savefig(made, format=kind, metadata=unsaid, dpi=150)
    return made.getvalue()


def reliability_plot(named: Mapping[str, Sequence[Mapping[str, float]]], kind: str) -> bytes:
    """Return the reliability of several scores in one plot, as `svg` or `png`.

    `named` gives bins with mean `score` and the share `complete` of each.
    """
    return _render([{"name": name, "reliability": bins} for name, bins in named.items()], _reliability, kind)


def _style_of(at: int) -> dict[str, Any]:
    return {"color": _COLOURS[at % len(_COLOURS)], "marker": _MARKERS[at % len(_MARKERS)]}


def _lines(axes: Axes, policies: Sequence[_Policy], figure: str) -> None:
    """Draw one figure of `by_iteration` per policy, over the iterations that have it."""
    for at, policy in enumerate(policies):
        points = [(row["iteration"], row[figure]) for row in policy["by_iteration"] if row[figure] is not None]
        axes.plot([x for x, _ in points], [y for _, y in points], label=policy["name"], **_style_of(at))
    last = max((len(policy["by_iteration"]) for policy in policies), default=1)
    axes.set_xticks(range(1, last + 1))
    axes.set_xlabel("iteration")


def _recall(axes: Axes, policies: Sequence[_Policy]) -> None:
    _lines(axes, policies, "found")
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("gold evidence found by then")


def _novelty(axes: Axes, policies: Sequence[_Policy]) -> None:
    _lines(axes, policies, "new_facts")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("new relevant facts per run")


def _reliability(axes: Axes, policies: Sequence[_Policy]) -> None:
    axes.plot([0, 1], [0, 1], color="#888888", linestyle="--", label="perfect")
    for at, policy in enumerate(policies):
        bins = policy["reliability"]
        if bins:
            x, y = [part["score"] for part in bins], [part["complete"] for part in bins]
            axes.plot(x, y, label=policy["name"], **_style_of(at))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("confidence score, mean of each tenth")
    axes.set_ylabel(f"share with {COMPLETE_DESCRIPTION}")


def _latency(axes: Axes, policies: Sequence[_Policy], latencies: Mapping[str, Sequence[float]]) -> None:
    from matplotlib.ticker import LogFormatter

    times = [sorted(max(took, _LEAST_MS) for took in latencies[policy["name"]]) for policy in policies]
    axes.set_xscale("log")
    # Before anything is drawn: equal times would give an axis without width, which matplotlib can't draw.
    axes.set_xlim(min(map(min, times)) / 1.25, max(map(max, times)) * 1.25)
    # Plain numbers are easier to read than powers of ten, and ten times as fast to draw.
    axes.xaxis.set_major_formatter(LogFormatter())
    axes.xaxis.set_minor_formatter(LogFormatter())
    for at, (policy, ordered) in enumerate(zip(policies, times, strict=True)):
        shares = [(rank + 1) / len(ordered) for rank in range(len(ordered))]
        colour, dashes = _style_of(at)["color"], _DASHES[at % len(_DASHES)]
        axes.step(ordered, shares, where="post", label=policy["name"], color=colour, linestyle=dashes)
        axes.axvline(max(policy["latency_ms"]["p50"], _LEAST_MS), color=colour, linestyle=":", alpha=0.6)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("milliseconds (dotted: p50)")
    axes.set_ylabel("share of requests answered by then")


_PAGE_STYLE = """
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
    """Return the page; every name is escaped. It needs matplotlib; see `check_plotting`."""
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
        _table(("policy", "reasons"), stop_rows(report), "words"),
        f"<h2>Confidence</h2><p>The event is {COMPLETE_DESCRIPTION}.</p>",
        _table(
            ("label", "yes", "no", "share"),
            ((f"{policy}: {label}", *cells) for policy, label, *cells in confusion_rows(report)),
        ),
        "<h2>Recall by category</h2>",
        _table(("category", "requests", *(policy["name"] for policy in policies)), _categories(report)),
        "<h2>Settings that differ from their defaults</h2>",
        _table(("policy", "settings"), ((policy["name"], _settings(policy)) for policy in policies), "words"),
    ]
    head = f'<meta name="viewport" content="width=device-width"><style>{_PAGE_STYLE}</style>'
    return html_page(title, "\n".join(parts), head)


def _figures(drawn: Iterable[tuple[str, str]]) -> str:
    each = (f"<figure><figcaption>{escape(title)}</figcaption>{picture}</figure>" for title, picture in drawn)
    return f'<div class="plots">{"".join(each)}</div>'


def _table(names: Sequence[str], lines: Iterable[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in lines)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _settings(policy: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in policy["settings"].items()) or "none"


def _categories(report: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    """Yield recall at ten, or at the largest cut where ten isn't among them, by category."""
    ks = report["asked"]["ks"]
    measure = f"recall@{10 if 10 in ks else ks[-1]}"
    for name, row in report["policies"][0]["categories"].items():
        cells = (f"{policy['categories'][name][measure]:.3f}" for policy in report["policies"])
        yield f"{name} ({measure})", str(row["prompts"]), *cells
