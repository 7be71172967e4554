"""The pages about the project itself say what the code and the tests say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import recall_loop
from tests.unit.project.floors_drawing import draw

PROVES = re.compile(r"Proves:\s*((?:[A-Z]+-\d+[,.;\s]*)+)")
ID = re.compile(r"[A-Z]+-\d+")
DIRECTIVE = re.compile(r"^::: recall_loop\.(\w+)$", re.MULTILINE)


def test_every_requirement_is_listed_and_proven(root: Path) -> None:
    listed = re.findall(
        r"^\| ([A-Z]+-\d+) \|", (root / "docs" / "requirements.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(listed) == len(set(listed)) > 60
    proven: set[str] = set()
    for path in (root / "tests").rglob("test_*.py"):
        for claim in PROVES.findall(path.read_text(encoding="utf-8")):
            proven |= set(ID.findall(claim))
    assert proven - set(listed) == set(), "proven by a test, and not listed in docs/requirements.md"
    assert set(listed) - proven == set(), "listed in docs/requirements.md, and proven by no test"


def test_the_drawing_is_that_of_the_contracts(root: Path, pytestconfig: pytest.Config) -> None:
    drawing, drawn = root / "docs" / "floors.svg", draw(root)
    if pytestconfig.getoption("--update-snapshots"):
        drawing.write_text(drawn, encoding="utf-8")
    assert drawing.read_text(encoding="utf-8") == drawn, "not that of pyproject.toml: run `make docs`"


def test_the_reference_has_every_public_name(root: Path) -> None:
    documented = DIRECTIVE.findall((root / "docs" / "api.md").read_text(encoding="utf-8"))
    assert sorted(documented) == sorted(set(recall_loop.__all__) - {"__version__"})


def test_every_page_is_in_the_navigation(root: Path) -> None:
    navigation = (root / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = {path.name for path in (root / "docs").glob("*.md")}
    assert set(re.findall(r": ([\w-]+\.md)$", navigation, re.MULTILINE)) == pages


def test_every_file_that_a_page_names_is_there(root: Path) -> None:
    pages = [
        *(root / "docs").glob("*.md"),
        *(root / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
    ]
    named = {(page.name, path) for page in pages for path in re.findall(r"`(\w+/[\w/]+\.py)`", page.read_text("utf-8"))}
    assert named
    assert {(page, path) for page, path in named if not (root / path).is_file()} == set()
