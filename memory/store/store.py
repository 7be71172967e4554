"""The memory store: records in SQLite and Chroma, written by one, read by many."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Union

from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.chroma.chroma_server import ChromaServer, server_from_settings
from recall_loop.memory.store.embed.embedder_factory import as_embedder
from recall_loop.memory.store.files.store_files import SIDECAR_FILE
from recall_loop.memory.store.files.store_place import checked_place
from recall_loop.memory.store.forgetting import check_rules
from recall_loop.memory.store.maintenance import Maintenance
from recall_loop.memory.store.record_writer import RecordWriter
from recall_loop.memory.store.recovery import opening
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.store_writing import StoreWriting
from recall_loop.memory.store.tables.database import DatabaseDamagedError
from recall_loop.memory.store.tables.versions import DEFAULT_HISTORY_DAYS, check_history_days
from recall_loop.state.errors import StoreUnavailableError
from recall_loop.state.scope import RetentionRule

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from recall_loop.memory.store.embed.embedders import Embedder
    from recall_loop.memory.store.recovery.open_files import OpenStoreFiles
    from recall_loop.memory.store.recovery.recovery import ProgressCallback
    from recall_loop.memory.store.shared.open_schema import OpenSchema
    from recall_loop.state.settings.settings import Settings

_LOG = logging.getLogger(__name__)
EmbedderInput = Union["Embedder", "Embeddings", str]


class MemoryStore(StoreWriting):
    """Facts, archival entries, messages and trajectories of many tenants.

    A write is acknowledged (its call returns) when it stands in the SQLite sidecar and in Chroma;
    from then on it survives the death of the process (STORE-4). The sidecar is the commit point:
    readers see all of a chunk of at most 1,000 records, or nothing of it. A write that raises
    `StoreUnavailableError` because Chroma failed is not acknowledged: its chunk stands in the
    sidecar, is readable, and reaches Chroma with the next write or open; repeating it is safe.

    Every method may be called from several threads. Writes take turns; those that wait at the same time share a
    transaction, and each still gets its own answer (`group_commit`).

    Attributes:
        path: the store's folder; None elsewhere.
        location: what `open` takes to open the same store in another process: its folder, or its address with the
            password; None in memory.
        read_only: whether it was opened for reading only.
        repairs: the repairs that opening and writing made, in words; empty most of the time.
        maintenance: verifying, rebuilding, compacting, token vectors, and facts about the store as a whole.
    """

    def __init__(
        self,
        files: OpenStoreFiles | OpenSchema,
        embedder: Embedder,
        *,
        history_days: int | None = DEFAULT_HISTORY_DAYS,
        retention: Iterable[RetentionRule] = (),
    ) -> None:
        """Take over the files that `open` or `in_memory` opened."""
        self.path, self.read_only, self.repairs = files.path, files.read_only, files.repairs
        self.location = files.location
        session = StoreSession(files, embedder, check_history_days(history_days), tuple(retention))
        super().__init__(session, RecordWriter(session))
        self.maintenance = Maintenance(self._session)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        embedder: EmbedderInput | None = None,
        create: bool = True,
        read_only: bool = False,
        re_embed: bool = False,
        url: str | ChromaServer | None = None,
        move: bool = False,
        defer: bool = False,
        history_days: int | None = DEFAULT_HISTORY_DAYS,
        indexed_attributes: Iterable[str] | None = None,
        retention: Iterable[RetentionRule] = (),
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Open the store in folder `path`, and repair it if a crash left it in need; or one in PostgreSQL (HOST-1).

        Args:
            path: the store's folder, or the address of a PostgreSQL database, `postgresql://user@host/database`, with
                `?schema=name` for another schema than `recall_loop`. Any number of processes may open that for writing.
            embedder: an `Embedder`, an object of LangChain's `Embeddings`, or a name as the setting `embedder` takes
                it, such as "provider:model"; absent = `MiniLmEmbedder()`.
            create: make a new store if there is none.
            read_only: take no lock and never write; sees what a writer commits meanwhile.
            re_embed: if the store was made with another embedder, embed everything again. Chunks are committed as they
                come, and the old vectors stay until the end: if it is cut off, the store is as before, and the next
                such open with the same embedder goes on. Records that changed meanwhile are embedded again.
            url: address of the Chroma server that holds the vectors; the folder then holds the rest. A
                store remembers its server, so that only the first open needs it.
            move: make `url` the store's server from now on, whatever it was.
            defer: leave Chroma unopened and unrepaired until it is needed, for a rebuild that comes next.
            history_days: for so many days (up to 36,500) each change of a record is kept as a version, which
                `history` gives; 0 = no versions, None = no new ones.
            retention: rules that name records which sweeps erase. An open for writing begins with a sweep
                (`maintenance.sweep`).
            indexed_attributes: paths of attributes that filters look up in an index, at most 32: others lose theirs,
                and a new one is made from the records that are there. None = those that the store has; a reader
                always uses those.
            progress: called while `re_embed` embeds, with (records embedded, records in all): at once, with those that
                a run that was cut off has left, and after each chunk.

        Raises:
            InvalidInputError: `path` is neither a folder nor an address that can be read; `url` is no address, or not
                that of the server which the store belongs to;
                `history_days` is out of range, a path of an attribute is none, or `retention` holds no rules.
            StoreLockedError: another writer has it open.
            EmbedderMismatchError: it was made with another embedder.
            StoreReadOnlyError: the folder can't be written.
            StoreUnavailableError: there is no store, the path is a file, the store is damaged, or PostgreSQL can't be
                reached.
            UnsupportedOptionError: an address is given, and the extra `postgres` isn't installed, or it is one of
                another database.
        """
        days, rules = check_history_days(history_days), check_rules(retention)
        server, chosen = ChromaServer(url) if isinstance(url, str) else url, as_embedder(embedder)
        how = opening.OpenOptions(server, create, read_only, re_embed, move, indexed_attributes, progress)
        place = checked_place(path)
        store = cls(opening.open_place(place, chosen, how), chosen, history_days=days, retention=rules)
        if read_only:
            store._session.connection.notice()
        elif not defer:
            try:
                store._connect()
            except DatabaseDamagedError:  # Chroma showed it to be damaged; opened again, it is rebuilt
                store = cls(opening.open_place(place, chosen, how), chosen, history_days=days, retention=rules)
                store._connect()
            store._sweep()
        return store

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        path: str | Path | None = None,
        *,
        embedder: EmbedderInput | None = None,
        create: bool = True,
        read_only: bool = False,
        re_embed: bool = False,
        move: bool = False,
        defer: bool = False,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Open the store that settings name, with their embedder and Chroma server; for the rest see `open`.

        `path` and `embedder` come before those of the settings; `move` makes the settings' server the store's own.

        Raises:
            InvalidInputError: neither `path` nor the settings name a place.
        """
        return cls.open(
            path or settings.store_path or "",
            embedder=as_embedder(embedder, settings),
            create=create,
            read_only=read_only,
            re_embed=re_embed,
            url=server_from_settings(settings),
            move=move,
            defer=defer,
            history_days=settings.history_days,
            indexed_attributes=settings.indexed_attributes,
            retention=settings.retention,
            progress=progress,
        )

    def _connect(self) -> None:
        try:
            self._session.connection.connect()
        except ChromaError as error:
            self._session.connection.degrade(error)
        except BaseException:
            self.close()
            raise

    def _sweep(self) -> None:
        if self.degraded_reason is not None:
            return
        try:
            self.maintenance.sweep()
        except StoreUnavailableError as error:  # what has expired is left out of reads all the same
            _LOG.warning("%s: the sweep is left for later: %s", self._session.files.place, error)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder or an address holds a store.

        One that has lost its SQLite file counts only once it is rebuilt.

        Raises:
            InvalidInputError: it is neither.
            StoreUnavailableError: the address can't be reached.
        """
        place = checked_place(path)
        if isinstance(place, Path):
            return (place / SIDECAR_FILE).exists()
        return opening.schema_exists(place)

    @classmethod
    def in_memory(
        cls,
        *,
        embedder: EmbedderInput | None = None,
        history_days: int | None = DEFAULT_HISTORY_DAYS,
        indexed_attributes: Iterable[str] | None = None,
        retention: Iterable[RetentionRule] = (),
    ) -> Self:
        """Return a store that lives in this process's memory only and has the whole API; for the arguments see `open`.

        Raises:
            InvalidInputError: `history_days` is out of range, a path of an attribute is none, or `retention` holds no
                rules.
        """
        rules = check_rules(retention)
        days, chosen = check_history_days(history_days), as_embedder(embedder)
        files = opening.open_in_memory(chosen, attributes=indexed_attributes)
        return cls(files, chosen, history_days=days, retention=rules)

    @classmethod
    def in_memory_from_settings(cls, settings: Settings, *, embedder: EmbedderInput | None = None) -> Self:
        """Return a store in memory, with the embedder, history, index and retention that settings name."""
        return cls.in_memory(
            embedder=as_embedder(embedder, settings),
            history_days=settings.history_days,
            indexed_attributes=settings.indexed_attributes,
            retention=settings.retention,
        )

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Close files and give the lock back; a second call does nothing."""
        self._session.close()

    @property
    def writable(self) -> bool:
        """Whether writes are taken."""
        return not self.read_only

    @property
    def embedder(self) -> Embedder:
        """The embedder that texts and queries need."""
        return self._session.embedder

    @property
    def generation(self) -> str:
        """Id of the index generation; a new one starts when everything is embedded again or compacted."""
        return self._session.marker["generation"]

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._session.dimension

    @property
    def degraded_reason(self) -> str | None:
        """Why the store works with less than everything, or None (SEARCH-9).

        Without Chroma reads stay complete and exact; without the lexical index they lack its retriever; after a
        write that failed they are complete, and the reason stays until a write succeeds. Answers quote it, so that it
        names no address; `degraded_detail` has Chroma's own words, and so has the log.
        """
        return self._session.degraded_reason

    @property
    def degraded_detail(self) -> str | None:
        """The same in full, for operators."""
        return self._session.degraded_detail
