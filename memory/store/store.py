"""The memory store: records in SQLite and Chroma, written by one, read by many."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Self, Union

from recall_loop.memory.store.chroma.chroma_server import ChromaServer, server_from_settings
from recall_loop.memory.store.embed.embedder_factory import as_embedder
from recall_loop.memory.store.embed.embedders import Embedder, embedder_of_version
from recall_loop.memory.store.files.store_place import checked_place
from recall_loop.memory.store.forgetting import check_rules
from recall_loop.memory.store.open_store import OpenStore
from recall_loop.memory.store.open_writers import check_wait_seconds, open_as
from recall_loop.memory.store.recovery.opening import OpenOptions, open_in_memory, store_exists
from recall_loop.memory.store.recovery.recovery import ProgressCallback
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.tables.attribute_index import checked_paths, indexed_paths
from recall_loop.memory.store.tables.versions import DEFAULT_HISTORY_DAYS, check_history_days
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import RetentionRule

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from recall_loop.state.settings.settings import Settings

EmbedderInput = Union["Embedder", "Embeddings", str]


class MemoryStore(OpenStore):
    """Facts, archival entries, messages and trajectories of many tenants.

    A write is acknowledged (its call returns) when it is in the SQLite sidecar and in Chroma; from then on it survives
    a crash of the process (STORE-4). The sidecar is the commit point: readers see a chunk of at most 1,000 records
    completely or not at all. A write that raises `StoreUnavailableError` because Chroma failed is not acknowledged: its
    chunk is in the sidecar, is readable, and reaches Chroma with the next write or open; repeating it is safe.

    Every method may be called from several threads. Writes take turns; those waiting at the same time share a
    transaction, and each gets its own answer (`group_commit`).

    Raises:
        StoreUnavailableError: from every method, where SQLite or PostgreSQL fails; from those that write, where Chroma
            does.
        StoreReadOnlyError: from those that write, where the store is open for reading only.
        InvalidInputError: from those that take it: a tenant, actor, id, time or content type that is unfit, or no
            content type at all.
    """

    opened_with: Settings | None = None
    """The settings with which it was opened, if it was opened by any."""

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
        history_days: int | EllipsisType | None = ...,
        indexed_attributes: Iterable[str] | None = None,
        retention: Iterable[RetentionRule] | None = None,
        wait_seconds: float = 0,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Open the store in folder `path`, repairing it after a crash if necessary; or one in PostgreSQL (HOST-1).

        A folder has one writer. Within the process that has it open for writing, further opens share it, and the last
        one to be closed closes it; they must agree on the embedder and every option that is given. `re_embed`, `move`
        and `defer` need the folder exclusively. A relative path or a link is resolved once, by this call.

        Args:
            path: the store's folder, in which `~` is the user's home, or the address of a PostgreSQL database,
                `postgresql://user@host/database`, with `?schema=name` for another schema than `recall_loop`. Any number
                of processes may open that for writing.
            embedder: an `Embedder`, a LangChain `Embeddings` object, or a name as in the setting `embedder`, such as
                "provider:model"; absent = `MiniLmEmbedder()`.
            create: make a new store if there is none.
            read_only: take no lock and never write; sees what a writer commits meanwhile.
            re_embed: if the store was made with another embedder, embed everything again. Chunks are committed as they
                come, and the old vectors stay until the end: if interrupted, the store is as before, and the next such
                open with the same embedder continues. Records that changed meanwhile are embedded again.
            url: address of the Chroma server that holds the vectors; the folder then holds the rest. A
                store remembers its server, so that only the first open needs it.
            move: make `url` the store's server, whatever it was before.
            defer: leave Chroma unopened and unrepaired until it is needed, for a rebuild that follows.
            history_days: days (up to 36,500) to keep each change of a record as a version for `history`; 0 = no
                versions, None = no new ones; absent = 30, or as this process has the folder open.
            retention: rules for records that sweeps erase; absent = none, or those with which this process has the
                folder open. The first open for writing begins with a sweep (`maintenance.sweep`).
            wait_seconds: how long to wait (up to a day) until others close the folder, if they write there.
            indexed_attributes: paths of attributes to index for filters, at most 32: other indexes are dropped, and new
                ones are built from the existing records. None = those that the store has; a reader always uses those.
            progress: called while `re_embed` embeds, with (records embedded, records in all): at the start, including
                those of an interrupted run, and after each chunk.

        Raises:
            InvalidInputError: `path` is neither a folder nor an address that can be read; `url` is no address, or not
                that of the server which the store belongs to;
                `history_days` or `wait_seconds` is out of range, a path of an attribute is none, or `retention` holds
                no rules; or one of them isn't what this process has the folder open with.
            StoreLockedError: another process has it open for writing, still after `wait_seconds`, or this one has and
                can't share it.
            EmbedderMismatchError: it was made with another embedder.
            StoreReadOnlyError: the folder can't be written.
            StoreUnavailableError: there is no store, the path is a file, the store is damaged, or PostgreSQL can't be
                reached.
            UnsupportedOptionError: an address is given, and the extra `postgres` isn't installed, or it is one of
                another database.
        """
        wait = check_wait_seconds(wait_seconds)
        days = history_days if isinstance(history_days, EllipsisType) else check_history_days(history_days)
        rules = None if retention is None else check_rules(retention)
        server, chosen = ChromaServer(url) if isinstance(url, str) else url, as_embedder(embedder)
        paths = None if indexed_attributes is None else checked_paths(indexed_attributes)
        how = OpenOptions(server, create, read_only, re_embed, move, defer, paths, progress, days, rules, wait)
        return open_as(cls, checked_place(path), chosen, how)

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
        """Open the settings' store, with their embedder and Chroma server; for the rest see `open`.

        `path` and `embedder` override those of the settings; `move` makes the settings' server the store's own.

        Raises:
            InvalidInputError: neither `path` nor the settings name a place.
        """
        given = settings.model_fields_set
        store = cls.open(
            path or settings.store_path or "",
            embedder=as_embedder(embedder, settings),
            create=create,
            read_only=read_only,
            re_embed=re_embed,
            url=server_from_settings(settings),
            move=move,
            defer=defer,
            history_days=settings.history_days if "history_days" in given else ...,
            indexed_attributes=settings.indexed_attributes,
            retention=settings.retention if "retention" in given else None,
            wait_seconds=settings.writer_wait_seconds,
            progress=progress,
        )
        store.opened_with = settings
        return store

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder or an address holds a store.

        A store without its SQLite file counts only once it is rebuilt.

        Raises:
            InvalidInputError: it is neither.
            StoreUnavailableError: the address can't be reached.
        """
        return store_exists(checked_place(path))

    @classmethod
    def in_memory(
        cls,
        *,
        embedder: EmbedderInput | None = None,
        history_days: int | None = DEFAULT_HISTORY_DAYS,
        indexed_attributes: Iterable[str] | None = None,
        retention: Iterable[RetentionRule] = (),
    ) -> Self:
        """Return a store that lives only in this process's memory, with the whole API; for the arguments see `open`.

        Raises:
            InvalidInputError: `history_days` is out of range, a path of an attribute is none, or `retention` holds no
                rules.
        """
        rules = check_rules(retention)
        days, chosen = check_history_days(history_days), as_embedder(embedder)
        files = open_in_memory(chosen, attributes=indexed_attributes)
        return cls(StoreSession(files, chosen, days, rules))

    @classmethod
    def in_memory_from_settings(cls, settings: Settings, *, embedder: EmbedderInput | None = None) -> Self:
        """Return a store in memory, with the settings' embedder, history, index and retention."""
        store = cls.in_memory(
            embedder=as_embedder(embedder, settings),
            history_days=settings.history_days,
            indexed_attributes=settings.indexed_attributes,
            retention=settings.retention,
        )
        store.opened_with = settings
        return store

    def check_settings(self, settings: Settings) -> None:
        """Check that settings state no other options of a store than those with which this one is open.

        What they have from the environment is for stores that are opened by it, and states nothing.

        Raises:
            InvalidInputError: another `history_days`, `retention`, `indexed_attributes`, embedder or `minilm_weights`.
        """
        if settings == self.opened_with:
            return
        session, around = self._session, type(settings).from_env()
        stated = {
            name
            for name in settings.model_fields_set
            if name not in around.model_fields_set or getattr(settings, name) != getattr(around, name)
        }
        present: dict[str, object] = {"history_days": session.history_days or 0, "retention": session.retention}
        if settings.indexed_attributes is not None:
            present["indexed_attributes"] = tuple(sorted(indexed_paths(session.database)))
        for name in stated.intersection(present):
            wanted = getattr(settings, name)
            if wanted != present[name] and (name != "indexed_attributes" or tuple(sorted(wanted)) != present[name]):
                raise InvalidInputError(name, wanted, f"{present[name]!r}, as the store is open, or none")
        for name in stated.intersection(("embedder", "minilm_weights")):
            if embedder_of_version(as_embedder(None, settings), session.marker["fingerprint"]) is None:
                allowed = f"none together with a store, which has its own: {session.marker['fingerprint']}"
                raise InvalidInputError(name, getattr(settings, name), allowed)
