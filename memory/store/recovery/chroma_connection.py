"""The store's connection to Chroma: opened when needed, given up on failure, tried again later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from typing_extensions import override

from recall_loop.memory.store.chroma import chroma_files
from recall_loop.memory.store.chroma.chroma_index import ChromaError, ChromaIndex
from recall_loop.memory.store.chroma.chroma_link import ChromaLink
from recall_loop.memory.store.chroma.chroma_rows import ChromaRow
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.files.store_files import CHROMA_DATABASE
from recall_loop.memory.store.recovery import chroma_opening, chroma_rebuild, recovery
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles
from recall_loop.memory.store.tables.changes import marker_of
from recall_loop.memory.store.write.group_commit import mark_applied
from recall_loop.state.errors import StoreUnavailableError


class ChromaConnection(ChromaLink):
    """Chroma beside an open sidecar.

    A writer's is opened with the store; one in memory is filled when a search first needs it; a
    reader's is opened when a search first needs it, and again when the data has changed, since it
    doesn't see what another process adds.
    """

    def __init__(self, files: OpenStoreFiles, embedder: Embedder, lock: ProcessLock) -> None:
        self._files = files
        self.embedder = embedder
        self._lock = lock
        super().__init__()
        self._seen: object = None
        self._looked_at: object = None

    def connect(self, *, may_rebuild: bool = True) -> None:
        """Open Chroma for writing and repair it; refused without `may_rebuild` where it would have to be rebuilt."""
        if self.chroma is None:
            self.chroma = chroma_opening.open_chroma(self._files, self.embedder, may_rebuild=may_rebuild)
            self._files.unclean_shutdown = self._files.files_changed = False

    def rebuild(self, progress: recovery.ProgressCallback | None) -> None:
        """Rebuild Chroma from the sidecar; in memory that waits until a search needs it.

        Raises:
            StoreUnavailableError: Chroma fails; the old one stays.
        """
        self.disconnect()
        try:
            if self._files.path is not None:
                self.chroma = chroma_rebuild.rebuild_chroma(self._files, self.embedder, progress)
                self._files.unclean_shutdown = self._files.files_changed = False
        except ChromaError as error:
            self.degrade(error)
            raise StoreUnavailableError(f"Chroma was not rebuilt and is unchanged: {error}") from error
        self.reason = None

    def notice(self) -> None:
        """Note that Chroma's folder was removed or replaced, or is there again (SEARCH-9).

        Small scopes are searched without Chroma, so that its loss would show with the next write only. A look at one
        file is enough, unless that has changed.
        """
        location = self._files.chroma_folder
        if location is None:
            return
        identity = chroma_files.database_identity(location)
        if not self._files.read_only:
            if self.chroma is not None and self.reason is None and identity != self.chroma.identity:
                self.degrade(ChromaError("Chroma's files were removed or replaced while the store was open"))
        elif self._looked_at != (identity,):
            self._looked_at = (identity,)
            self._look(location)

    def _look(self, location: Path) -> None:
        """Note whether a reader's Chroma is the sidecar's other half; it is opened only if its files don't tell."""
        with self._lock:
            try:
                if not self._files.is_chroma_as_left() or self.reason is not None:
                    self._refresh()
                    if self.chroma is not None and not recovery.may_be_equal(self._files.database, self.chroma):
                        raise ChromaError(
                            "Chroma holds other records than the sidecar; open the store once for writing"
                        )
                if not (location / CHROMA_DATABASE).exists():
                    raise ChromaError("Chroma's files are missing; open the store once for writing")
                self.reason = None
            except ChromaError as error:
                self.degrade(error)

    def prepare(self) -> None:
        """Before a write: open a Chroma that was left unopened, retry a failed one, and send pending rows.

        Raises:
            StoreUnavailableError: Chroma still fails; nothing is written.
        """
        try:
            if self.reason is None:
                self._checked()
            unopened = self.chroma is None and self._files.path is not None
            if unopened or self.reason is not None:
                self.disconnect()
                self.connect()
                self.reason = None
            recovery.flush_pending(self._files.database, self.chroma)
        except ChromaError as error:
            self.degrade(error)
            raise StoreUnavailableError(f"nothing was written: {error}") from error

    def flush_after_commit(self) -> None:
        """After a commit: bring the sidecar's pending rows to Chroma."""
        try:
            if self.chroma is not None:
                self.chroma.ensure_available()
            recovery.flush_pending(self._files.database, self.chroma)
        except ChromaError as error:
            raise self._unacknowledged(error) from error

    def deliver(self, rows: Sequence[ChromaRow]) -> None:
        """After a commit: bring its rows to Chroma, and note those that are still the same as applied.

        Raises:
            StoreUnavailableError: Chroma fails; the rows stay pending.
        """
        try:
            if self.chroma is not None and rows:
                self.chroma.upsert(rows)
        except ChromaError as error:
            raise self._unacknowledged(error) from error
        mark_applied(self._files.database, rows)

    def _unacknowledged(self, error: ChromaError) -> StoreUnavailableError:
        self.degrade(error)
        return StoreUnavailableError(
            f"not acknowledged: {error}. The records are in the sidecar and reach Chroma with the next "
            "write or open; repeating the call is safe"
        )

    @override
    @contextmanager
    def searching(self) -> Iterator[ChromaIndex | None]:
        self._lock.check_process()
        if self.chroma is not None and self.reason is None and not self._files.read_only:
            yield self._checked()
            return
        if self.failed_recently:
            yield None
            return
        with self._lock:
            try:
                self._refresh()
                self.reason = None
            except ChromaError as error:
                self.degrade(error)
            yield self.chroma if self.reason is None else None

    def unsent_rowids(self, tenant: str) -> list[int]:
        """Return none: a write to a folder is acknowledged when Chroma has it."""
        del tenant
        return []

    def _checked(self) -> ChromaIndex | None:
        """Return the open side, or None after noting that its folder was taken away."""
        try:
            if self.chroma is not None:
                self.chroma.ensure_available()
        except ChromaError as error:
            self.degrade(error)
            return None
        return self.chroma

    def _refresh(self) -> None:
        if self.reason is not None:
            self.disconnect()
        if self._files.read_only:
            self._refresh_reader()
        else:
            # A search doesn't wait for thousands of rows to be written; in memory it has to.
            self.connect(may_rebuild=self._files.path is None)

    def _refresh_reader(self) -> None:
        database, location = self._files.database, self._files.chroma_location()
        marker = marker_of(database)
        version: object = None
        if isinstance(location, Path):  # a server shows what another process adds, a folder doesn't
            version = recovery.data_version(database), chroma_files.database_identity(location)
        seen = (location, marker, version)
        if self.chroma is None or seen != self._seen:
            self.disconnect()
            if self._files.is_left_to_tables():
                return
            self.chroma = chroma_opening.open_reader_chroma(self._files, location, marker)
            self._seen = seen
