"""The drawing of the rooms and their floors (`docs/floors.svg`), made from the import contracts in pyproject.toml.

A box is a room; it may import only from boxes below it. Inner rooms stand on floors of their own inside their box.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

Floors = list[list[str]]

WIDTH, MARGIN, GAP, PADDING = 1000, 16, 8, 8
TITLE, CHIP, LETTER = 20, 18, 6.1
SHADES = ("#e8f0fe", "#e6f4ea", "#fef7e0", "#fce8e6", "#f3e8fd", "#e4f7fb")


def contracts(pyproject: Mapping[str, object]) -> dict[str, Floors]:
    """Return the floors of every container, topmost first, as the layers contracts state them."""
    found: dict[str, Floors] = {}
    tool: Mapping[str, Mapping[str, list[Mapping[str, list[str]]]]] = pyproject["tool"]  # type: ignore[assignment]
    for contract in tool["importlinter"]["contracts"]:
        for container in contract.get("containers", []):
            found[container] = [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]
    return found


def svg(floors: Mapping[str, Floors], is_room: Mapping[str, bool]) -> str:
    """Return the drawing; `is_room` tells for a module's name whether it is a folder."""
    y, parts = float(MARGIN), list[str]()
    for number, floor in enumerate(floors["recall_loop"]):
        width = (WIDTH - 2 * MARGIN - GAP * (len(floor) - 1)) / len(floor)
        boxes = [_lines(floors, is_room, f"recall_loop.{room}", width) for room in floor]
        height = max(map(_height, boxes))
        for column, (room, lines) in enumerate(zip(floor, boxes, strict=True)):
            x = MARGIN + column * (width + GAP)
            parts += _box(room, lines, (x, y, width, height), SHADES[number % len(SHADES)])
        y += height + GAP
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + MARGIN - GAP:.0f}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="11">\n'
        f"<title>Rooms and floors: a box imports only from boxes below it</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _lines(floors: Mapping[str, Floors], is_room: Mapping[str, bool], room: str, width: float) -> list[tuple[int, str]]:
    """Return the inner floors of a room as lines of text with their depth, wrapped to its width."""
    lines: list[tuple[int, str]] = []
    for floor in floors.get(room, []):
        names = [name + ("/" if is_room.get(f"{room}.{name}") else "") for name in floor]
        lines += [(0, line) for line in _wrapped(names, width - 2 * PADDING)]
        for name in floor:
            inner = _lines(floors, is_room, f"{room}.{name}", width - 2 * PADDING)
            lines += [(depth + 1, f"{name}: {text}" if depth == 0 else text) for depth, text in inner]
    return lines


def _wrapped(names: Sequence[str], width: float) -> list[str]:
    lines, line = list[str](), ""
    for name in names:
        longer = f"{line} · {name}" if line else name
        if line and len(longer) * LETTER > width:
            lines.append(line)
            longer = name
        line = longer
    return [*lines, line]


def _height(lines: Sequence[object]) -> float:
    return TITLE + CHIP * len(lines) + PADDING


def _box(room: str, lines: Sequence[tuple[int, str]], at: tuple[float, float, float, float], shade: str) -> list[str]:
    x, y, width, height = at
    drawn = [
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" '
        f'fill="{shade}" stroke="#5f6368"/>',
        f'<text x="{x + PADDING:.0f}" y="{y + 15:.0f}" font-weight="bold" font-size="13" fill="#202124">{room}</text>',
    ]
    for number, (depth, text) in enumerate(lines):
        place = f'x="{x + PADDING + 16 * depth:.0f}" y="{y + TITLE + CHIP * number + 12:.0f}"'
        drawn.append(f'<text {place} fill="{"#3c4043" if depth == 0 else "#5f6368"}">{escape(text)}</text>')
    return drawn


def draw(root: Path) -> str:
    """Return the drawing of the tree below `root`."""
    floors = contracts(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")))
    names = [f"{container}.{name}" for container, rows in floors.items() for row in rows for name in row]
    return svg(floors, {name: (root / "/".join(name.split(".")[1:])).is_dir() for name in names})
