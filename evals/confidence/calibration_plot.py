"""The reliability diagram of a fitted mapping, before and after, as a picture; needs matplotlib (CONF-4)."""

from __future__ import annotations

from html import escape
from pathlib import Path

from recall_loop.evals.replay.replay_plots import check_plotting, reliability_plot
from recall_loop.policy.confidence.confidence_mapping import Calibration
from recall_loop.state.errors import InvalidInputError

_KINDS = {".svg": "svg", ".png": "png", ".html": "svg"}


def check_plot(path: Path) -> None:
    """Refuse a file that can't be drawn, before anything is fitted.

    Raises:
        InvalidInputError: another ending than .svg, .png or .html, a folder that isn't there, or matplotlib isn't
            installed.
    """
    if path.suffix not in _KINDS:
        raise InvalidInputError("--plot", str(path), f"a file that ends in {', '.join(_KINDS)}")
    if not path.parent.is_dir():
        raise InvalidInputError("--plot", str(path), "a file in a folder that is there")
    check_plotting("--plot", path)


def draw_reliability(mapping: Calibration, path: Path) -> None:
    """Write the diagram: for bins of equally many questions the mean score, and the share that came true out of fold.

    Raises:
        OSError: the file can't be written.
    """
    bins = {
        name: [{"score": part["score"], "complete": part["share"]} for part in mapping.figures["reliability"][name]]
        for name in ("before", "after")
    }
    drawn = reliability_plot(bins, _KINDS[path.suffix])
    if path.suffix == ".html":
        svg, title = drawn.decode(), escape(f"Reliability of {mapping.id}")
        head = f'<meta charset="utf-8"><title>{title}</title>'
        picture = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
        body = f"<h1>{title}</h1>\n{picture}"
        drawn = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'.encode()
    path.write_bytes(drawn)
