"""A stored row as searches see it."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from recall_loop.memory.store.indexing import decode
from recall_loop.state.records import RECORD_ADAPTER, Record
from recall_loop.state.types import Role
from recall_loop.text.tokens import stems


class Row:
    """One row with its index data; what costs time is worked out when first asked for.

    Attributes:
        rowid: number of the row in the store; also `seq`, the order of first insertion.
        kind: kind of the record.
        place: opaque id of the record's user, conversation and session.
        window: text that is indexed with the record: for a message its neighbouring turns too.
    """

    def __init__(
        self, rowid: int, kind: str, place: str, body: str, terms: str, window: str, window_terms: str
    ) -> None:
        self.rowid = rowid
        self.kind = kind
        self.place = place
        self.window = window
        self._body, self._terms, self._window_terms = body, terms, window_terms

    @property
    def seq(self) -> int:
        """Order of first insertion."""
        return self.rowid

    @cached_property
    def record(self) -> Record:
        """The record, parsed once."""
        return RECORD_ADAPTER.validate_json(self._body)

    @cached_property
    def terms(self) -> list[str]:
        """Stems of the record's own index text, in order, with repeats."""
        return self._terms.split()

    @cached_property
    def window_terms(self) -> list[str]:
        """Stems of the window: previous turn, the record twice, next turn."""
        return [decode(token) for token in self._window_terms.split()]

    @cached_property
    def author_stems(self) -> frozenset[str]:
        """Stems of the author's name, or of a fact's subject; empty where there is none."""
        return frozenset(stems(self.record.author or self.record.subject or ""))

    @cached_property
    def session_place(self) -> str | None:
        """`place`, or None where the record belongs to no session."""
        return self.place if self.record.session is not None else None

    @cached_property
    def is_plain(self) -> bool:
        """Whether the record is all content: no tool response, and no blocks."""
        return self.record.role is not Role.TOOL and not self.record.blocks

    @cached_property
    def term_counts(self) -> Counter[str]:
        """How often each own stem occurs."""
        return Counter(self.terms)

    @cached_property
    def window_counts(self) -> Counter[str]:
        """How often each stem of the window occurs."""
        return Counter(self.window_terms)

    def __repr__(self) -> str:
        return f"Row(rowid={self.rowid}, kind={self.kind!r})"
