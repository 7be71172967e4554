"""Plots of a replay as SVG texts; needs matplotlib, of the extra `eval` (OPS-4)."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from recall_loop.evals.replay.policy_comparison import COMPLETE_DESCRIPTION
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE: Any = {  # stubs know the names of one release of matplotlib only
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and copied
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
    """Refuse `option` where matplotlib isn't installed.

    Raises:
        InvalidInputError: it isn't; says how to get it.
    """
    if find_spec("matplotlib") is None:
        raise InvalidInputError(option, str(value), "needs matplotlib: pip install 'recall-loop[eval]'")


def draw_plots(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return title and SVG of each plot; one that has nothing to show is left out."""
    policies: Sequence[_Policy] = report["policies"]
    seconds: dict[str, list[float]] = {policy["name"]: [] for policy in policies}
    for run in report["runs"]:
        seconds[run["policy"]].append(run["latency_ms"])
    drawn = []
    if any(policy["scored"] for policy in policies):
        drawn.append(("Recall against iterations", _svg(policies, _recall)))
    drawn.append(("Novelty per iteration", _svg(policies, _novelty)))
    if any(policy["reliability"] for policy in policies):
        drawn.append(("Reliability of the confidence score", _svg(policies, _reliability)))
    drawn.append(("Latency", _svg(policies, lambda axes, policies: _latency(axes, policies, seconds))))
    return drawn


def _svg(policies: Sequence[_Policy], draw: Callable[[Axes, Sequence[_Policy]], None]) -> str:
    text = _render(policies, draw, "svg").decode()
    return text[text.index("<svg") :]


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
    # Before anything is drawn: equal times would leave an axis of no width, which matplotlib can't draw.
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
