"""The store as this process may open it: for writing, for reading only, or with an owner process that writes for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from recall_loop.memory.store.embed.embedder_factory import make_embedder, processors_per_process
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.embed.onnx_model import limit_threads
from recall_loop.memory.store.files.store_place import is_address
from recall_loop.memory.store.forgetting import ForgetReport, SweepReport
from recall_loop.memory.store.maintenance import Maintenance
from recall_loop.memory.store.record_writer import UPSERT_CHUNK, OnReject, RecordWriter, check_records
from recall_loop.memory.store.recovery.recovery import ProgressCallback
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.store_reading import ContentTypeNames
from recall_loop.memory.store.tables.prepared_records import ChangeOrigin, WriteOutcome
from recall_loop.memory.store.write.recall_counts import RecallCounter
from recall_loop.service.core.config import ServiceConfig
from recall_loop.state.errors import RecallError, StoreLockedError, StoreUnavailableError
from recall_loop.state.records.records import Record
from recall_loop.state.run.cancellation import cancellation_event
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings

_POLL_SECONDS = 0.5
_LONGEST_SECONDS = 3600.0
IN_MEMORY_WARNING = "No store is set: records are kept in memory only and are lost when the service ends."


class WriterUnavailableError(StoreUnavailableError):
    """The writer process isn't running, or ended before it answered."""


class RemoteWriterStore(MemoryStore):
    """A store that is open for reading, and hands writes to its owner over a Unix socket (`writer_socket`).

    A write is acknowledged when the owner has acknowledged it. If the owner goes away meanwhile the call raises
    `WriterUnavailableError`: the write may or may not have happened, and repeating it is safe.
    """

    writer_socket: Path | None = None

    def __init__(self, session: StoreSession) -> None:
        super().__init__(session, _RemoteRecordWriter(session, self._ask))
        self.maintenance = _RemoteMaintenance(self._session, self._ask)
        self._session.recalls = RecallCounter(lambda rows: self._ask("maintenance.add_recalls", rows))

    @property
    def writable(self) -> bool:
        """Writes are taken, though not by this process."""
        return True

    def erase(self, scope: Scope) -> int:
        """As `MemoryStore.erase`, by the owner."""
        return int(self._ask("erase", scope))

    def forget(
        self, scope: Scope, *, content_types: ContentTypeNames | None = None, dry_run: bool = False, **which: Any
    ) -> ForgetReport:
        """As `MemoryStore.forget`, by the owner; a dry run by this process."""
        which["content_types"] = None if content_types is None else tuple(content_types)
        if dry_run:
            return super().forget(scope, dry_run=True, **which)
        report: ForgetReport = self._ask("forget", scope, **which)
        return report

    def update(self, record_id: str, changes: Mapping[str, Any], **options: Any) -> Record:
        """As `MemoryStore.update`, by the owner."""
        record: Record = self._ask("update", record_id, _picklable(changes), **options)
        return record

    def _ask(self, operation: str, *args: Any, **options: Any) -> Any:
        if self.writer_socket is None:
            raise WriterUnavailableError("no process writes to this store")
        try:
            with Client(str(self.writer_socket), family="AF_UNIX") as connection:
                connection.send((operation, args, options))
                answer = _receive_reply(connection)
        except (OSError, EOFError) as error:
            raise WriterUnavailableError(
                "the writer process ended: not acknowledged; repeating the call is safe"
            ) from error
        if isinstance(answer, RecallError):
            raise answer
        return answer


class _RemoteRecordWriter(RecordWriter):
    """The writer of a store that another process writes: checked calls go to the owner, 1,000 records at a time."""

    def __init__(self, session: StoreSession, ask: Callable[..., Any]) -> None:
        super().__init__(session)
        self._ask = ask

    def upsert(
        self, records: Iterable[Record | Mapping[str, Any]], tenant: str, on_reject: OnReject, origin: ChangeOrigin
    ) -> list[WriteOutcome]:
        """As `RecordWriter.upsert`, by the owner."""
        if on_reject == "raise":  # before the owner has written the first part
            records = list(records)
            check_records(records)
        outcomes: list[WriteOutcome] = []
        source = iter(records)
        while chunk := list(islice(source, UPSERT_CHUNK)):
            written = self._ask(
                "upsert", list(map(_picklable, chunk)), tenant=tenant, actor=origin.actor, on_reject=on_reject
            )
            base = len(outcomes)
            outcomes += [replace(one, index=base + one.index) for one in written]
        return outcomes

    def delete(self, tenant: str, chunks: Iterable[Sequence[str]]) -> int:
        """As `RecordWriter.delete`, by the owner."""
        return sum(int(self._ask("delete", ids, tenant=tenant)) for ids in chunks)


class _RemoteMaintenance(Maintenance):
    """The maintenance of a store that another process writes."""

    def __init__(self, session: StoreSession, ask: Callable[..., Any]) -> None:
        super().__init__(session)
        self._ask = ask

    def compact(self, *, progress: ProgressCallback | None = None) -> None:
        """As `Maintenance.compact`, by the owner; it reports no progress."""
        self._ask("maintenance.compact")

    def sweep(self) -> SweepReport:
        """As `Maintenance.sweep`, by the owner."""
        report: SweepReport = self._ask("maintenance.sweep")
        return report


def _picklable(given: Any) -> Any:
    """Return what a caller has given, a mapping as a plain one: a view of a dictionary can't be pickled."""
    return dict(given) if isinstance(given, Mapping) else given


def _receive_reply(connection: Connection) -> Any:
    """Wait for the owner's answer, as long as our caller waits."""
    nobody_waits, end = cancellation_event(), time.monotonic() + _LONGEST_SECONDS
    while not connection.poll(_POLL_SECONDS):
        if (nobody_waits is not None and nobody_waits.is_set()) or time.monotonic() > end:
            raise WriterUnavailableError("the write took too long: not acknowledged; repeating the call is safe")
    return connection.recv()


def check_shared_store(config: ServiceConfig, settings: Settings) -> None:
    """Open a store in PostgreSQL once before the workers: it is created if missing, and errors are raised."""
    if is_address(settings.store_path):
        read_only = config.read_only or False
        MemoryStore.from_settings(settings, create=not read_only, read_only=read_only).close()


def open_service_store(
    config: ServiceConfig, settings: Settings, embedder: Embedder | None, warnings: list[str]
) -> MemoryStore:
    """Open the store that the settings name; notes for the operator go to `warnings`. Raises `StoreError`."""
    embedder = embedder or make_embedder(settings)
    if config.parent is not None:
        limit_threads(processors_per_process(config.workers))
    if config.owner_socket is not None:
        store = RemoteWriterStore.from_settings(settings, embedder=embedder, create=False, read_only=True)
        store.writer_socket = config.owner_socket
        return store
    if settings.store_path is None:
        warnings.append(IN_MEMORY_WARNING)
        return MemoryStore.in_memory_from_settings(settings, embedder=embedder)
    read_only = config.read_only or False
    try:
        return MemoryStore.from_settings(settings, embedder=embedder, create=not read_only, read_only=read_only)
    except StoreLockedError as error:
        if config.read_only is not None:
            raise
        warnings.append(f"The store is open for reading only: {error}")
        return MemoryStore.from_settings(settings, embedder=embedder, create=False, read_only=True)
