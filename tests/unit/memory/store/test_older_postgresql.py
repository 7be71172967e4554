"""SQL that earlier versions of PostgreSQL take too; the tests run on one version of it only."""

from __future__ import annotations

import re

_OPENING = re.compile(r"\bFROM \(|\bJOIN \(")


def _after_its_bracket(text: str, opening: int) -> str:
    """Return what follows the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[at + 1 :]
    return ""


def test_every_subquery_in_from_has_a_name(root):
    """PostgreSQL before 16 takes none without. Proves: HOST-1."""
    tables = root / "memory" / "store"
    texts = {path: path.read_text("utf-8") for path in tables.rglob("*.py") if path.parent != tables / "sqlite"}
    nameless = [
        f"{path.name}: {text[found.start() : found.start() + 60]}"
        for path, text in texts.items()
        for found in _OPENING.finditer(text)
        if not re.match(r"\s+(AS\s+)?[a-z_]", _after_its_bracket(text, found.end() - 1))
    ]
    assert len(texts) > 100 and nameless == []
