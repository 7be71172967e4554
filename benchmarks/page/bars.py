"""The picture of a comparison: Recall@10 of every peer, a column a set. SVG on a panel of its own, light or dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

OWN = "recall-loop"
TITLES = {
    OWN: "Recall Loop",
    "mem0": "mem0",
    "llamaindex": "LlamaIndex, fusion",
    "langgraph": "LangGraph store",
    "chroma": "Chroma",
    "bm25s": "bm25s",
    "sessions": "session index",
}
FIGURE = "recall@10"
_MARGIN, _NAMES, _COLUMN, _BAR, _ROW, _HEAD = 16, 140, 168, 112, 26, 62
_STYLE = """<style>
.panel { fill: #ffffff } .name { fill: #202124 } .soft { fill: #5f6368 } .other { fill: #9aa0a6 } .own { fill: #3f51b5 }
@media (prefers-color-scheme: dark) {
.panel { fill: #1e2129 } .name { fill: #e8eaed } .soft { fill: #bdc1c6 } .other { fill: #80868b } .own { fill: #8c9eff }
}
</style>"""


def draw_bars(sets: Sequence[Mapping[str, Any]]) -> str:
    """Return the picture; `sets` as in the report of `benchmarks/peers/run.py`. A peer that didn't run has a dash."""
    found = [{row["name"]: float(row[FIGURE]) for row in each["peers"]} for each in sets]
    total = {name: sum(each.get(name, 0.0) for each in found) for figures in found for name in figures}
    names = sorted(total, key=lambda name: -total[name])
    width, height = 2 * _MARGIN + _NAMES + _COLUMN * len(sets), 2 * _MARGIN + _HEAD + _ROW * len(names)
    title = "Recall@10: the share of the gold documents among the first ten"
    parts = [_text(_MARGIN, _MARGIN + 14, title, "name bold")]
    for at, name in enumerate(names):
        y = _MARGIN + _HEAD + _ROW * at
        parts.append(_text(_MARGIN, y + 14, TITLES.get(name, name), "name bold" if name == OWN else "name"))
        for column, figures in enumerate(found):
            parts += _bar(_MARGIN + _NAMES + _COLUMN * column, y, figures.get(name), name == OWN)
    for column, each in enumerate(sets):
        x = _MARGIN + _NAMES + _COLUMN * column
        parts.append(_text(x, _MARGIN + 40, each["title"], "name bold"))
        parts.append(_text(x, _MARGIN + 54, f"{each['questions']} questions", "soft"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'font-family="system-ui, sans-serif" font-size="12">',
            "<title>Recall@10 of Recall Loop and of other memories, by data set</title>",
            _STYLE,
            '<rect class="panel" width="100%" height="100%" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _bar(x: int, y: int, value: float | None, own: bool) -> list[str]:
    if value is None:
        return [_text(x, y + 14, "–", "soft")]
    length = max(_BAR * value, 1)
    shown = f"{value:.2f}".removeprefix("0")
    return [
        f'<rect class="{"own" if own else "other"}" x="{x}" y="{y + 3}" width="{length:.1f}" height="15" rx="2"/>',
        _text(round(x + length + 6), y + 14, shown, "name bold" if own else "name"),
    ]


def _text(x: int, y: int, text: str, style: str) -> str:
    weight = ' font-weight="bold"' if style.endswith(" bold") else ""
    return f'<text class="{style.removesuffix(" bold")}" x="{x}" y="{y}"{weight}>{escape(text)}</text>'
