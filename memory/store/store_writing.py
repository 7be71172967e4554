"""Writing records: each call checks its arguments, and a writer commits them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pydantic import BaseModel

from recall_loop.memory.store.forgetting import ForgetReport, forget_records, forgettable
from recall_loop.memory.store.record_writer import OnReject, RecordWriter, check_on_reject
from recall_loop.memory.store.recovery import recovery
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.store_reading import ContentTypeNames, StoreReading, check_id, checked_ids
from recall_loop.memory.store.tables import record_queries, retention
from recall_loop.memory.store.tables.database import chunks
from recall_loop.memory.store.tables.predicate import compile_predicate
from recall_loop.memory.store.tables.prepared_records import WriteOutcome, change_origin
from recall_loop.memory.store.tables.versions import forget_owned
from recall_loop.state.errors import InvalidInputError, RecordNotFoundError, display_value, validate_model
from recall_loop.state.records.records import Record, with_changes
from recall_loop.state.scope import DEFAULT_TENANT, Filters, RetentionRule, Scope
from recall_loop.state.types import ScopeMode, Timestamp


class StoreWriting(StoreReading):
    """The writing half of a store, over the reading one; for errors that all methods share see `MemoryStore`.

    Attributes:
        writer: commits records; its `context_windows` is for measurements.
    """

    def __init__(self, session: StoreSession, writer: RecordWriter) -> None:
        super().__init__(session)
        self.writer = writer

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
            EmbedderError: the embedder fails; the chunk was not written.
        """
        tenant = validate_model(Scope, {"tenant": tenant}).tenant
        if isinstance(records, Record | Mapping | str | bytes):
            raise InvalidInputError("records", records, "a list of records")
        check_on_reject(on_reject)
        return self.writer.upsert(records, tenant, on_reject, change_origin(actor))

    def update(
        self, record_id: str, changes: Mapping[str, Any], *, tenant: str = DEFAULT_TENANT, actor: str | None = None
    ) -> Record:
        """Change some fields of a record and return it; what it was is kept as a version (API-3).

        What `changes` doesn't name stays; None empties a field; `attributes`, `tags` and other lists are replaced as a
        whole. Id and kind can't change. `updated_at` becomes the time of the call unless it is given.

        Raises:
            RecordNotFoundError: the tenant has no such record.
            InvalidInputError: a field is unknown, or the record would not be valid; nothing was changed.
            EmbedderError: the embedder fails; nothing was changed.
        """
        origin, tenant = change_origin(actor, "updated"), validate_model(Scope, {"tenant": tenant}).tenant
        self._session.check_writable()
        check_id(record_id)
        with self.exclusive(tenant):
            found = self.get([record_id], scope=Scope(tenant=tenant))
            if not found:
                raise RecordNotFoundError(f"there is no record with the id {display_value(record_id)}")
            changed = with_changes(found[0], changes, datetime.now(UTC))
            if changed is not found[0]:
                self.writer.upsert([changed], tenant, "raise", origin)
        return changed

    def delete(self, ids: Iterable[str], *, tenant: str = DEFAULT_TENANT) -> int:
        """Delete records by id with their versions; return how many there were. Neighbours' windows lose them too."""
        tenant, wanted = validate_model(Scope, {"tenant": tenant}).tenant, checked_ids(ids)
        return self.writer.delete(tenant, chunks(wanted, recovery.CHUNK))

    def erase(self, scope: Scope) -> int:
        """Delete every record of a scope: a user, an agent, a conversation, or a whole tenant (STORE-6).

        Their versions go with them, as do those from when a record that now has another owner was in the scope, and
        neighbours' windows lose them too. `maintenance.compact` then takes the bytes off the disk.

        Returns:
            How many records there were.

        Raises:
            InvalidInputError: the scope is a constellation; name the agent alone.
        """
        if scope.mode is ScopeMode.CONSTELLATION:
            raise InvalidInputError("scope", scope.mode.value, "local: the records of other agents are not yours")
        rest = partial(record_queries.first_ids, self._tables(scope.tenant), compile_predicate(scope), recovery.CHUNK)
        erased = self.writer.delete(scope.tenant, iter(rest, []))
        self._forget_owned_versions(scope)
        return erased

    def _forget_owned_versions(self, scope: Scope) -> None:
        with self._session.exclusive([scope.tenant]), self._tables(scope.tenant).transaction() as connection:
            forget_owned(connection, scope)

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
        deletes a scope as a whole, as this does with all content types.

        Args:
            scope: whose records they are.
            filters: as of a search; at least these, a rule or content types are needed.
            rule: the same words as for retention.
            content_types: kinds of records; absent = all.
            dry_run: count only; needs no store that is open for writing.

        Raises:
            InvalidInputError: the scope is a constellation, nothing says which records, or a filter is of results.
        """
        predicate = forgettable(self._session.database.dialect, scope, filters, rule, content_types)
        self._session.current_database()
        report = forget_records(self._session, self.writer, predicate, dry_run=dry_run)
        if not dry_run and predicate == compile_predicate(scope):
            self._forget_owned_versions(scope)
        return report

    def prolong(self, moments: Mapping[str, datetime], *, tenant: str = DEFAULT_TENANT) -> int:
        """Move the times at which records expire to later ones, given by id; return how many were moved.

        Records that never expire, have expired, or expire later than that anyway, stay as they are. This is much
        cheaper than writing records again, and no version is kept.
        """
        tenant = validate_model(Scope, {"tenant": tenant}).tenant
        checked = {key: validate_model(_Expiry, {"expires_at": moment}).expires_at for key, moment in moments.items()}
        if not checked:
            return 0
        with self._session.writing([tenant]):
            return retention.prolong_records(self._session.database.for_tenant(tenant), tenant, checked)

    @contextmanager
    def exclusive(self, tenant: str = DEFAULT_TENANT) -> Iterator[None]:
        """Hold others' writes of a tenant off, so that what is read of it stays true until it is written.

        In a folder those of other threads; in PostgreSQL those of other processes too.

        Raises:
            StoreUnavailableError: PostgreSQL fails, or another process writes for two minutes.
        """
        with self.writer.group_commit.exclusive_writes(), self._session.exclusive([tenant]):
            yield


class _Expiry(BaseModel):
    expires_at: Timestamp
