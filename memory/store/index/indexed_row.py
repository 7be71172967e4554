"""A row of the store with what it is indexed with."""

from __future__ import annotations

from recall_loop.memory.store.encoding.indexing import count_terms, index_text
from recall_loop.memory.store.tables.database import DatabaseDamagedError
from recall_loop.state.records.records import RECORD_ADAPTER, Record


class Row:
    """One row with its index data; costly parts are worked out when first needed.

    Attributes:
        rowid: number of the row in the store: the order of first insertion.
        kind: kind of the record.
        window: text that is indexed with the record: for a message its neighbouring turns too.
        term_count: number of stems of the record's own index text, with repeats.
        characters: characters that the row holds in memory.
    """

    def __init__(self, rowid: int, kind: str, body: str, terms: str, window: str) -> None:
        self.rowid = rowid
        self.kind = kind
        self.window = window
        self.term_count = count_terms(terms)
        self.characters = len(body) + len(window)
        self._content: str | Record = body

    @property
    def record(self) -> Record:
        """The record, parsed once. Raises `DatabaseDamagedError` where it is none."""
        content = self._content
        if isinstance(content, str):
            try:
                content = RECORD_ADAPTER.validate_json(content)
            except ValueError as error:
                raise DatabaseDamagedError(
                    f"the sidecar is damaged: row {self.rowid} does not hold a record"
                ) from error
            self._content = content  # instead of in its JSON: a long text needn't be stored twice
        return content

    @property
    def index_text(self) -> str:
        """The text that the record is indexed with: author, subject or label first (STORE-7)."""
        fields = self.record.model_dump(include={"text", "role", "author", "subject", "label"})
        return index_text({**fields, "kind": self.kind})

    def __repr__(self) -> str:
        return f"Row(rowid={self.rowid}, kind={self.kind!r})"
