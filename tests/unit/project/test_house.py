"""The shape of the tree: rooms that can be taken in at a glance, and names that say one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from recall_loop.memory.store.sqlite.sqlite_schema import DDL

MOST_FILES = 12
ROOMS = "state text telemetry prompts policy llm memory nodes graph evals service cli"
PRODUCT = tuple(ROOMS.split())
STORE = Path("memory/store")
TABLES = "|".join(re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", DDL))
OUR_SQL = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+(?:{TABLES})\b")
BACK_DOORS = ("sidecar", "sqlite")


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


def _texts(tree: ast.Module) -> Iterator[str]:
    """Yield the string constants of a file, the fixed parts of f-strings among them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _attributes(tree: ast.Module) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_the_store_is_read_through_its_own_methods_only(root: Path) -> None:
    def outside(*rooms: str) -> dict[Path, str]:
        paths = [path for path in _files(root, *rooms) if not path.is_relative_to(STORE)]
        return {path: (root / path).read_text(encoding="utf-8") for path in paths}

    def parsed(texts: dict[Path, str], words: tuple[str, ...]) -> dict[str, ast.Module]:
        """Trees of the files that have one of the words at all: parsing takes long."""
        return {str(path): ast.parse(text) for path, text in texts.items() if any(word in text for word in words)}

    product = outside(*PRODUCT)
    assert TABLES.count("|") > 5 and len(product) > 200
    asking = parsed(product, ("FROM", "JOIN", "INTO", "UPDATE"))
    assert asking and [path for path, tree in asking.items() if any(map(OUR_SQL.search, _texts(tree)))] == []
    reaching = parsed(product | outside("benchmarks", "examples"), BACK_DOORS)
    assert reaching and [path for path, tree in reaching.items() if not _attributes(tree).isdisjoint(BACK_DOORS)] == []
