"""Data files that ship beside the modules that use them: word lists, tables, weights."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from typing import Any


def packaged_text(package: str, name: str) -> str:
    """Return the text of a file in a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def packaged_table(package: str, name: str) -> dict[str, Any]:
    """Return the contents of a TOML or JSON file in a package."""
    text = packaged_text(package, name)
    return tomllib.loads(text) if name.endswith(".toml") else dict(json.loads(text))
