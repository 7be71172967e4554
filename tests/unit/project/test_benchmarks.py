"""Benchmark scripts start: what they import is there, and pages that name one name one that exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = sorted((ROOT / "benchmarks").rglob("*.py"))
OWN = ("recall_loop", "tests")


def _imports(script: Path) -> Iterator[tuple[str, str | None]]:
    """Yield modules and the names taken from them, also where a function imports them."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


def _top_names(script: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("script", SCRIPTS, ids=[str(path.relative_to(ROOT)) for path in SCRIPTS])
def test_what_a_benchmark_imports_is_there(script: Path) -> None:
    """Of the product, the tests' helpers and other scripts, also where the packages it measures aren't installed."""
    for module, name in _imports(script):
        if module.split(".")[0] in OWN:
            there = import_module(module)
            assert name is None or hasattr(there, name) or import_module(f"{module}.{name}")
        for folder in (script.parent, ROOT / "benchmarks"):
            if (sibling := folder / f"{module}.py").is_file():
                assert name is None or name in _top_names(sibling), f"{sibling.name}: {name}"


def test_pages_name_scripts_that_exist() -> None:
    """Wherever somebody is told which script to run, or which one made a file."""
    pages = [ROOT / name for name in ("Makefile", "README.md", "CONTRIBUTING.md")]
    pages += [path for room in ("docs", "benchmarks", "examples") for path in (ROOT / room).rglob("*.md")]
    pages += [*SCRIPTS, *(ROOT / "memory").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    named = {name for page in pages for name in re.findall(r"\bbenchmarks/[\w/]+\.py\b", page.read_text("utf-8"))}
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
