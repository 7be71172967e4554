"""The memory store: records in SQLite and Chroma, written by one, read by many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.chroma.chroma_server import ChromaServer, server_from_settings
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.embed.token_vectors import codec_for_embedder
from recall_loop.memory.store.files.store_files import SIDECAR_FILE
from recall_loop.memory.store.index.view import View
from recall_loop.memory.store.maintenance import Maintenance
from recall_loop.memory.store.record_writer import RecordWriter
from recall_loop.memory.store.recovery import opening, recovery
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.sqlite import record_queries
from recall_loop.memory.store.sqlite.predicate import compile_predicate
from recall_loop.memory.store.sqlite.prepared_records import WriteOutcome
from recall_loop.memory.store.sqlite.record_queries import RecordPage
from recall_loop.memory.store.write.stored_tokens import StoredTokens
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Fact, Record
from recall_loop.state.scope import DEFAULT_TENANT, Filters, Scope
from recall_loop.state.types import ContentType, ScopeMode

if TYPE_CHECKING:
    from recall_loop.memory.store.embed.embedders import Embedder
    from recall_loop.memory.store.recovery.open_files import OpenStoreFiles
    from recall_loop.state.settings.settings import Settings

ContentTypeNames = Iterable[ContentType | str]


class MemoryStore:
    """Facts, archival entries, messages and trajectories of many tenants.

    A write is acknowledged (its call returns) when it stands in the SQLite sidecar and in Chroma;
    from then on it survives the death of the process (STORE-4). The sidecar is the commit point:
    readers see all of a chunk of at most 1,000 records, or nothing of it. A write that raises
    `StoreUnavailableError` because Chroma failed is not acknowledged: its chunk stands in the
    sidecar, is readable, and reaches Chroma with the next write or open; repeating it is safe.

    Every method may be called from several threads. Writes take turns; those that wait at the same time share a
    transaction, and each still gets its own answer (`group_commit`).

    Attributes:
        path: the store's folder; None in memory.
        read_only: whether it was opened for reading only.
        repairs: the repairs that opening and writing made, in words; empty most of the time.
        maintenance: verifying, rebuilding, compacting, token vectors, and facts about the store as a whole.
        writer: commits records; its `context_windows` is for measurements.
    """

    def __init__(self, files: OpenStoreFiles, embedder: Embedder) -> None:
        """Take over the files that `open` or `in_memory` opened."""
        self.path, self.read_only, self.repairs = files.path, files.read_only, files.repairs
        self._session = StoreSession(files, embedder)
        self.writer = RecordWriter(self._session)
        self.maintenance = Maintenance(self._session)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        embedder: Embedder | None = None,
        create: bool = True,
        read_only: bool = False,
        re_embed: bool = False,
        url: str | ChromaServer | None = None,
        move: bool = False,
        defer: bool = False,
    ) -> Self:
        """Open the store in folder `path`, and repair it if a crash left it in need.

        Args:
            path: the store's folder.
            embedder: absent = `MiniLmEmbedder()`.
            create: make a new store if there is none.
            read_only: take no lock and never write; sees what a writer commits meanwhile.
            re_embed: if the store was made with another embedder, embed everything again.
            url: address of the Chroma server that holds the vectors; the folder then holds the rest. A
                store remembers its server, so that only the first open needs it.
            move: make `url` the store's server from now on, whatever it was.
            defer: leave Chroma unopened and unrepaired until it is needed, for a rebuild that comes next.

        Raises:
            InvalidInputError: `url` is no address, or not that of the server which the store belongs to.
            StoreLockedError: another writer has it open.
            EmbedderMismatchError: it was made with another embedder.
            StoreReadOnlyError: the folder can't be written.
            StoreUnavailableError: there is no store, the path is a file, or the store is damaged.
        """
        given: object = path
        if not isinstance(given, str | Path) or not str(given).strip():
            raise InvalidInputError("path", path, "the path of a folder")
        server = ChromaServer(url) if isinstance(url, str) else url
        embedder = embedder or make_embedder()
        files = opening.open_folder(
            Path(path), embedder, server, create=create, read_only=read_only, re_embed=re_embed, move=move
        )
        store = cls(files, embedder)
        if not read_only and not defer:
            store._connect()
        return store

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        path: str | Path | None = None,
        *,
        embedder: Embedder | None = None,
        create: bool = True,
        read_only: bool = False,
        re_embed: bool = False,
        move: bool = False,
        defer: bool = False,
    ) -> Self:
        """Open the store that settings name, with their embedder and Chroma server; for the rest see `open`.

        `path` and `embedder` come before those of the settings; `move` makes the settings' server the store's own.

        Raises:
            InvalidInputError: neither `path` nor the settings name a folder.
        """
        return cls.open(
            path or settings.store_path or "",
            embedder=embedder or make_embedder(settings),
            create=create,
            read_only=read_only,
            re_embed=re_embed,
            url=server_from_settings(settings),
            move=move,
            defer=defer,
        )

    def _connect(self) -> None:
        try:
            self._session.connection.connect()
        except ChromaError as error:
            self._session.degrade(error)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder holds a store. One that has lost its SQLite file counts only once it is rebuilt."""
        return (Path(path) / SIDECAR_FILE).exists()

    @classmethod
    def in_memory(cls, *, embedder: Embedder | None = None) -> Self:
        """Return a store that lives in this process's memory only and has the whole API."""
        embedder = embedder or make_embedder()
        return cls(opening.open_in_memory(embedder), embedder)

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

    def exclusive(self) -> AbstractContextManager[object]:
        """Hold other threads' writes off, so that what is read stays true until it is written."""
        return self.writer.group_commit.exclusive_writes()

    def upsert(
        self, records: Iterable[Record | Mapping[str, Any]], *, tenant: str = DEFAULT_TENANT
    ) -> list[WriteOutcome]:
        """Write records, each in place of the one with its id; report on each (STORE-2).

        A bad record rejects itself only. Of several records with one id the last wins. Records are
        taken and committed in chunks of 1,000, and a chunk reaches Chroma while the next is prepared: an exception
        leaves earlier chunks written.

        Raises:
            InvalidInputError: `tenant` or `records` is unfit as a whole.
            StoreUnavailableError: Chroma or SQLite fails; see the class.
            StoreReadOnlyError: the store is open for reading only.
            EmbedderError: the embedder fails; the chunk was not written.
        """
        tenant = validate_model(Scope, {"tenant": tenant}).tenant
        if isinstance(records, Record | Mapping | str | bytes):
            raise InvalidInputError("records", records, "a list of records")
        return self.writer.upsert(records, tenant)

    def delete(self, ids: Iterable[str], *, tenant: str = DEFAULT_TENANT) -> int:
        """Delete records by id; return how many there were. Neighbours' windows lose them too.

        Raises:
            InvalidInputError: `tenant` or `ids` is unfit.
            StoreUnavailableError: Chroma or SQLite fails; see the class.
            StoreReadOnlyError: the store is open for reading only.
        """
        tenant, wanted = validate_model(Scope, {"tenant": tenant}).tenant, _ids(ids)
        starts = range(0, len(wanted), recovery.CHUNK)
        return self.writer.delete(tenant, (wanted[start : start + recovery.CHUNK] for start in starts))

    def erase(self, scope: Scope) -> int:
        """Delete every record of a scope: a user, an agent, a conversation, or a whole tenant (STORE-6).

        Neighbours' windows lose them too. `maintenance.compact` then takes the bytes off the disk.

        Returns:
            How many records there were.

        Raises:
            InvalidInputError: the scope is a constellation; name the agent alone.
            StoreUnavailableError: Chroma or SQLite fails; repeating the call finishes it.
            StoreReadOnlyError: the store is open for reading only.
        """
        if scope.mode is ScopeMode.CONSTELLATION:
            raise InvalidInputError("scope", scope.mode.value, "local: the records of other agents are not yours")
        rest = partial(record_queries.first_ids, self._session.sqlite, compile_predicate(scope), recovery.CHUNK)
        return self.writer.delete(scope.tenant, iter(rest, []))

    def get(self, ids: Iterable[str], *, scope: Scope) -> list[Record]:
        """Return records by id, in the order of `ids`; what is missing or out of scope is left out."""
        wanted = _ids(ids)
        found = record_queries.read_by_id(self._session.current_database(), compile_predicate(scope), wanted)
        return [found[record_id] for record_id in wanted if record_id in found]

    def view(self, scope: Scope, filters: Filters | None = None, content_types: ContentTypeNames | None = None) -> View:
        """Return the view for searches: the records that `scope` may read, narrowed by filters and content types.

        Raises:
            InvalidInputError: an unknown content type, or none at all.
        """
        self._session.current_database()
        return View(self._session, compile_predicate(scope, filters, content_types))

    def count(
        self, scope: Scope | None = None, filters: Filters | None = None, content_types: ContentTypeNames | None = None
    ) -> int:
        """Return how many records `scan` would give."""
        predicate = compile_predicate(scope or Scope(), filters, content_types)
        return record_queries.count_matching(self._session.current_database(), predicate)

    def scan(
        self, scope: Scope | None = None, filters: Filters | None = None, content_types: ContentTypeNames | None = None
    ) -> Iterator[Record]:
        """Yield records in the order in which they were first written (STORE-2).

        Without filters that is everything; any filters leave superseded facts out unless they ask for them.

        Records that are written while it runs may or may not be given; the order is stable.
        """
        predicate = compile_predicate(scope or Scope(), filters, content_types)
        return record_queries.iterate_records(self._session.current_database(), predicate)

    def page(
        self,
        scope: Scope | None = None,
        filters: Filters | None = None,
        content_types: ContentTypeNames | None = None,
        *,
        after: str = "",
        limit: int = record_queries.PAGE_RECORDS,
    ) -> RecordPage:
        """Return up to `limit` records whose ids follow `after`, in the order of their ids (STORE-2).

        For callers who come back for the next page: what is written or deleted in between shifts nothing. A page
        ends early at 16 MiB of records. See `RecordPage.after`.

        Raises:
            InvalidInputError: an unknown content type, or none at all.
        """
        return record_queries.read_page(
            self._session.current_database(), compile_predicate(scope or Scope(), filters, content_types), after, limit
        )

    def tenants(self) -> list[str]:
        """Return the tenants that have records, sorted."""
        return record_queries.list_tenants(self._session.current_database())

    def facts_by_key(self, tenant: str, keys: Iterable[str]) -> dict[str, list[Fact]]:
        """Return all facts of a tenant with the given supersession keys, in the order in which they were first written.

        Superseded facts are among them. `encoding.indexing.supersession_key` gives a fact's key.
        """
        return record_queries.facts_by_key(self._session.current_database(), tenant, keys)

    def superseded_sources(self, scope: Scope, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return the records that superseded facts of a scope were drawn from, each with its successor and the time.

        Only facts that `ids` superseded count, directly or through others: the value is one of `ids`, and the time
        (ISO 8601) from which the content of the record doesn't hold any more.
        """
        return record_queries.superseded_sources(self._session.current_database(), scope, ids)

    def next_position(self, scope: Scope, session: str | None) -> int | None:
        """Return the position after the last message of a scope's session; None where messages there have no position.

        Messages with a position come before all that have none.
        """
        return record_queries.next_position(self._session.current_database(), scope, session)

    def distinct_attribute(
        self,
        path: str,
        scope: Scope,
        filters: Filters | None = None,
        content_types: ContentTypeNames | None = None,
    ) -> list[Any]:
        """Return the distinct values of an attribute, such as `item.namespace`; records without it are left out."""
        predicate = compile_predicate(scope, filters, content_types)
        return record_queries.distinct_attribute(self._session.current_database(), predicate, path)

    def token_source(self, tenant: str) -> StoredTokens | None:
        """Return the token vectors of a tenant; None where the embedder gives none.

        Raises:
            EmbedderError: the file of their projection is missing or damaged.
        """
        codec = codec_for_embedder(self.embedder)
        return None if codec is None else StoredTokens(self._session.sqlite, tenant, codec)


def _ids(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str | bytes):
        raise InvalidInputError("ids", ids, "a list of ids")
    wanted = list(ids)
    for record_id in wanted:
        if not isinstance(record_id, str):
            raise InvalidInputError("ids", record_id, "text")
    return wanted
