"""The memory store: records in SQLite and Chroma, written by one, read by many."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Union

from pydantic import BaseModel

from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.chroma.chroma_server import ChromaServer, server_from_settings
from recall_loop.memory.store.embed.embedder_factory import as_embedder
from recall_loop.memory.store.embed.token_vectors import codec_for_embedder
from recall_loop.memory.store.encoding.indexing import now_microseconds
from recall_loop.memory.store.files.store_files import SIDECAR_FILE
from recall_loop.memory.store.forgetting import ForgetReport, check_rules, forget_records, forgettable
from recall_loop.memory.store.index.view import View
from recall_loop.memory.store.maintenance import Maintenance
from recall_loop.memory.store.record_writer import OnReject, RecordWriter, check_on_reject
from recall_loop.memory.store.recovery import opening, recovery
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.sqlite import record_queries
from recall_loop.memory.store.sqlite.attribute_index import checked_paths, declare_paths, indexed_paths
from recall_loop.memory.store.sqlite.predicate import NO_PATHS, Predicate, compile_predicate
from recall_loop.memory.store.sqlite.prepared_records import WriteOutcome, change_origin
from recall_loop.memory.store.sqlite.record_queries import RecordPage
from recall_loop.memory.store.sqlite.sqlite_store import SqliteDamagedError
from recall_loop.memory.store.sqlite.versions import DEFAULT_HISTORY_DAYS, check_history_days, read_versions
from recall_loop.memory.store.write.stored_tokens import StoredTokens
from recall_loop.state.errors import (
    InvalidInputError,
    RecordNotFoundError,
    StoreUnavailableError,
    display_value,
    validate_model,
)
from recall_loop.state.records.records import Fact, Record, RecordVersion, with_changes
from recall_loop.state.scope import DEFAULT_TENANT, Filters, RetentionRule, Scope
from recall_loop.state.types import ContentType, ScopeMode, Timestamp

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from recall_loop.memory.store.embed.embedders import Embedder
    from recall_loop.memory.store.recovery.open_files import OpenStoreFiles
    from recall_loop.memory.store.sqlite.predicate import Predicate
    from recall_loop.state.settings.settings import Settings

_LOG = logging.getLogger(__name__)
EmbedderInput = Union["Embedder", "Embeddings", str]
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

    def __init__(
        self,
        files: OpenStoreFiles,
        embedder: Embedder,
        *,
        history_days: int | None = DEFAULT_HISTORY_DAYS,
        retention: Iterable[RetentionRule] = (),
    ) -> None:
        """Take over the files that `open` or `in_memory` opened."""
        self.path, self.read_only, self.repairs = files.path, files.read_only, files.repairs
        self._session = StoreSession(files, embedder, check_history_days(history_days), tuple(retention))
        self.writer = RecordWriter(self._session)
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
    ) -> Self:
        """Open the store in folder `path`, and repair it if a crash left it in need.

        Args:
            path: the store's folder.
            embedder: an `Embedder`, an object of LangChain's `Embeddings`, or a name as the setting `embedder` takes
                it, such as "provider:model"; absent = `MiniLmEmbedder()`.
            create: make a new store if there is none.
            read_only: take no lock and never write; sees what a writer commits meanwhile.
            re_embed: if the store was made with another embedder, embed everything again.
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

        Raises:
            InvalidInputError: `url` is no address, or not that of the server which the store belongs to;
                `history_days` is out of range, a path of an attribute is none, or `retention` holds no rules.
            StoreLockedError: another writer has it open.
            EmbedderMismatchError: it was made with another embedder.
            StoreReadOnlyError: the folder can't be written.
            StoreUnavailableError: there is no store, the path is a file, or the store is damaged.
        """
        given: object = path
        if not isinstance(given, str | Path) or not str(given).strip():
            raise InvalidInputError("path", path, "the path of a folder")
        days, rules = check_history_days(history_days), check_rules(retention)
        server = ChromaServer(url) if isinstance(url, str) else url
        embedder = as_embedder(embedder)
        how = {"create": create, "read_only": read_only, "re_embed": re_embed, "move": move}
        made = partial(_opened_files, Path(path), embedder, server, indexed_attributes, **how)
        store = cls(made(), embedder, history_days=days, retention=rules)
        if not read_only and not defer:
            try:
                store._connect()
            except SqliteDamagedError:  # Chroma showed it to be damaged; opened again, it is rebuilt
                store = cls(made(), embedder, history_days=days, retention=rules)
                store._connect()
            store._sweep()
        elif read_only:
            store._session.connection.notice()
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
    ) -> Self:
        """Open the store that settings name, with their embedder and Chroma server; for the rest see `open`.

        `path` and `embedder` come before those of the settings; `move` makes the settings' server the store's own.

        Raises:
            InvalidInputError: neither `path` nor the settings name a folder.
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
        )

    def _connect(self) -> None:
        try:
            self._session.connection.connect()
        except ChromaError as error:
            self._session.degrade(error)
        except BaseException:
            self.close()
            raise

    def _sweep(self) -> None:
        if self.degraded_reason is not None:
            return
        try:
            self.maintenance.sweep()
        except StoreUnavailableError as error:  # what has expired is left out of reads all the same
            _LOG.warning("%s: the sweep is left for later: %s", self.path, error)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder holds a store. One that has lost its SQLite file counts only once it is rebuilt."""
        return (Path(path) / SIDECAR_FILE).exists()

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
        files = opening.open_in_memory(chosen)
        _declare(files, indexed_attributes)
        return cls(files, chosen, history_days=days, retention=rules)

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
        self,
        records: Iterable[Record | Mapping[str, Any]],
        *,
        tenant: str = DEFAULT_TENANT,
        actor: str | None = None,
        on_reject: OnReject = "raise",
    ) -> list[WriteOutcome]:
        """Write records, each in place of the one with its id; report on each (STORE-2, API-2).

        What a record leaves out is derived: a new id, which sorts by time; its kind (`fact` with a subject, a fact
        type, an object, sources or an end, `archival` with a label, else `message`); `created_at`, the time of the
        first write; and then, for a message of a conversation or session all of whose messages have positions, the
        next position. A `created_at` of None is an unknown time, and stays so.

        Of several records with one id the last wins. Records are committed in chunks of 1,000, and a chunk reaches
        Chroma while the next is prepared: an exception of the store or the embedder leaves earlier chunks written.

        Args:
            records: records, or mappings with their fields.
            tenant: whose they are.
            actor: who makes the change, in up to 512 characters. What a replaced record was is kept as a version
                with it (`history`).
            on_reject: `raise`: where a record can't be stored, nothing is written; all records are held in memory.
                `report`: it rejects itself only, and its outcome says why.

        Raises:
            RejectedRecordsError: records can't be stored (`on_reject="raise"`); it has every reason.
            InvalidInputError: `tenant`, `actor`, `records` or `on_reject` is unfit as a whole.
            StoreUnavailableError: Chroma or SQLite fails; see the class.
            StoreReadOnlyError: the store is open for reading only.
            EmbedderError: the embedder fails; the chunk was not written.
        """
        tenant = validate_model(Scope, {"tenant": tenant}).tenant
        if isinstance(records, Record | Mapping | str | bytes):
            raise InvalidInputError("records", records, "a list of records")
        check_on_reject(on_reject)
        return self.writer.upsert(records, tenant, on_reject, change_origin(actor))

    def delete(self, ids: Iterable[str], *, tenant: str = DEFAULT_TENANT) -> int:
        """Delete records by id with their versions; return how many there were. Neighbours' windows lose them too.

        Raises:
            InvalidInputError: `tenant` or `ids` is unfit.
            StoreUnavailableError: Chroma or SQLite fails; see the class.
            StoreReadOnlyError: the store is open for reading only.
        """
        tenant, wanted = validate_model(Scope, {"tenant": tenant}).tenant, _ids(ids)
        starts = range(0, len(wanted), recovery.CHUNK)
        return self.writer.delete(tenant, (wanted[start : start + recovery.CHUNK] for start in starts))

    def prolong(self, moments: Mapping[str, datetime], *, tenant: str = DEFAULT_TENANT) -> int:
        """Move the times at which records expire to later ones, given by id; return how many were moved.

        Records that never expire, have expired, or expire later than that anyway, stay as they are. This is much
        cheaper than writing records again, and no version is kept.

        Raises:
            InvalidInputError: `tenant` or a time is unfit.
            StoreUnavailableError: SQLite fails; nothing was written.
            StoreReadOnlyError: the store is open for reading only.
        """
        tenant = validate_model(Scope, {"tenant": tenant}).tenant
        checked = {key: validate_model(_Expiry, {"expires_at": moment}).expires_at for key, moment in moments.items()}
        return self.writer.prolong(tenant, checked) if checked else 0

    def erase(self, scope: Scope) -> int:
        """Delete every record of a scope: a user, an agent, a conversation, or a whole tenant (STORE-6).

        Their versions go with them, and neighbours' windows lose them too. `maintenance.compact` then takes the bytes
        off the disk.

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

    def forget(
        self,
        scope: Scope,
        *,
        filters: Filters | None = None,
        rule: RetentionRule | None = None,
        content_types: ContentTypeNames | None = None,
        dry_run: bool = False,
    ) -> ForgetReport:
        """Delete the records of a scope that filters and a rule name, all of which must hold; or count them (LIVE-7).

        Superseded facts go too, unless `filters.include_superseded` is False. All else is as for `erase`, which
        deletes a scope as a whole.

        Args:
            scope: whose records they are.
            filters: as of a search; at least these, a rule or content types are needed.
            rule: the same words as for retention.
            content_types: kinds of records; absent = all.
            dry_run: count only; needs no store that is open for writing.

        Raises:
            InvalidInputError: the scope is a constellation, nothing says which records, or a filter is of results.
            StoreUnavailableError: Chroma or SQLite fails; repeating the call finishes it.
            StoreReadOnlyError: the store is open for reading only.
        """
        predicate = forgettable(scope, filters, rule, content_types)
        self._session.current_database()
        return forget_records(self._session, self.writer, predicate, dry_run=dry_run)

    def update(
        self, record_id: str, changes: Mapping[str, Any], *, tenant: str = DEFAULT_TENANT, actor: str | None = None
    ) -> Record:
        """Change some fields of a record and return it; what it was is kept as a version (API-3).

        What `changes` doesn't name stays; None empties a field; `attributes`, `tags` and other lists are replaced as a
        whole. Id and kind can't change. `updated_at` becomes the time of the call unless it is given.

        Raises:
            RecordNotFoundError: the tenant has no such record.
            InvalidInputError: a field is unknown, or the record would not be valid; nothing was changed.
            StoreUnavailableError: Chroma or SQLite fails; see the class.
            StoreReadOnlyError: the store is open for reading only.
            EmbedderError: the embedder fails; nothing was changed.
        """
        origin, tenant = change_origin(actor, "updated"), validate_model(Scope, {"tenant": tenant}).tenant
        self._session.check_writable()
        with self.exclusive():
            found = self.get([record_id], scope=Scope(tenant=tenant))
            if not found:
                raise RecordNotFoundError(f"there is no record with the id {display_value(record_id)}")
            changed = with_changes(found[0], changes, datetime.now(UTC))
            if changed is not found[0]:
                self.writer.upsert([changed], tenant, "raise", origin)
        return changed

    def history(self, record_id: str, *, tenant: str = DEFAULT_TENANT) -> list[RecordVersion]:
        """Return the changes of a record, oldest first, as far back as `history_days` says (API-3).

        None for a record that was never changed, has expired or isn't there.
        """
        tenant, (wanted,) = validate_model(Scope, {"tenant": tenant}).tenant, _ids([record_id])
        return read_versions(self._session.current_database(), tenant, wanted, self._session.history_days)

    def get(self, ids: Iterable[str], *, scope: Scope) -> list[Record]:
        """Return records by id, in the order of `ids`; what is missing, out of scope or expired is left out."""
        wanted, predicate = _ids(ids), self._readable(scope)
        found = record_queries.read_by_id(self._session.sqlite, predicate, wanted)
        return [found[record_id] for record_id in wanted if record_id in found]

    def view(self, scope: Scope, filters: Filters | None = None, content_types: ContentTypeNames | None = None) -> View:
        """Return the view for searches: the records that `scope` may read, narrowed by filters and content types.

        Raises:
            InvalidInputError: an unknown content type, or none at all.
        """
        return View(self._session, self._predicate(scope, filters, content_types))

    def _predicate(
        self, scope: Scope | None, filters: Filters | None, content_types: ContentTypeNames | None
    ) -> Predicate:
        """Compile what a call may read, with the indexes of attributes that the store has now."""
        database = self._session.current_database()
        indexed = indexed_paths(database) if filters is not None and filters.attributes else NO_PATHS
        return compile_predicate(scope or Scope(), filters, content_types, indexed=indexed)

    def _readable(
        self,
        scope: Scope | None,
        filters: Filters | None = None,
        content_types: ContentTypeNames | None = None,
    ) -> Predicate:
        """Return the predicate for what may be read now: records that have expired are forgotten (LIVE-7)."""
        return self._predicate(scope, filters, content_types).unexpired(now_microseconds())

    def count(
        self, scope: Scope | None = None, filters: Filters | None = None, content_types: ContentTypeNames | None = None
    ) -> int:
        """Return how many records `scan` would give."""
        predicate = self._readable(scope, filters, content_types)
        return record_queries.count_matching(self._session.sqlite, predicate)

    def expired_ids(
        self, scope: Scope, filters: Filters | None = None, content_types: ContentTypeNames | None = None
    ) -> list[str]:
        """Return the ids of the records of a scope that have expired and still stand in the store."""
        predicate = compile_predicate(scope, filters, content_types)
        return record_queries.expired_ids(self._session.current_database(), predicate)

    def scan(
        self, scope: Scope | None = None, filters: Filters | None = None, content_types: ContentTypeNames | None = None
    ) -> Iterator[Record]:
        """Yield records in the order in which they were first written (STORE-2).

        Without filters that is everything; any filters leave superseded facts out unless they ask for them.

        Records that are written while it runs may or may not be given; the order is stable.
        """
        predicate = self._readable(scope, filters, content_types)
        return record_queries.iterate_records(self._session.sqlite, predicate)

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
        predicate = self._readable(scope, filters, content_types)
        return record_queries.read_page(self._session.sqlite, predicate, after, limit)

    def newest(
        self,
        scope: Scope | None = None,
        filters: Filters | None = None,
        content_types: ContentTypeNames | None = None,
        *,
        after: str = "",
        limit: int = record_queries.PAGE_RECORDS,
    ) -> RecordPage:
        """Return up to `limit` records, newest first, those of unknown time last; for the rest see `page`.

        Of equal times the one that was written last comes first.

        Raises:
            InvalidInputError: an unknown content type, or none at all; `after` is none of a page before.
        """
        predicate = self._readable(scope, filters, content_types)
        return record_queries.read_newest(self._session.sqlite, predicate, after, limit)

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
        predicate = self._readable(scope, filters, content_types)
        return record_queries.distinct_attribute(self._session.sqlite, predicate, path)

    def token_source(self, tenant: str) -> StoredTokens | None:
        """Return the token vectors of a tenant; None where the embedder gives none.

        Raises:
            EmbedderError: the file of their projection is missing or damaged.
        """
        codec = codec_for_embedder(self.embedder)
        return None if codec is None else StoredTokens(self._session.sqlite, tenant, codec)


def _opened_files(
    path: Path, embedder: Embedder, server: ChromaServer | None, paths: Iterable[str] | None, **how: bool
) -> OpenStoreFiles:
    files = opening.open_folder(path, embedder, server, **how)
    _declare(files, paths)
    return files


def _declare(files: OpenStoreFiles, paths: Iterable[str] | None) -> None:
    """Make and drop indexes of attributes; what fails gives the files back."""
    try:
        wanted = None if paths is None else checked_paths(paths)
        if wanted is not None and not files.read_only:
            declare_paths(files.sqlite, wanted)
    except BaseException:
        files.close()
        raise


class _Expiry(BaseModel):
    expires_at: Timestamp


def _ids(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str | bytes):
        raise InvalidInputError("ids", ids, "a list of ids")
    wanted = list(ids)
    for record_id in wanted:
        if not isinstance(record_id, str):
            raise InvalidInputError("ids", record_id, "text")
    return wanted
