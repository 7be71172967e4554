"""Token vectors for late interaction: where they come from, and the time that may be spent on making missing ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from recall_loop.memory.store.embed.token_vectors import PackedTokens
from recall_loop.state.errors import InvalidInputError

Neighbours = tuple[int | None, int | None]
"""Rows before and after a row in its thread; None where there is none."""


class TokenSource(Protocol):
    """Where token vectors come from; `recall_loop.memory.store.write.stored_tokens` reads them from a store."""

    def neighbours(self, rowids: Iterable[int]) -> Mapping[int, Neighbours]:
        """Return previous and next row of each row that stands in a thread; the others may be missing."""
        ...

    def tokens(self, rowids: Iterable[int]) -> Mapping[int, PackedTokens]:
        """Return the stored token vectors; rows without any are missing."""
        ...

    def texts(self, rowids: Iterable[int]) -> Mapping[int, tuple[str, str]]:
        """Return the kinds and index texts of rows."""
        ...


@dataclass
class TimeBudget:
    """Time that one request may spend on making token vectors that aren't stored.

    Attributes:
        milliseconds: what is left; 0 makes none. The last batch of 8 texts may overrun it.
    """

    milliseconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no length of time."""
        if not 0.0 <= self.milliseconds < float("inf"):
            raise InvalidInputError("rerank_budget_ms", self.milliseconds, "a number of milliseconds, at least 0")

    def spend(self, seconds: float) -> None:
        """Take `seconds` off; what is left doesn't fall below 0."""
        self.milliseconds = max(self.milliseconds - seconds * 1000.0, 0.0)
