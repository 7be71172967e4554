"""Committing records: chunk by chunk, or together with those of other calls that wait at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, get_args

from recall_loop.memory.store.chroma.chroma_index import ChromaError
from recall_loop.memory.store.embed.onnx_model import return_freed_memory
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.tables.prepared_records import (
    ChangeOrigin,
    PreparedRecord,
    WriteOutcome,
    WriteStatus,
    complete_record,
    readable_id,
    validate_and_prepare,
)
from recall_loop.memory.store.write import commits
from recall_loop.memory.store.write.group_commit import GroupCommit, PendingWrite, chroma_delivery
from recall_loop.state.errors import InvalidInputError, RejectedRecordsError, Rejection, StoreUnavailableError
from recall_loop.state.records.records import Record

# Chroma takes a thousand rows at a time for hardly more than a quarter as many.
UPSERT_CHUNK = 1000
# Laying out this much text takes a multiple of it in small pieces, which the allocator would keep.
_LARGE_CHARS = 500_000

OnReject = Literal["raise", "report"]
"""How a call treats records that can't be stored: it raises and writes nothing, or reports on each."""


def check_on_reject(on_reject: str) -> None:
    """Raise `InvalidInputError` for an unknown value."""
    if on_reject not in get_args(OnReject):
        raise InvalidInputError("on_reject", on_reject, " or ".join(get_args(OnReject)))


def check_records(records: Sequence[object]) -> None:
    """Check the records of one call before any of them is written.

    Raises:
        RejectedRecordsError: some can't be stored; it has every reason.
    """
    rejections: list[Rejection] = []
    now = datetime.now(UTC)
    for index, given in enumerate(records):
        try:
            complete_record(given, index, now)
        except RejectedRecordsError as error:
            rejections += error.rejections
    if rejections:
        raise RejectedRecordsError(rejections)


class RecordWriter:
    """Writes to an open store.

    Attributes:
        session: the open store.
        context_windows: whether messages are indexed and embedded with their neighbours; measurements switch it off.
        group_commit: lets calls that wait at the same time share a transaction.
    """

    def __init__(self, session: StoreSession) -> None:
        self.session = session
        self.context_windows = True
        self.group_commit = GroupCommit(session.lock, self._write_together)

    def upsert(
        self, records: Iterable[Record | Mapping[str, Any]], tenant: str, on_reject: OnReject, origin: ChangeOrigin
    ) -> list[WriteOutcome]:
        """Write records; see `MemoryStore.upsert`."""
        self.session.check_writable()
        source: Iterator[tuple[int, Any]] = enumerate(records)
        outcomes: list[WriteOutcome] = []
        chunk = list(islice(source, UPSERT_CHUNK))
        if len(chunk) < UPSERT_CHUNK:  # there are no more
            drafts, rejected, rejections = _prepared(tenant, chunk, origin)
            if rejections and on_reject == "raise":
                raise RejectedRecordsError(rejections)
            return _outcomes(chunk, drafts, rejected, self.group_commit.write(list(drafts.values())))
        if on_reject == "raise":
            every = [*chunk, *source]
            check_records([given for _, given in every])
            chunk, source = every[:UPSERT_CHUNK], iter(every[UPSERT_CHUNK:])
        with self.session.writing([tenant]), chroma_delivery(self.session.connection.deliver) as deliver:
            while chunk:
                drafts, rejected, _ = _prepared(tenant, chunk, origin)
                written = self._write_records(list(drafts.values()))
                deliver(written.pending)
                outcomes += _outcomes(chunk, drafts, rejected, written.statuses)
                chunk = list(islice(source, UPSERT_CHUNK))
        return outcomes

    def _write_records(self, drafts: Sequence[PreparedRecord]) -> commits.ChunkResult:
        session = self.session
        written = commits.write_records(
            session.database,
            session.embedder,
            session.dimension,
            drafts,
            context_windows=self.context_windows,
            keep_history=bool(session.history_days),
        )
        if sum(len(draft.body) for draft in drafts) > _LARGE_CHARS:
            return_freed_memory()
        return written

    def _write_together(self, group: Sequence[PendingWrite]) -> None:
        """Write the drafts of several calls at once; where that fails, one call after the other."""
        try:
            drafts = [draft for one in group for draft in one.prepared]
            with self.session.writing({draft.tenant for draft in drafts}):
                written = self._write_records(drafts)
                self.session.connection.deliver(written.pending)
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, ChromaError):  # it fails for all of them
                for one in group:
                    one.error = StoreUnavailableError(str(error))
                    one.error.__cause__ = error.__cause__
            else:
                self._write_apart(group, error)
        except Exception as error:  # noqa: BLE001  # raised again in the caller's thread
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

    def delete(self, tenant: str, chunks: Iterable[Sequence[str]]) -> int:
        """Delete records by id, chunk by chunk; return how many there were."""
        deleted, keep = 0, bool(self.session.history_days)
        database = self.session.database.for_tenant(tenant)
        with self.session.writing([tenant]):
            for ids in chunks:
                deleted += commits.delete_records(database, tenant, ids, keep_history=keep)
                if self.session.recalls is not None:
                    self.session.recalls.forget(tenant, ids)
                self.session.connection.flush_after_commit()
        return deleted


def _prepared(
    tenant: str, chunk: list[tuple[int, Any]], origin: ChangeOrigin
) -> tuple[dict[int, PreparedRecord], dict[int, WriteOutcome], list[Rejection]]:
    """Lay records out by their index; those that can't be are rejected, each for its reasons."""
    drafts, rejected, rejections = dict[int, PreparedRecord](), dict[int, WriteOutcome](), list[Rejection]()
    now = datetime.now(UTC)
    for index, given in chunk:
        try:
            drafts[index] = validate_and_prepare(tenant, given, index, now, origin)
        except RejectedRecordsError as error:
            rejected[index] = WriteOutcome(index, readable_id(given), "rejected", str(error))
            rejections += error.rejections
    return drafts, rejected, rejections


def _outcomes(
    chunk: list[tuple[int, Any]],
    drafts: dict[int, PreparedRecord],
    rejected: dict[int, WriteOutcome],
    statuses: Sequence[WriteStatus],
) -> list[WriteOutcome]:
    written = {
        index: WriteOutcome(index, laid_out.id, status, warning=laid_out.warning)
        for (index, laid_out), status in zip(drafts.items(), statuses, strict=True)
    }
    return [written.get(index) or rejected[index] for index, _ in chunk]
