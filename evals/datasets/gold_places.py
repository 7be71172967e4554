"""Which kinds of documents hold the gold evidence of questions, loaded or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class GoldPlaces:
    """Notes documents while a data set is read; a document holds its own id, and those that it was drawn from.

    Args:
        wanted: collection and gold ids of each question.

    Attributes:
        kinds: by collection and gold id the kinds of the documents that hold it; those that none holds are left out.
    """

    def __init__(self, wanted: Iterable[tuple[str, Iterable[str]]]) -> None:
        self._wanted = {(collection, name) for collection, names in wanted for name in names}
        self.kinds: dict[tuple[str, str], set[str]] = {}

    def note(self, collection: str, fields: Mapping[str, Any], kind: str) -> None:
        """Note a document that has text."""
        sources = fields.get("source_ids")
        for name in (fields.get("id"), *(sources if isinstance(sources, list | tuple) else ())):
            if isinstance(name, str) and (collection, name) in self._wanted:
                self.kinds.setdefault((collection, name), set()).add(kind)
