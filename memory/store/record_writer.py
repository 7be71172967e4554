"""Committing records: chunk by chunk, or together with those of other calls that wait at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.sqlite.prepared_records import (
    PreparedRecord,
    WriteOutcome,
    WriteStatus,
    readable_id,
    validate_and_prepare,
)
from recall_loop.memory.store.write import commits
from recall_loop.memory.store.write.group_commit import ChromaDelivery, GroupCommit, PendingWrite
from recall_loop.state.errors import InvalidInputError, StoreUnavailableError

if TYPE_CHECKING:
    from recall_loop.memory.store.recovery.store_session import StoreSession
    from recall_loop.state.records.records import Record

# Chroma takes a thousand rows at a time for little more than the price of a quarter as many.
UPSERT_CHUNK = 1000


class RecordWriter:
    """Writes to an open store.

    Attributes:
        context_windows: whether messages are indexed and embedded with their neighbours; measurements switch it off.
        group_commit: lets calls that wait at the same time share a transaction.
    """

    def __init__(self, session: StoreSession) -> None:
        self._session = session
        self.context_windows = True
        self.group_commit = GroupCommit(session.lock, self._write_together)

    def upsert(self, records: Iterable[Record | Mapping[str, Any]], tenant: str) -> list[WriteOutcome]:
        """Write records; see `MemoryStore.upsert`."""
        self._session.check_writable()
        source, outcomes = enumerate(records), list[WriteOutcome]()
        chunk = list(islice(source, UPSERT_CHUNK))
        if len(chunk) < UPSERT_CHUNK:  # all there is
            drafts, rejected = _prepared(tenant, chunk)
            return _outcomes(chunk, drafts, rejected, self.group_commit.write(list(drafts.values())))
        with self._session.writing(), ChromaDelivery(self._session.connection.deliver) as delivery:
            while chunk:
                outcomes += self._write_chunk(tenant, chunk, delivery)
                chunk = list(islice(source, UPSERT_CHUNK))
        return outcomes

    def _write_chunk(self, tenant: str, chunk: list[tuple[int, Any]], delivery: ChromaDelivery) -> list[WriteOutcome]:
        drafts, rejected = _prepared(tenant, chunk)
        written = self._write_records(list(drafts.values()))
        delivery.deliver_chunk(written.pending, more=len(chunk) == UPSERT_CHUNK)
        return _outcomes(chunk, drafts, rejected, written.statuses)

    def _write_records(self, drafts: Sequence[PreparedRecord]) -> commits.ChunkResult:
        session = self._session
        return commits.write_records(
            session.sqlite, session.embedder, session.dimension, drafts, context_windows=self.context_windows
        )

    def _write_together(self, group: Sequence[PendingWrite]) -> None:
        """Write the drafts of several calls at once; where that fails, one call after the other."""
        try:
            with self._session.writing():
                drafts = [draft for one in group for draft in one.prepared]
                written = self._write_records(drafts)
                self._session.connection.deliver(written.pending)
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, ChromaError):  # it fails for all of them
                for one in group:
                    one.error = StoreUnavailableError(str(error))
                    one.error.__cause__ = error.__cause__
            else:
                self._write_apart(group, error)
        except Exception as error:  # noqa: BLE001  # raised again, to whom it belongs
            self._write_apart(group, error)
        else:
            statuses = iter(written.statuses)
            for one in group:
                one.statuses = list(islice(statuses, len(one.prepared)))

    def _write_apart(self, group: Sequence[PendingWrite], error: Exception) -> None:
        if len(group) == 1:
            group[0].error = error
            return
        for one in group:
            self._write_together([one])

    def delete(self, tenant: str, chunks: Iterable[list[str]]) -> int:
        """Delete records by id, chunk by chunk; return how many there were."""
        deleted = 0
        with self._session.writing():
            for ids in chunks:
                deleted += commits.delete_records(self._session.sqlite, tenant, ids)
                self._session.connection.flush_after_commit()
        return deleted


def _prepared(tenant: str, chunk: list[tuple[int, Any]]) -> tuple[dict[int, PreparedRecord], dict[int, WriteOutcome]]:
    """Lay records out by their index; those that can't be are rejected."""
    drafts, rejected = dict[int, PreparedRecord](), dict[int, WriteOutcome]()
    for index, given in chunk:
        try:
            drafts[index] = validate_and_prepare(tenant, given, index)
        except InvalidInputError as error:
            rejected[index] = WriteOutcome(index, readable_id(given), "rejected", str(error))
    return drafts, rejected


def _outcomes(
    chunk: list[tuple[int, Any]],
    drafts: dict[int, PreparedRecord],
    rejected: dict[int, WriteOutcome],
    statuses: Sequence[WriteStatus],
) -> list[WriteOutcome]:
    written = {
        index: WriteOutcome(index, laid_out.id, status)
        for (index, laid_out), status in zip(drafts.items(), statuses, strict=True)
    }
    return [written.get(index) or rejected[index] for index, _ in chunk]
