"""An open Chroma, and why a store works without it: what the connections of all stores share (SEARCH-9)."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex

# Searches retry a failed Chroma after this long.
RETRY_SECONDS = 5.0
_log = logging.getLogger(__name__)


class ChromaLink(ABC):
    """A Chroma that may fail, and be tried again.

    Attributes:
        chroma: the open side, if any.
        reason: why the store works without it, or None; names neither path nor address.
        detail: the same in Chroma's own words, for operators.
    """

    def __init__(self) -> None:
        self._failed_at = 0.0
        self.chroma: ChromaIndex | None = None
        self.reason: str | None = None
        self.detail: str | None = None

    def degrade(self, error: ChromaError) -> None:
        """Note that Chroma failed: reads go on without it until it is tried again."""
        previous, self.detail = self.detail if self.reason is not None else None, str(error)
        self.reason = self.detail.partition(": ")[0]
        if self.detail != previous:
            _log.warning("the store works without Chroma: %s", self.detail)
        self._failed_at = time.monotonic()

    @abstractmethod
    def searching(self) -> AbstractContextManager[ChromaIndex | None]:
        """Give Chroma for a search, or None while it can't be used."""

    @abstractmethod
    def unsent_rowids(self, tenant: str) -> list[int] | None:
        """Return rows of a tenant that Chroma may not have yet; None where they are too many to be compared."""

    @property
    def failed_recently(self) -> bool:
        """Whether a search had better not try it again yet."""
        return self.reason is not None and time.monotonic() - self._failed_at < RETRY_SECONDS

    def disconnect(self) -> None:
        """Close Chroma; a failure to close it is noted as a reason."""
        chroma, self.chroma = self.chroma, None
        if chroma is not None:
            try:
                chroma.close()
            except ChromaError as error:
                self.degrade(error)
