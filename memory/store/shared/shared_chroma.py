"""The Chroma server of a shared store: filled from the outbox by a thread of each writing process (HOST-2, HOST-3)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from recall_loop.memory.store.chroma import chroma_link
from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex
from recall_loop.memory.store.chroma.chroma_link import ChromaLink
from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.shared import outbox
from recall_loop.memory.store.shared.open_schema import OpenSchema, collections_of
from recall_loop.memory.store.tables.changes import marker_of
from recall_loop.state.errors import StoreUnavailableError

# Interval of checking for rows that another process left or failed to send.
_POLL_SECONDS = 1.0
_CLOSE_SECONDS = 10.0
_MAX_UNSENT = 1_000
_LOG = logging.getLogger(__name__)


class SharedChroma(ChromaLink):
    """Chroma beside a shared store: `ChromaConnection` for PostgreSQL.

    A commit in PostgreSQL is the acknowledgement of a write, so that nothing here fails one. Without a server there
    is nothing to connect to, and every vector is compared.
    As nothing is taken over from Chroma, the embedder isn't used.
    """

    def __init__(self, schema: OpenSchema, embedder: Embedder, lock: ProcessLock) -> None:
        super().__init__()
        self._schema, self.embedder, self._lock = schema, embedder, lock
        self._location = schema.chroma_location()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._sender: threading.Thread | None = None
        self._opening = threading.Lock()
        self._retiring = threading.Lock()
        self._retired: ChromaIndex | None = None

    def connect(self, *, may_rebuild: bool = True) -> None:
        """Begin to send pending rows of all processes; never fails, as a commit needs no Chroma."""
        del may_rebuild
        if self._location is not None and self._sender is None:
            self._sender = threading.Thread(target=self._send_forever, name="recall-loop-outbox", daemon=True)
            self._sender.start()

    def disconnect(self) -> None:
        """Send pending rows, for a few seconds at most, and close the client."""
        sender, self._sender = self._sender, None
        if sender is not None:
            self._stop.set()
            self._wake.set()
            sender.join(_CLOSE_SECONDS)
        super().disconnect()
        self.chroma, self._retired = self._retired, None
        super().disconnect()

    def _retire(self) -> None:
        """Let go of the client; whoever works with it ends undisturbed, as it is closed when the next one goes."""
        with self._retiring:
            if self.chroma is not None:
                retired, self._retired, self.chroma = self._retired, self.chroma, None
                if retired is not None:
                    with suppress(ChromaError):
                        retired.close()

    def rebuild(self, progress: Callable[[int, int], None] | None) -> None:
        """Refill the collection of the store's generation, and wait for it.

        Raises:
            StoreUnavailableError: Chroma fails; what is still to be sent stays pending.
        """
        if self._location is None:
            return
        self._retire()
        with self._schema.database.transaction() as connection:
            outbox.send_all_again(connection)
        total = sum(outbox.count_waiting(self._schema.database))
        try:
            while self._send_once():
                if progress is not None:
                    progress(total - sum(outbox.count_waiting(self._schema.database)), total)
            self._opened().drop_others(collections_of(marker_of(self._schema.database)))  # of earlier generations
        except ChromaError as error:
            self.degrade(error)
            raise StoreUnavailableError(f"Chroma was not rebuilt: {error}") from error
        self.reason = None

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
        if self._location is None or self.failed_recently:
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
        found = outbox.pending_rowids(self._schema.database, tenant, _MAX_UNSENT + 1)
        return None if len(found) > _MAX_UNSENT else found

    def _opened(self) -> ChromaIndex:
        """Return the collection of the store's generation, which is made where there is none."""
        with self._opening:
            # The current state: another process may have begun a generation, or moved the vectors to another server.
            self._location = self._schema.chroma_location()
            if self._location is None:
                raise ChromaError("Chroma has no address")
            if self.chroma is None or self.chroma.location != self._location:
                self._retire()
                marker = marker_of(self._schema.database)
                chroma = ChromaIndex(self._location, marker, create=not self._schema.read_only)
                if not chroma.marker() and not self._schema.read_only:  # the outbox knows which rows are still unsent
                    chroma.mark_complete(marker)
                self.chroma = chroma
            if self.reason is not None:
                self.chroma.ping()
                self.reason = None
            return self.chroma

    def _send_forever(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_POLL_SECONDS if self.reason is None else chroma_link.RETRY_SECONDS)
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
        except Exception as error:  # noqa: BLE001  # the thread continues whatever happened
            if not self._stop.is_set():
                _LOG.warning("the outbox can't be sent: %s: %s", type(error).__name__, error)

    def _send_once(self) -> bool:
        """Send a thousand pending rows; return whether there were any."""
        database = self._schema.database
        database.generation()
        claimed = outbox.claim(database)
        if not claimed:
            return False
        try:
            chroma = self._opened()
            chroma.delete(claimed.gone)
            outbox.keep(database, claimed)
            chroma.upsert(claimed.rows)
            outbox.settle(database, claimed)
        except (ChromaError, StoreUnavailableError):
            outbox.release(database, claimed)
            raise
        return True
