"""A stored row as searches see it."""

from __future__ import annotations

from functools import cached_property

from recall_loop.memory.store.encoding.indexing import kind_and_text
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDamagedError
from recall_loop.state.records.records import RECORD_ADAPTER, Record


class Row:
    """One row with its index data; costly parts are worked out when first needed.

    Attributes:
        rowid: number of the row in the store: the order of first insertion.
        kind: kind of the record.
        window: text that is indexed with the record: for a message its neighbouring turns too.
    """

    def __init__(self, rowid: int, kind: str, body: str, terms: str, window: str) -> None:
        self.rowid = rowid
        self.kind = kind
        self.window = window
        self._body, self._terms = body, terms

    @cached_property
    def record(self) -> Record:
        """The record, parsed once. Raises `SqliteDamagedError` where it is none."""
        try:
            return RECORD_ADAPTER.validate_json(self._body)
        except ValueError as error:
            raise SqliteDamagedError(f"the sidecar is damaged: what stands in row {self.rowid} is no record") from error

    @cached_property
    def index_text(self) -> str:
        """The text that the record is indexed with: author, subject or label first (STORE-7)."""
        return kind_and_text(self._body)[1]

    @cached_property
    def terms(self) -> list[str]:
        """Stems of the record's own index text, in order, with repeats."""
        return self._terms.split()

    def __repr__(self) -> str:
        return f"Row(rowid={self.rowid}, kind={self.kind!r})"
