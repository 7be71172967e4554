"""What keeps a store in order: its state, verifying, rebuilding, compacting and erasing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.chroma import chroma_server
from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.index.tenant_cache import TenantCaches
from recall_loop.memory.store.recovery import compaction, recovery, repair
from recall_loop.memory.store.recovery import rebuild as rebuilding
from recall_loop.memory.store.recovery.verify import VerificationReport, verify_open
from recall_loop.memory.store.sqlite import record_queries
from recall_loop.memory.store.sqlite.predicate import compile_predicate
from recall_loop.memory.store.write import commits, stored_tokens
from recall_loop.state.errors import InvalidInputError, StoreReadOnlyError, StoreUnavailableError
from recall_loop.state.types import ScopeMode

if TYPE_CHECKING:
    from recall_loop.memory.store.chroma.chroma_index import ChromaIndex
    from recall_loop.memory.store.embed.embedders import Embedder
    from recall_loop.memory.store.recovery.chroma_connection import ChromaConnection
    from recall_loop.memory.store.recovery.opening import OpenStoreFiles
    from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase
    from recall_loop.memory.store.write.group_commit import GroupCommit
    from recall_loop.state.scope import Scope


class Maintenance:
    """The part of `MemoryStore` that looks after the store itself."""

    path: Path | None
    embedder: Embedder
    read_only: bool
    repairs: list[str]
    sqlite: SqliteDatabase
    cache: TenantCaches
    _opened: OpenStoreFiles
    _lock: threading.RLock
    _link: ChromaConnection
    _group_commit: GroupCommit
    _marker: dict[str, str]
    _failed_write: str | None

    @property
    def writable(self) -> bool:
        """Whether writes are taken."""
        return not self.read_only

    @property
    def generation(self) -> str:
        """Id of the index generation; a new one starts when everything is embedded anew or compacted."""
        return self._marker["generation"]

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._marker["dimension"])

    @property
    def degraded_reason(self) -> str | None:
        """Why the store works with less than everything, or None (SEARCH-9).

        Without Chroma reads stay whole and exact; without the lexical index they lack its leg; after a
        write that failed they are whole, and the reason stays until a write succeeds. Answers quote it, so that it
        names no address; `degraded_detail` has Chroma's own words, and so has the log.
        """
        return self._link.reason or self.sqlite.lexical_damage or self._failed_write

    @property
    def degraded_detail(self) -> str | None:
        """The same in full, for whoever runs the store."""
        return self._link.detail if self._link.reason is not None else self.degraded_reason

    def probe(self) -> str | None:
        """Ask the store's Chroma server for a sign of life; return why the store works with less, in full, or None.

        Small scopes are searched without Chroma, so that its death would show with the next write only. With Chroma
        in a folder or in memory nothing is asked.

        Raises:
            StoreUnavailableError: the sidecar can't be read.
        """
        if chroma_server.server_from_meta(self.sqlite.meta()) is not None:
            with self._link.searching() as chroma:
                try:
                    if chroma is not None:
                        chroma.ping()
                except ChromaError as error:
                    self.degrade(error)
        return self.degraded_detail

    def note_lexical_failure(self, error: Exception) -> None:
        """Note that a search couldn't use the lexical index; the next write makes it anew (SEARCH-9)."""
        self.sqlite.lexical_damage = f"the lexical index can't be searched: {error}"

    def note_lexical_success(self) -> None:
        """Note that a search could use the lexical index again: another process has made it anew."""
        self.sqlite.lexical_damage = None

    def degrade(self, error: ChromaError) -> None:
        """Note that Chroma failed; see `degraded_reason`."""
        self._link.degrade(error)

    def exclusive(self) -> AbstractContextManager[object]:
        """Hold other threads' writes off, so that what is read stays true until it is written."""
        return self._group_commit.exclusive_writes()

    def searching(self) -> AbstractContextManager[ChromaIndex | None]:
        """Give the Chroma side for a search, or None while it can't be used."""
        return self._link.searching()

    def info(self) -> dict[str, Any]:
        """Return what the store says about itself, as plain JSON."""
        with self.sqlite.reading() as connection:
            tenants, records, pending = connection.execute(
                "SELECT count(DISTINCT tenant), count(*), total(state) FROM records"
            ).fetchone()
        known = chroma_server.server_from_meta(self.sqlite.meta())
        return {
            **self._marker,
            "schema": int(self._marker["schema"]),
            "dimension": self.dimension,
            "path": None if self.path is None else str(self.path),
            "url": None if known is None else known.url,
            "collection": None if known is None else known.collection,
            "read_only": self.read_only,
            "tenants": tenants,
            "records": records,
            "pending": int(pending),
            "degraded_reason": self.degraded_detail,
            "repairs": list(self.repairs),
        }

    def verify(self) -> VerificationReport:
        """Compare the two sides and look for damage, without changing anything; also of a store open for reading.

        Reads every record, its index rows and vectors on both sides: some seconds per 100,000 records.
        While another process writes, what is found may be of the moment.

        Raises:
            StoreUnavailableError: the store is closed.
        """
        with self._lock:
            return verify_open(self._opened, self._link)

    def rebuild(self, *, embedder: Embedder | None = None, progress: recovery.ProgressCallback | None = None) -> None:
        """Write Chroma anew from the sidecar; with another embedder embed everything anew before (STORE-5).

        A damaged lexical index is made anew too. The new Chroma is built beside the old one and takes its
        place when it is whole, so that a crash or a full disk loses nothing.

        Args:
            embedder: embedder to change to; absent = keep the vectors.
            progress: called with (records done, records in all) for each chunk.

        Raises:
            StoreUnavailableError: Chroma or SQLite fails.
            StoreReadOnlyError: the store is open for reading only.
            EmbedderError: the embedder fails; the store is as before.
        """
        with self._lock:
            self._check_writable()
            repair.repair_lexical_index(self.path, self.sqlite, self.repairs)
            if embedder is not None:
                rebuilding.re_embed(self.sqlite, embedder, progress)
                self.embedder, self._marker = embedder, recovery.marker_of(self.sqlite)
            self.cache.clear()
            self._link.refill(progress)
            self._failed_write = None

    def compact(self, *, progress: recovery.ProgressCallback | None = None) -> None:
        """Rewrite all files without what was deleted, so that no erased byte stays behind (STORE-6).

        Damaged sidecars that were kept aside are removed: they hold what has been erased since. A new
        generation starts. A crash at any point loses nothing; repeating the call finishes it. What this
        process has erased may still be in its memory, of which Chroma writes parts when it begins a new
        index: closing the store clears them, so close it once after compacting.

        Raises:
            StoreUnavailableError: Chroma or SQLite fails, or a reader keeps old pages alive.
            StoreReadOnlyError: the store is open for reading only.
        """
        with self._lock:
            self._check_writable()
            compaction.start_new_generation(self.sqlite)
            self._marker = recovery.marker_of(self.sqlite)
            self.cache.clear()
            if self.path is not None:
                self.sqlite.compact()
                compaction.remove_leftovers(self.path)
            self._link.refill(progress)

    def make_token_vectors(self, progress: recovery.ProgressCallback | None = None) -> int:
        """Make the token vectors of records that have none, and keep them from now on; return how many.

        Late interaction needs them (`SearchParams.rerank`); they take some 3 kB for a turn of a conversation.
        Every write makes them, unless they were dropped.

        Raises:
            UnsupportedOptionError: the embedder gives no token vectors.
            EmbedderError: the embedder fails; what was made until then is kept.
            StoreUnavailableError: SQLite fails; what was made until then is kept.
            StoreReadOnlyError: the store is open for reading only.
        """
        with self._lock:
            self._check_writable()
            return stored_tokens.fill_missing_tokens(self.sqlite, self.embedder, progress)

    def drop_token_vectors(self) -> None:
        """Drop all token vectors, and keep none from now on.

        Raises:
            StoreUnavailableError: SQLite fails.
            StoreReadOnlyError: the store is open for reading only.
        """
        with self._lock:
            self._check_writable()
            stored_tokens.disable_tokens(self.sqlite)

    def erase(self, scope: Scope) -> int:
        """Delete every record of a scope: a user, an agent, a conversation, or a whole tenant (STORE-6).

        Neighbours' windows lose them too. `compact` then takes the bytes off the disk.

        Returns:
            How many records there were.

        Raises:
            InvalidInputError: the scope is a constellation; name the agent alone.
            StoreUnavailableError: Chroma or SQLite fails; repeating the call finishes it.
            StoreReadOnlyError: the store is open for reading only.
        """
        if scope.mode is ScopeMode.CONSTELLATION:
            raise InvalidInputError("scope", scope.mode.value, "local: the records of other agents are not yours")
        predicate, erased = compile_predicate(scope), 0
        with self._writing():
            while True:
                found = record_queries.first_ids(self.sqlite, predicate, recovery.CHUNK)
                if not found:
                    return erased
                erased += commits.delete_records(self.sqlite, scope.tenant, found)
                self._link.flush_after_commit()

    def _check_writable(self) -> None:
        if self.read_only:
            raise StoreReadOnlyError(f"{self.path}: the store is open for reading only")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._check_writable()
            try:
                if self.sqlite.lexical_damage is not None:
                    repair.repair_lexical_index(self.path, self.sqlite, self.repairs)
                self._link.prepare()
                yield
            except StoreUnavailableError as error:
                if not isinstance(error.__cause__, ChromaError):  # of that the link keeps account
                    self._failed_write = f"the last write failed: {error}"
                raise
            self._failed_write = None

    def _current(self) -> None:
        """Before a read of a store that another process may embed anew: take over its new generation.

        Raises:
            EmbedderMismatchError: it was embedded with another embedder.
        """
        if not self.read_only:
            return
        with self.sqlite.reading() as connection:
            found = connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
        if found and found[0] != self._marker["generation"]:
            with self._lock:
                marker = recovery.marker_of(self.sqlite)
                repair.check_embedder(self.path, marker, self.embedder)
                self._marker = marker
                self.cache.clear()
