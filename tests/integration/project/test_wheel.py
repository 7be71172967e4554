"""The wheel, taken apart: an editable install shows none of what can be missing from it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

BESIDES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that the checkout stays as it is."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    config = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {path.split("/")[0] for path in config["tool"]["setuptools"]["package-dir"].values()}
    for folder in folders:
        shutil.copytree(root / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDES:
        shutil.copy(root / name, source / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


def _names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def test_file_list(wheel: Path, snapshot: Callable[[str, str], None]) -> None:
    names = (re.sub(r"^recall_loop-[^/]+\.dist-info/", "recall_loop.dist-info/", name) for name in _names(wheel))
    snapshot("wheel.txt", "".join(f"{name}\n" for name in names))


def test_nothing_else_at_top_level(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in _names(wheel)}
    assert {re.sub(r"-.*", "", top) for top in tops} == {"recall_loop"}


def test_every_source_and_data_file_is_inside(wheel: Path, root: Path) -> None:
    """A new module or data file that pyproject.toml does not name would work only in a checkout."""
    packages = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    names = set(_names(wheel))
    files = (
        (package, folder, path.relative_to(root / folder).as_posix())
        for package, folder in packages["package-dir"].items()
        for path in (root / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    missing = [
        f"{folder}/{file}" for package, folder, file in files if f"{package.replace('.', '/')}/{file}" not in names
    ]
    assert missing == []


def test_it_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Proves: OPS-2 (the package works installed, without its sources beside it)."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import recall_loop, sys\n"
        "for name in recall_loop.__all__: getattr(recall_loop, name)\n"
        "ours = [module for name, module in sys.modules.items() if name.split('.')[0] == 'recall_loop']\n"
        "files = [module.__file__ for module in ours if module.__file__]\n"
        "assert all(file.startswith(sys.argv[1]) for file in files), files\n"
        "memory = recall_loop.Memory()\n"
        "memory.add('I moved to Bergen in May.', user_id='ada')\n"
        "assert 'Bergen' in memory.recall('Where do I live now?', user_id='ada').context\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
