"""The store's line to Chroma: opened when needed, given up when it fails, tried again at the next write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recall_loop.memory.store import opening, recovery
from recall_loop.memory.store.chroma_side import ChromaError, ChromaSide
from recall_loop.state.errors import StoreUnavailableError

if TYPE_CHECKING:
    from recall_loop.memory.store.opening import Opened


class ChromaLink:
    """Chroma beside an open sidecar.

    A writer's is opened with the store; one in memory is filled when a search first needs it; a
    reader's is opened when a search first needs it, and again when the data has changed, since it
    doesn't see what another process adds.

    Attributes:
        chroma: the open side, if any.
        reason: why the store works without it, or None.
    """

    def __init__(self, opened: Opened, lock: threading.RLock) -> None:
        self._opened = opened
        self._lock = lock
        self._version = -1
        self.chroma: ChromaSide | None = None
        self.reason: str | None = None

    def degrade(self, error: ChromaError) -> None:
        """Note that Chroma failed: reads go on without it, the next write tries it again (SEARCH-9)."""
        self.reason = str(error)

    def connect(self) -> None:
        """Open Chroma for writing and repair it. Raises `ChromaError`."""
        if self.chroma is None:
            path = self._opened.path
            folder = None if path is None else opening.chroma_folder(path)
            self.chroma = recovery.open_chroma(folder, self._opened.sidecar, probe=self._opened.unclean)
            self._opened.unclean = False

    def disconnect(self) -> None:
        """Let go of Chroma; that it can't even be closed is noted as a reason."""
        chroma, self.chroma = self.chroma, None
        if chroma is not None:
            try:
                chroma.close()
            except ChromaError as error:
                self.degrade(error)

    def refill(self, progress: recovery.Progress | None) -> None:
        """Write Chroma anew from the sidecar; in memory that waits until a search needs it.

        Raises:
            StoreUnavailableError: Chroma fails.
        """
        self.disconnect()
        path = self._opened.path
        try:
            if path is not None:
                folder = opening.chroma_folder(path)
                self.chroma = recovery.refill(folder, self._opened.sidecar, progress)
        except ChromaError as error:
            raise self._failed(error) from error
        self.reason = None

    def prepare(self) -> None:
        """Before a write: try a failed Chroma again, and finish what is pending.

        Raises:
            StoreUnavailableError: Chroma still fails; nothing is written.
        """
        try:
            if self.reason is not None:
                self.disconnect()
                self.connect()
                self.reason = None
            recovery.flush(self._opened.sidecar, self.chroma)
        except ChromaError as error:
            self.degrade(error)
            raise StoreUnavailableError(f"nothing was written: {error}") from error

    def settle(self) -> None:
        """After a commit: bring the sidecar's pending rows to Chroma.

        Raises:
            StoreUnavailableError: Chroma fails; the rows stay pending.
        """
        try:
            recovery.flush(self._opened.sidecar, self.chroma)
        except ChromaError as error:
            raise self._failed(error) from error

    def _failed(self, error: ChromaError) -> StoreUnavailableError:
        self.degrade(error)
        return StoreUnavailableError(
            f"not acknowledged: {error}. The records stand in the sidecar and reach Chroma with the next "
            "write or open; repeating the call is safe"
        )

    @contextmanager
    def searching(self) -> Iterator[ChromaSide | None]:
        """Give Chroma for a search, or None while it can't be used."""
        if self.chroma is not None and not self._opened.read_only and self.reason is None:
            yield self.chroma
            return
        with self._lock:
            if self.reason is None:
                try:
                    self._refresh()
                except ChromaError as error:
                    self.degrade(error)
            yield self.chroma if self.reason is None else None

    def _refresh(self) -> None:
        if not self._opened.read_only:
            self.connect()
            return
        version = recovery.data_version(self._opened.sidecar)
        if self.chroma is None or version != self._version:
            self.disconnect()
            self.chroma = opening.reader_chroma(self._opened.path, recovery.marker_of(self._opened.sidecar))
            self._version = version
