"""The shape of the tree: rooms that can be taken in at a glance, and names that say one thing."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

MOST_FILES = 12
ROOMS = "state text telemetry prompts policy llm memory nodes graph evals service cli"
PRODUCT = tuple(ROOMS.split())


def _files(root: Path, *rooms: str) -> list[Path]:
    return [path.relative_to(root) for room in rooms for path in (root / room).rglob("*.py")]


@pytest.mark.parametrize("rooms", [PRODUCT, ("tests",), ("benchmarks", "examples")], ids=["product", "tests", "beside"])
def test_no_room_is_crowded(root: Path, rooms: tuple[str, ...]) -> None:
    counts: dict[Path, int] = defaultdict(int)
    for path in _files(root, *rooms):
        counts[path.parent] += 1
    assert counts
    assert {str(room): count for room, count in counts.items() if count > MOST_FILES} == {}


def test_no_two_files_share_a_name(root: Path) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in _files(root, *PRODUCT):
        if path.name != "__init__.py":
            places[path.name].append(str(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
