"""The Chroma server of a shared store: filled from the outbox by a thread of each writing process (HOST-2, HOST-3)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex
from recall_loop.memory.store.shared import outbox
from recall_loop.memory.store.shared.open_schema import collections_of
from recall_loop.state.errors import StoreUnavailableError

if TYPE_CHECKING:
    from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
    from recall_loop.memory.store.embed.embedders import Embedder
    from recall_loop.memory.store.files.process_lock import ProcessLock
    from recall_loop.memory.store.shared.open_schema import OpenSchema

# What another process left behind, or failed to send, is looked for so often.
_POLL_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_CLOSE_SECONDS = 10.0
_MOST_UNSENT = 1_000
_LOG = logging.getLogger(__name__)


class SharedChroma:
    """Chroma beside a shared store: `ChromaConnection` for PostgreSQL.

    A commit in PostgreSQL is the acknowledgement of a write, so that nothing here fails one. Without a server there
    is nothing to connect to, and every vector is compared.

    Attributes:
        embedder: kept for the interface; nothing is taken over from Chroma.
        chroma: the open collection, if any.
        reason: why the store works without it, or None; names no address.
        detail: the same in Chroma's own words, for operators.
    """

    def __init__(
        self, schema: OpenSchema, embedder: Embedder, lock: ProcessLock, marker: Callable[[], Mapping[str, str]]
    ) -> None:
        self._schema, self.embedder, self._lock, self._marker = schema, embedder, lock, marker
        self._location = schema.chroma_location()
        self._failed_at = 0.0
        self._wake, self._stop = threading.Event(), threading.Event()
        self._sender: threading.Thread | None = None
        self._opening = threading.Lock()
        self.chroma: ChromaIndex | None = None
        self.reason: str | None = None
        self.detail: str | None = None

    def degrade(self, error: ChromaError) -> None:
        """Note that Chroma failed: reads go on without it until it is tried again (SEARCH-9)."""
        previous, self.detail = self.detail if self.reason is not None else None, str(error)
        self.reason = self.detail.partition(": ")[0]
        if self.detail != previous:
            _LOG.warning("the store works without Chroma: %s", self.detail)
        self._failed_at = time.monotonic()

    def connect(self, *, may_rebuild: bool = True) -> None:
        """Begin to send what is pending, whoever wrote it; never fails, as a commit needs no Chroma."""
        del may_rebuild
        if self._location is not None and self._sender is None:
            self._sender = threading.Thread(target=self._send_forever, name="recall-loop-outbox", daemon=True)
            self._sender.start()

    def disconnect(self) -> None:
        """Send what is pending, for some seconds at most, and close the client."""
        sender, self._sender = self._sender, None
        if sender is not None:
            self._stop.set()
            self._wake.set()
            sender.join(_CLOSE_SECONDS)
        self._close_client()

    def _close_client(self) -> None:
        chroma, self.chroma = self.chroma, None
        if chroma is not None:
            try:
                chroma.close()
            except ChromaError as error:
                self.degrade(error)

    def rebuild(self, progress: Callable[[int, int], None] | None) -> None:
        """Fill the collection of the store's generation anew, and wait for it.

        Raises:
            StoreUnavailableError: Chroma fails; what is still to be sent stays pending.
        """
        if self._location is None:
            return
        self._close_client()
        with self._schema.database.transaction() as connection:
            outbox.send_all_again(connection)
        total = sum(outbox.count_waiting(self._schema.database))
        try:
            while self._send_once():
                if progress is not None:
                    progress(total - sum(outbox.count_waiting(self._schema.database)), total)
            self._drop_outdated()
        except ChromaError as error:
            self.degrade(error)
            raise StoreUnavailableError(f"Chroma was not rebuilt: {error}") from error
        self.reason = None

    def _drop_outdated(self) -> None:
        """Delete collections of earlier generations of this store."""
        chroma = self._opened()
        chroma.drop_others(collections_of(self._schema.marker()))

    def notice(self) -> None:
        """Do nothing: a server's loss shows with the next request to it."""

    def prepare(self) -> None:
        """Do nothing: a write needs no Chroma."""

    def flush_after_commit(self) -> None:
        """After a commit: have its rows sent."""
        self._wake.set()

    def deliver(self, rows: Sequence[ChromaRow]) -> None:
        """After a commit: have its rows sent."""
        if rows:
            self._wake.set()

    @contextmanager
    def searching(self) -> Iterator[ChromaIndex | None]:
        """Give Chroma for a search, or None without a server or while it can't be used."""
        self._lock.check_process()
        if self._location is None or (self.reason is not None and self._is_recent_failure()):
            yield None
            return
        try:
            chroma = self._opened()
        except ChromaError as error:
            self.degrade(error)
            yield None
            return
        yield chroma

    def unsent_rowids(self, tenant: str) -> list[int] | None:
        """Return rows of a tenant that are still to be sent; None for more than a thousand, or without a server."""
        if self._location is None:
            return None
        found = outbox.pending_rowids(self._schema.database, tenant, _MOST_UNSENT + 1)
        return None if len(found) > _MOST_UNSENT else found

    def _is_recent_failure(self) -> bool:
        return time.monotonic() - self._failed_at < _RETRY_SECONDS

    def _opened(self) -> ChromaIndex:
        """Return the collection of the store's generation, which is made where there is none.

        Raises:
            ChromaError: the server can't be reached.
        """
        with self._opening:
            # As it is now: another process may have begun a generation, or moved the vectors to another server.
            self._location = self._schema.chroma_location()
            if self._location is None:
                raise ChromaError("Chroma has no address")
            if self.chroma is None or self.chroma.location != self._location:
                self._close_client()
                marker = self._schema.marker()
                chroma = ChromaIndex(self._location, marker, create=not self._schema.read_only)
                if not chroma.marker() and not self._schema.read_only:  # what is still to be sent, the outbox knows
                    chroma.mark_complete(marker)
                self.chroma = chroma
            if self.reason is not None:
                self.chroma.ping()
                self.reason = None
            return self.chroma

    def _send_forever(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_POLL_SECONDS if self.reason is None else _RETRY_SECONDS)
            self._wake.clear()
            self._send_pending()

    def _send_pending(self) -> None:
        try:
            while self._send_once():
                pass
            if self.reason is not None:
                self._opened()
        except ChromaError as error:
            self.degrade(error)
        except Exception as error:  # noqa: BLE001  # the thread goes on, whatever it met
            if not self._stop.is_set():
                _LOG.warning("the outbox can't be sent: %s: %s", type(error).__name__, error)

    def _send_once(self) -> bool:
        """Send a thousand pending rows; return whether there were any.

        Raises:
            ChromaError: Chroma fails; the rows stay pending.
            StoreUnavailableError: PostgreSQL fails.
        """
        database = self._schema.database
        claimed = outbox.claim(database)
        if not claimed:
            return False
        try:
            chroma = self._opened()
            back = outbox.written_again(database, [key for key, _ in claimed.deleted])
            chroma.delete([key for key, _ in claimed.deleted if key not in back])
            chroma.upsert(claimed.rows)
            outbox.settle(database, claimed)
        except (ChromaError, StoreUnavailableError):
            outbox.give_up(database, claimed)
            raise
        return True
