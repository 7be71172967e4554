"""The memory store: records in SQLite and Chroma, written by one, read by many."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic import TypeAdapter, ValidationError

from recall_loop.memory.store import opening, recovery, writing
from recall_loop.memory.store.cache import Cache
from recall_loop.memory.store.chroma_side import ChromaError, ChromaSide
from recall_loop.memory.store.drafts import Draft, WriteOutcome, draft, id_of
from recall_loop.memory.store.link import ChromaLink
from recall_loop.memory.store.predicate import compile_predicate
from recall_loop.memory.store.view import View
from recall_loop.state.errors import (
    InvalidInputError,
    StoreReadOnlyError,
    from_validation,
)
from recall_loop.state.records import RECORD_ADAPTER, Record
from recall_loop.state.scope import DEFAULT_TENANT, Filters, Scope
from recall_loop.state.types import ContentType, Identifier

if TYPE_CHECKING:
    from recall_loop.memory.store.embeddings import Embedder
    from recall_loop.memory.store.opening import Opened

_TENANT: TypeAdapter[str] = TypeAdapter(Identifier)
_SCAN = 500
Kinds = Iterable[ContentType | str]


class MemoryStore:
    """Facts, archival entries, messages and trajectories of many tenants.

    A write is acknowledged (its call returns) when it stands in the SQLite sidecar and in Chroma;
    from then on it survives the death of the process (STORE-4). The sidecar is the commit point:
    readers see a chunk of at most 256 records wholly or not at all. A write that raises
    `StoreUnavailableError` because Chroma failed is not acknowledged: its chunk stands in the
    sidecar, is readable, and reaches Chroma with the next write or open; repeating it is safe.

    Every method may be called from several threads; writes take turns.

    Attributes:
        path: the store's folder; None in memory.
        embedder: the embedder that texts and queries need.
        read_only: whether it was opened for reading only.
    """

    def __init__(self, opened: Opened, embedder: Embedder) -> None:
        """Take over what `open` or `in_memory` opened."""
        self.path = opened.path
        self.embedder = embedder
        self.read_only = opened.read_only
        self.sidecar = opened.sidecar
        self.cache = Cache()
        self._opened = opened
        self._lock = threading.RLock()
        self._link = ChromaLink(opened, self._lock)
        self._marker = recovery.marker_of(opened.sidecar)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        embedder: Embedder | None = None,
        create: bool = True,
        read_only: bool = False,
        re_embed: bool = False,
    ) -> MemoryStore:
        """Open the store in folder `path`, and repair it if a crash left it in need.

        Args:
            path: the store's folder.
            embedder: absent = `MiniLmEmbedder()`.
            create: make a new store if there is none.
            read_only: take no lock and never write; sees what a writer commits meanwhile.
            re_embed: if the store was made with another embedder, embed everything anew.

        Raises:
            StoreLockedError: another writer has it open.
            EmbedderMismatchError: it was made with another embedder.
            StoreReadOnlyError: the folder can't be written.
            StoreUnavailableError: there is no store, the path is a file, or the store is damaged.
        """
        given: object = path
        if not isinstance(given, str | Path) or not str(given).strip():
            raise InvalidInputError("path", path, "the path of a folder")
        embedder = embedder or opening.default_embedder()
        opened = opening.open_folder(Path(path), embedder, create=create, read_only=read_only, re_embed=re_embed)
        store = cls(opened, embedder)
        if not read_only:
            try:
                store._link.connect()
            except ChromaError as error:
                store.degrade(error)
            except BaseException:
                store.close()
                raise
        return store

    @classmethod
    def in_memory(cls, *, embedder: Embedder | None = None) -> MemoryStore:
        """Return a store that lives in this process's memory only and has the whole API."""
        embedder = embedder or opening.default_embedder()
        return cls(opening.open_memory(embedder), embedder)

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
        with self._lock:
            self._link.disconnect()
            self.cache.clear()
            self._opened.close()

    @property
    def generation(self) -> str:
        """Id of the index generation; a new one starts when everything is embedded anew."""
        return self._marker["generation"]

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._marker["dimension"])

    @property
    def degraded_reason(self) -> str | None:
        """Why the store works without Chroma, or None (SEARCH-9). Reads stay whole and exact."""
        return self._link.reason

    def info(self) -> dict[str, Any]:
        """Return what the store says about itself, as plain JSON."""
        with self.sidecar.reading() as connection:
            tenants, records, pending = connection.execute(
                "SELECT count(DISTINCT tenant), count(*), total(state) FROM records"
            ).fetchone()
        return {
            **self._marker,
            "schema": int(self._marker["schema"]),
            "dimension": self.dimension,
            "path": None if self.path is None else str(self.path),
            "read_only": self.read_only,
            "tenants": tenants,
            "records": records,
            "pending": int(pending),
            "degraded_reason": self._link.reason,
        }

    def upsert(
        self, records: Iterable[Record | Mapping[str, Any]], *, tenant: str = DEFAULT_TENANT
    ) -> list[WriteOutcome]:
        """Write records, replacing wholly what has the same id; report on each (STORE-2).

        A bad record rejects itself only. Of several records with one id the last wins. Records are
        taken and committed in chunks of 256: an exception leaves earlier chunks written.

        Raises:
            InvalidInputError: `tenant` or `records` is unfit as a whole.
            StoreUnavailableError: Chroma or SQLite fails; see the class.
            StoreReadOnlyError: the store is open for reading only.
            EmbedderError: the embedder fails; the chunk was not written.
        """
        tenant = _tenant(tenant)
        if isinstance(records, Record | Mapping | str | bytes):
            raise InvalidInputError("records", records, "a list of records")
        outcomes: list[WriteOutcome] = []
        with self._writing():
            source = enumerate(records)
            while chunk := list(islice(source, recovery.CHUNK)):
                outcomes += self._write_chunk(tenant, chunk)
        return outcomes

    def _write_chunk(self, tenant: str, chunk: list[tuple[int, Any]]) -> list[WriteOutcome]:
        outcomes: dict[int, WriteOutcome] = {}
        drafts: dict[int, Draft] = {}
        for index, given in chunk:
            try:
                drafts[index] = draft(tenant, given, index)
            except InvalidInputError as error:
                outcomes[index] = WriteOutcome(index, id_of(given), "rejected", str(error))
        statuses = writing.write(self.sidecar, self.embedder, self.dimension, tenant, list(drafts.values()))
        self._link.settle()
        for (index, written), status in zip(drafts.items(), statuses, strict=True):
            outcomes[index] = WriteOutcome(index, written.id, status)
        return [outcomes[index] for index, _ in chunk]

    def delete(self, ids: Iterable[str], *, tenant: str = DEFAULT_TENANT) -> int:
        """Delete records by id; return how many there were. Neighbours' windows lose them too.

        Raises:
            InvalidInputError: `tenant` or `ids` is unfit.
            StoreUnavailableError: Chroma or SQLite fails; see the class.
            StoreReadOnlyError: the store is open for reading only.
        """
        tenant, wanted, deleted = _tenant(tenant), _ids(ids), 0
        with self._writing():
            for start in range(0, len(wanted), recovery.CHUNK):
                deleted += writing.remove(self.sidecar, tenant, wanted[start : start + recovery.CHUNK])
                self._link.settle()
        return deleted

    def get(self, ids: Iterable[str], *, scope: Scope) -> list[Record]:
        """Return records by id, in the order of `ids`; what is missing or out of scope is left out."""
        wanted, found = _ids(ids), {}
        predicate = compile_predicate(scope)
        query = f"""SELECT r.id, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
            WHERE {predicate.where} AND r.id IN (SELECT value FROM json_each(?))"""
        with self.sidecar.reading() as connection:
            for record_id, body in connection.execute(query, (*predicate.params, json.dumps(wanted))):
                found[record_id] = RECORD_ADAPTER.validate_json(body)
        return [found[record_id] for record_id in wanted if record_id in found]

    def view(self, scope: Scope, filters: Filters | None = None, content_types: Kinds | None = None) -> View:
        """Return the door for searches: what `scope` may read, narrowed by filters and content types.

        Raises:
            InvalidInputError: an unknown content type, or none at all.
        """
        return View(self, compile_predicate(scope, filters, content_types))

    def count(
        self, scope: Scope | None = None, filters: Filters | None = None, content_types: Kinds | None = None
    ) -> int:
        """Return how many records `scan` would give."""
        predicate = compile_predicate(scope or Scope(), filters, content_types)
        query = f"SELECT count(*) FROM records r WHERE {predicate.where}"
        with self.sidecar.reading() as connection:
            return int(connection.execute(query, predicate.params).fetchone()[0])

    def scan(
        self, scope: Scope | None = None, filters: Filters | None = None, content_types: Kinds | None = None
    ) -> Iterator[Record]:
        """Yield records in the order in which they were first written (STORE-2).

        Records that are written while it runs may or may not be given; the order is stable.
        """
        predicate = compile_predicate(scope or Scope(), filters, content_types)
        return self._scan(predicate.where, predicate.params)

    def _scan(self, where: str, params: tuple[Any, ...]) -> Iterator[Record]:
        query = f"""SELECT r.rowid, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
            WHERE {where} AND r.rowid > ? ORDER BY r.rowid LIMIT ?"""
        last = 0
        while True:
            with self.sidecar.reading() as connection:
                page = connection.execute(query, (*params, last, _SCAN)).fetchall()
            for _, body in page:
                yield RECORD_ADAPTER.validate_json(body)
            last = page[-1][0] if page else last
            if len(page) < _SCAN:
                return

    def rebuild(self, *, embedder: Embedder | None = None, progress: recovery.Progress | None = None) -> None:
        """Write Chroma anew from the sidecar; with another embedder embed everything anew before (STORE-5).

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
            if embedder is not None:
                recovery.re_embed(self.sidecar, embedder, progress)
                self.embedder, self._marker = embedder, recovery.marker_of(self.sidecar)
            self.cache.clear()
            self._link.refill(progress)

    def compact(self) -> None:
        """Rewrite all files without what was deleted, so that no erased byte stays behind (STORE-6).

        Raises:
            StoreUnavailableError: Chroma or SQLite fails.
            StoreReadOnlyError: the store is open for reading only.
        """
        with self._lock:
            self._check_writable()
            if self.path is not None:
                self.sidecar.compact()
            self.rebuild()

    def degrade(self, error: ChromaError) -> None:
        """Note that Chroma failed; see `degraded_reason`."""
        self._link.degrade(error)

    def searching(self) -> AbstractContextManager[ChromaSide | None]:
        """Give the Chroma side for a search, or None while it can't be used."""
        return self._link.searching()

    def _check_writable(self) -> None:
        if self.read_only:
            raise StoreReadOnlyError(f"{self.path}: the store is open for reading only")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._check_writable()
            self._link.prepare()
            yield


def _tenant(tenant: str) -> str:
    try:
        return _TENANT.validate_python(tenant)
    except ValidationError as error:
        raise from_validation(error, "tenant") from error


def _ids(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str | bytes):
        raise InvalidInputError("ids", ids, "a list of ids")
    wanted = list(ids)
    for record_id in wanted:
        if not isinstance(record_id, str):
            raise InvalidInputError("ids", record_id, "text")
    return wanted
