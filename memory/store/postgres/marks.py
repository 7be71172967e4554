"""Statements of the tables in PostgreSQL's notation of marks."""

from __future__ import annotations

import re
from functools import lru_cache

# Literals and quoted names are left as they are; `::` is a cast, no name of a mark.
_PARTS = re.compile(r"('(?:[^']|'')*'|\"[^\"]*\")|(\?)|(?<!:):([a-z_]+)|(%)")


@lru_cache(maxsize=1024)
def with_marks(statement: str) -> str:
    """Return a statement whose marks `?` and `:name` are psycopg's."""
    return _PARTS.sub(_replaced, statement)


def _replaced(found: re.Match[str]) -> str:
    literal, mark, name, _ = found.groups()
    if literal is not None:
        return literal.replace("%", "%%")
    if mark is not None:
        return "%s"
    return "%%" if name is None else f"%({name})s"


def without_nul(text: str) -> str:
    """Return a text with U+FFFD for each NUL character, which PostgreSQL's texts can't hold; JSON keeps it escaped."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text
