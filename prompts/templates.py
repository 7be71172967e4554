"""Reading and filling the Markdown files of this folder."""

from __future__ import annotations

import string
from functools import lru_cache
from importlib.resources import files

from recall_loop.state.types import Strategy


@lru_cache
def _read(name: str) -> str:
    return files("recall_loop.prompts").joinpath(f"{name}.md").read_text("utf-8")


def variables(name: str) -> frozenset[str]:
    """Return the variables that the template `name` declares in braces."""
    return frozenset(field for _, field, _, _ in string.Formatter().parse(_read(name)) if field)


def render(name: str, **values: str) -> str:
    """Fill the template `name`.

    Raises:
        ValueError: a variable is missing or unknown.
    """
    if set(values) != variables(name):
        raise ValueError(f"template {name}: got {sorted(values)}, takes {sorted(variables(name))}")
    return _read(name).format_map(values)


@lru_cache
def strategy_instructions() -> dict[Strategy, str]:
    """Return the instruction of every strategy (LOOP-7), for a language model and for people."""
    sections = [part.partition("\n") for part in _read("strategies").split("# ") if part.strip()]
    return {Strategy(head.strip()): body.strip() for head, _, body in sections}
