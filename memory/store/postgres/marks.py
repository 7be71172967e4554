"""Statements of the tables, and their parameters, in PostgreSQL's notation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from recall_loop.memory.store.tables.database import AMONG, AMONG_ROWS, UNINDEXED, Parameters

# Literals and quoted names are unchanged; `::` is a cast, not the name of a mark.
_PARTS = re.compile(
    rf"(?P<literal>'(?:[^']|'')*'|\"[^\"]*\")|(?P<rows>(?:NOT )?{re.escape(AMONG_ROWS)})"
    rf"|(?P<texts>(?:NOT )?{re.escape(AMONG)})|(?P<mark>\?)|(?<!:):(?P<name>[a-z_]+)|(?P<percent>%)"
)
_BRACES = str.maketrans("[]", "{}")


@dataclass(frozen=True, slots=True)
class MarkedStatement:
    """A statement with psycopg's marks.

    Attributes:
        text: the statement.
        rows: places of parameters that are sets of rowids.
        texts: places of parameters that are sets of texts.
    """

    text: bytes
    rows: frozenset[int]
    texts: frozenset[int]

    def parameters(self, given: Parameters) -> Parameters:
        """Return parameters as PostgreSQL takes them: sets as arrays, texts without NUL characters."""
        if isinstance(given, Mapping):
            return {name: _storable(value) for name, value in given.items()}
        return [self._parameter(place, value) for place, value in enumerate(given)]

    def _parameter(self, place: int, value: Any) -> Any:
        if place in self.rows:
            return value.translate(_BRACES)
        if place in self.texts:
            return [text for text in json.loads(value) if "\x00" not in text and _is_encodable(text)]
        return _storable(value)


@lru_cache(maxsize=1024)
def with_marks(statement: str) -> MarkedStatement:
    """Return a statement whose marks `?` and `:name` are psycopg's, and whose sets of values are arrays.

    An array is looked up in an index; of a set that a function returns PostgreSQL doesn't know that it is small. What
    keeps SQLite from an index would keep PostgreSQL from its statistics.
    """
    places: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        kind, text = str(found.lastgroup), found[0]
        if kind in ("mark", "rows", "texts"):
            places.append(kind)
        if kind == "literal":
            return text.replace("%", "%%")
        if kind in ("rows", "texts"):
            return "<> ALL (%s)" if text.startswith("NOT") else "= ANY (%s)"
        return {"mark": "%s", "percent": "%%"}.get(kind) or f"%({found['name']})s"

    marked = _PARTS.sub(replaced, statement.replace(UNINDEXED, ""))
    sets = [frozenset(at for at, kind in enumerate(places) if kind == wanted) for wanted in ("rows", "texts")]
    return MarkedStatement(marked.encode(), *sets)


def without_nul(text: str) -> str:
    """Return a text with U+FFFD for each NUL character, which PostgreSQL's texts can't hold; JSON keeps it escaped."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def _is_encodable(text: str) -> bool:
    """Return whether PostgreSQL can store a text: otherwise it isn't any record's id."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _storable(value: Any) -> Any:
    return without_nul(value) if isinstance(value, str) else value
