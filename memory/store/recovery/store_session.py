"""An open store as its parts share it: files, caches, the lock of its writers, and why it works with less."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple
from weakref import WeakSet

from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.files.locks import ProcessLock
from recall_loop.memory.store.index.caches.tenant_caches import TenantCaches
from recall_loop.memory.store.recovery import repair
from recall_loop.memory.store.recovery.chroma_connection import ChromaConnection
from recall_loop.memory.store.recovery.open_files import OpenStoreFiles
from recall_loop.memory.store.shared.open_schema import OpenSchema
from recall_loop.memory.store.shared.shared_chroma import SharedChroma
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
from recall_loop.memory.store.tables.changes import marker_of
from recall_loop.memory.store.tables.database import Database
from recall_loop.memory.store.write.recall_counts import RecallCounter, RecallRow, add_recalls
from recall_loop.state.errors import StoreReadOnlyError, StoreUnavailableError, StoreUnusableError
from recall_loop.state.scope import RetentionRule

_LOG = logging.getLogger(__name__)


class FailedWrite(NamedTuple):
    """Why a write failed; the detail, for operators, may name addresses and paths."""

    reason: str
    detail: str


class StoreSession:
    """An open store.

    Attributes:
        embedder: embeds texts and queries; replaced when everything is embedded again.
        lock: held for every write.
        marker: the generation marker, as last read.
        history_days: for so many days versions of changed records are kept; 0 or None = no versions.
        damaged_texts: what is said of texts that are damaged in the sidecar, once one was met.
        users: the stores over it; the last of them to be closed closes it.
        turn: held while it is closed; where others may join it, they do that in their turn.
        recalls: counts how often records are recalled; None where nobody does, as the store is open for reading only.
        failed_write: why the last write failed; None once everything has been written again, or, in PostgreSQL, where
            a failed write leaves nothing behind, once something has been read.
    """

    def __init__(
        self,
        files: OpenStoreFiles | OpenSchema,
        embedder: Embedder,
        history_days: int | None = None,
        retention: tuple[RetentionRule, ...] = (),
    ) -> None:
        self.files = files
        self.database = files.database
        self.marker = marker_of(files.database)
        self.embedder = embedder = repair.check_embedder(files.place, self.marker, embedder)
        self.cache = TenantCaches()
        self.lock = ProcessLock()
        self.connection: ChromaConnection | SharedChroma = (
            ChromaConnection(files, embedder, self.lock)
            if isinstance(files, OpenStoreFiles)
            else SharedChroma(files, embedder, self.lock)
        )
        self.history_days, self.retention = history_days, retention
        self.users: WeakSet[object] = WeakSet()
        self.turn: AbstractContextManager[object] = nullcontext()
        self.failed_write: FailedWrite | None = None
        self.damaged_texts: str | None = None
        self.recalls = None if files.read_only else RecallCounter(self.add_recalls)
        if files.path is not None or isinstance(files, OpenSchema):
            files.database.other_side = self._from_chroma
        if isinstance(files, OpenSchema):
            files.database.answered = self._forget_failed_write

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.marker["dimension"])

    @property
    def degraded_reason(self) -> str | None:
        """Why the store works with less than everything, or None; see `MemoryStore.degraded_reason`."""
        self.connection.notice()
        failed = None if self.failed_write is None else self.failed_write.reason
        return self.connection.reason or self.database.lexical_damage or failed or self.damaged_texts

    @property
    def degraded_detail(self) -> str | None:
        """The same in full, for operators."""
        reason, failed = self.degraded_reason, self.failed_write
        if self.connection.reason is not None:
            return self.connection.detail
        return failed.detail if failed is not None and reason == failed.reason else reason

    def _forget_failed_write(self) -> None:
        self.failed_write = None

    def _from_chroma(self, rowid: int) -> str | None:
        """Return a row's JSON as Chroma has it, where it is of the same commit and sound (GUARD-6)."""
        self.damaged_texts = (
            "texts are damaged in the sidecar, and Chroma's are used where they are sound: the next open for writing "
            "or `recall-loop store rebuild` repairs them"
        )
        found = self.database.fetch("SELECT key, commit_number FROM records WHERE rowid = ?", (rowid,))
        with self.connection.searching() as chroma:
            try:
                rows = chroma.get([found[0][0]]) if chroma is not None and found else []
            except ChromaError as error:
                self.connection.degrade(error)
                return None
        return next((row.record for row in rows if row.is_sound and row.commit_number == found[0][1]), None)

    def check_writable(self) -> None:
        """Check that what is written gets into the store.

        Raises:
            StoreReadOnlyError: it is open for reading only.
            StoreUnusableError: its folder is another one by now, or this process is a fork.
        """
        self.lock.check_process()
        if self.files.read_only:
            raise StoreReadOnlyError(f"{self.files.place}: the store is open for reading only")
        if not self.files.is_in_place():
            raise StoreUnusableError(
                f"{self.files.place}: the folder or its lock was removed or replaced while this store was open; "
                "open it again"
            )

    @contextmanager
    def exclusive(self, tenants: Iterable[str] | None) -> Iterator[None]:
        """Hold off what others write of some tenants, or of all (None): threads here, and other processes."""
        with self.lock:
            self.check_writable()
            with self.database.exclusive(tenants):
                self._follow_generation()
                yield

    @contextmanager
    def writing(self, tenants: Iterable[str] | None) -> Iterator[None]:
        """Hold off others' writes as `exclusive` does, after repairing what an earlier failure has left.

        The reason of a failure is kept until a write succeeds.
        """
        with self.lock:
            self.check_writable()
            try:
                if self.database.lexical_damage is not None:
                    self.repair_lexical_index()
                self.connection.prepare()
                with self.database.exclusive(tenants):
                    self._follow_generation()
                    yield
            except StoreUnavailableError as error:
                if not isinstance(error.__cause__, ChromaError):  # the connection notes those itself
                    failed = FailedWrite(*(f"the last write failed: {one}" for one in (error.told, error)))
                    if failed != self.failed_write:  # a repeated call gets the error each time, but the log has it once
                        _LOG.warning("%s: %s", self.files.place, failed.detail)
                    self.failed_write = failed
                raise
            self.failed_write = None

    def add_recalls(self, rows: Sequence[RecallRow]) -> None:
        """Add to how often records were recalled; raises as `exclusive`, and nothing is written then."""
        with self.exclusive([]), self.database.transaction() as connection:  # whoever locks all tenants is alone
            add_recalls(connection, rows)

    def repair_lexical_index(self) -> None:
        """Rebuild the lexical index if it is damaged, and note the repair."""
        if isinstance(self.database, SqliteDatabase):
            repair.repair_lexical_index(self.files.path, self.database, self.files.repairs)

    def reset(self, embedder: Embedder | None = None) -> None:
        """Take over a new generation, with another embedder if one is given, and forget everything in memory."""
        self.embedder = self.connection.embedder = embedder or self.embedder
        self.marker = marker_of(self.database)
        self.cache.clear()

    def current_database(self) -> Database:
        """Return the database for a read, after taking over the generation that another process may have started.

        Raises:
            EmbedderMismatchError: another process has embedded the store with another embedder.
        """
        self.lock.check_process()
        self._follow_generation()
        return self.database

    def _follow_generation(self) -> None:
        # Only this process begins a generation of a folder that it writes.
        shared = self.files.read_only or isinstance(self.files, OpenSchema)
        if shared and self.database.generation() != self.marker["generation"]:
            with self.lock:
                self.reset(repair.check_embedder(self.files.place, marker_of(self.database), self.embedder))

    def close(self) -> None:
        """Close files and give the lock back; a second call does nothing, nor does one of a forked child."""
        if self.lock.is_foreign:
            return
        if self.recalls is not None:
            self.recalls.close()
        with self.lock:
            self.connection.disconnect()
            self.cache.clear()
            self.files.close()
