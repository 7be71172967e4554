"""Maintenance of a store: information, verification, rebuilding, compaction, token vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recall_loop.memory.store import backup, forgetting
from recall_loop.memory.store.chroma import chroma_server
from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.forgetting import SweepReport
from recall_loop.memory.store.index.caches.row_limits import INDEXED_ROWS, compared_rows
from recall_loop.memory.store.index.record_relations import TenantSize, tenant_sizes
from recall_loop.memory.store.record_writer import RecordWriter
from recall_loop.memory.store.recovery import rebuilding
from recall_loop.memory.store.recovery.recovery import ProgressCallback
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.recovery.verify import VerificationReport, verify_open
from recall_loop.memory.store.shared.open_schema import OpenSchema
from recall_loop.memory.store.tables.database import set_meta
from recall_loop.memory.store.write import stored_tokens
from recall_loop.memory.store.write.recall_counts import RecallRow
from recall_loop.memory.store.write.staged_vectors import StagedVectors
from recall_loop.state.run.patience import waiting_at_most

# Callers such as load balancers wait for it.
_PROBE_SECONDS = 2.0
# Separates the callers' notes from the store's own.
_NOTE = "note-"


class Maintenance:
    """Maintains an open store as a whole: `MemoryStore.maintenance`.

    Its methods raise `StoreUnavailableError` where Chroma or the tables fail, and what changes the store
    `StoreReadOnlyError` where that is open for reading only.
    """

    def __init__(self, session: StoreSession) -> None:
        self._session = session

    def probe(self) -> str | None:
        """Ask the store's Chroma server for a sign of life; return why the store works with less, in full, or None.

        Small scopes are searched without Chroma, so that its death would show with the next write only. With Chroma
        in a folder or in memory nothing is asked.

        Raises:
            StoreUnavailableError: the tables can't be read; PostgreSQL isn't waited for longer than two seconds.
        """
        with waiting_at_most(_PROBE_SECONDS):
            known = chroma_server.server_from_meta(self._session.database.meta())
        if known is not None:
            with self._session.connection.searching() as chroma:
                try:
                    if chroma is not None:
                        chroma.ping()
                except ChromaError as error:
                    self._session.connection.degrade(error)
        return self._session.degraded_detail

    def info(self) -> dict[str, Any]:
        """Return facts about the store as plain JSON.

        `vector_search` says what answers: scopes of up to `rows_compared_in_memory` records, in tenants of up to
        `rows_of_such_a_tenant`, the store's own memory; larger ones Chroma's index (`chroma`) or, while the store is
        degraded or has no Chroma, a comparison of all vectors from the tables (`sqlite`, `postgresql`).
        """
        session = self._session
        query = "SELECT count(DISTINCT tenant), count(*), coalesce(sum(state), 0) FROM records"
        tenants, records, pending = session.database.fetch(query)[0]
        known = chroma_server.server_from_meta(session.database.meta())
        shared = isinstance(session.files, OpenSchema)
        backend = "postgresql" if shared else "sqlite"
        has_index = (
            known is not None if isinstance(session.files, OpenSchema) else not session.files.is_left_to_tables()
        )
        return {
            **session.marker,
            "schema": int(session.marker["schema"]),
            "dimension": session.dimension,
            "path": session.files.place if shared or session.files.path else None,
            "url": None if known is None else known.url,
            "collection": None if known is None else known.collection,
            "read_only": session.files.read_only,
            "tenants": tenants,
            "records": records,
            "pending": 0 if shared and known is None else int(pending),
            "vector_search": {
                "rows_compared_in_memory": compared_rows(session.database),
                "rows_of_such_a_tenant": INDEXED_ROWS,
                "larger_scopes": "chroma" if has_index and session.degraded_reason is None else backend,
            },
            "degraded_reason": session.degraded_detail,
            "repairs": list(session.files.repairs),
        }

    @property
    def url(self) -> str | None:
        """Address of the Chroma server that holds the store's vectors; None without one."""
        known = chroma_server.server_from_meta(self._session.database.meta())
        return None if known is None else known.url

    def size(self) -> int:
        """Return the bytes on disk, of a folder's files or a schema's tables; 0 in memory."""
        return self._session.files.size()

    def tenants(self) -> list[TenantSize]:
        """Return every tenant that has records, by name, with how many these are and their bytes; for operators.

        Reads the text of all records: some tenths of a second per 100,000.
        """
        return tenant_sizes(self._session.current_database())

    def note(self, name: str) -> str | None:
        """Return what was noted under a name with `set_note`, or None."""
        return self._session.database.meta().get(_NOTE + name)

    def set_note(self, name: str, text: str | None) -> None:
        """Note something beside the records, on disk when this returns, or forget it (None); it has no tenant."""
        with self._session.database.transaction() as connection:
            if text is None:
                connection.execute("DELETE FROM meta WHERE key = ?", (_NOTE + name,))
            else:
                set_meta(connection, {_NOTE + name: text})

    def verify(self) -> VerificationReport:
        """Compare SQLite with Chroma and look for damage, without changing anything; also of a store open for reading.

        Reads every record, its index rows and vectors on both sides: some seconds per 100,000 records.
        While another process writes, findings may be of the moment.
        """
        with self._session.lock:
            return verify_open(self._session.files, self._session.connection)

    def rebuild(
        self,
        *,
        embedder: Embedder | None = None,
        progress: ProgressCallback | None = None,
        embedding: ProgressCallback | None = None,
    ) -> None:
        """Rebuild Chroma from the sidecar; with an embedder embed everything again before (STORE-5, OPEN-3).

        Embedding is committed in chunks beside the old vectors, which stay in use until all new ones are there; others
        may write meanwhile. If it is cut off, the store is as before, and the next call with an embedder of the same
        fingerprint, or the next `MemoryStore.open` with `re_embed`, goes on: it embeds what is new, has changed, or
        was not embedded yet. Another embedder starts over.

        A damaged lexical index is rebuilt too. The new Chroma is built beside the old one and takes its
        place when it is complete, so that a crash or a full disk loses nothing.

        Args:
            embedder: embedder to change to; absent = keep the vectors.
            progress: called with (records done, records in all) for each chunk.
            embedding: the same for the embedding; its first call, before anything is embedded, has the records that a
                run that was cut off has left embedded. Absent = `progress` is called for it too.

        Raises:
            EmbedderError: the embedder fails; the store is as before.
        """
        session, embedding = self._session, embedding or progress
        if embedder is not None:
            session.check_writable()
            StagedVectors(session.current_database(), embedder).fill(embedding)
        with session.exclusive(None):
            session.repair_lexical_index()
            if embedder is not None:
                rebuilding.re_embed(session.database, embedder, embedding)
            session.reset(embedder)
            session.connection.rebuild(progress)
            session.failed_write = session.damaged_texts = None

    def compact(self, *, progress: ProgressCallback | None = None) -> None:
        """Rewrite all files without the deleted records, so that no erased byte stays behind (STORE-6).

        Damaged sidecars that were kept aside are removed, as is Chroma's folder once a server has the vectors: they
        hold records that have been erased since. A new generation starts. A crash at any point loses nothing;
        repeating the call finishes it. Records that this process has erased may still be in its memory, of which
        Chroma writes parts when it begins a new index: closing the store clears them, so close it once after
        compacting.

        Raises:
            StoreUnavailableError: Chroma or SQLite fails, or a reader keeps old pages alive.
        """
        session = self._session
        with session.exclusive(None):
            rebuilding.start_new_generation(session.database)
            session.reset()
            if session.files.path is not None or isinstance(session.files, OpenSchema):
                session.database.compact()
            if session.files.path is not None:
                rebuilding.remove_leftovers(session.files.path, on_server=self.url is not None)
            session.connection.rebuild(progress)

    def backup(self, target: str | Path) -> VerificationReport:
        """Copy the whole store to a new folder as it is at one moment, while any process goes on writing to it (OPS-8).

        The copy holds all that was acknowledged before the call: records, versions, counts of recalls, what was
        erased. It is a store, which its first open for writing completes: it makes Chroma's side from the tables,
        which readers answer from until then. The copy is verified before it takes its name; an interrupted one leaves
        at most a folder beside it, `….unfinished`, which the next one removes. Reads and writes all tables twice. The
        copy has no byte of what was erased before, whether or not the store was compacted.

        Args:
            target: a folder that doesn't exist yet.

        Returns:
            What `verify` says of the copy.

        Raises:
            InvalidInputError: `target` exists, or is no folder's path.
            UnsupportedOptionError: the store is in PostgreSQL, which has tools of its own.
            StoreLockedError: another backup to the same folder is under way.
            StoreUnavailableError: the store is damaged and has to be repaired first, or can't be read.
            OSError: the target can't be written.
        """
        return backup.back_up(self._session, target)

    def sweep(self) -> SweepReport:
        """Erase what has expired, what the store's rules of retention name, and versions older than it keeps them.

        Nothing else is erased. An open for writing does the same, and so does the service every few minutes; searches
        leave expired records out in any case. As for other deletions, `compact` takes the bytes off the disk.
        """
        return forgetting.sweep(self._session, RecordWriter(self._session), self._session.retention)

    def add_recalls(self, rows: Sequence[RecallRow]) -> None:
        """Add to how often records were recalled what another process has counted; what isn't there is left out."""
        self._session.add_recalls(rows)

    def make_token_vectors(self, progress: ProgressCallback | None = None) -> int:
        """Make the token vectors of records that have none, and keep them from now on; return how many.

        Late interaction needs them (`SearchParams.rerank`); they take some 3 kB for a turn of a conversation.
        Every write makes them, unless they were dropped.

        Raises:
            UnsupportedOptionError: the embedder has no token vectors.
            EmbedderError: the embedder fails; those made until then are kept.
        """
        with self._session.exclusive(None):
            return stored_tokens.fill_missing_tokens(self._session.database, self._session.embedder, progress)

    def drop_token_vectors(self) -> None:
        """Drop all token vectors, and keep none from now on."""
        with self._session.exclusive(None):
            stored_tokens.disable_tokens(self._session.database)
