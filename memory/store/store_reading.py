"""Reading records: by id, by page, by scope, and their metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from recall_loop.memory.store.embed.token_vectors import codec_for_embedder
from recall_loop.memory.store.encoding.indexing import now_microseconds
from recall_loop.memory.store.index.record_relations import (
    RecordRelations,
    StoreOverview,
    read_overview,
    read_relations,
)
from recall_loop.memory.store.index.view import View
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.tables import record_queries
from recall_loop.memory.store.tables.attribute_index import indexed_paths
from recall_loop.memory.store.tables.database import Database
from recall_loop.memory.store.tables.predicate import NO_PATHS, Predicate, compile_predicate
from recall_loop.memory.store.tables.record_queries import RecordPage
from recall_loop.memory.store.tables.versions import read_versions
from recall_loop.memory.store.write.recall_counts import RecallFigures, read_recalls
from recall_loop.memory.store.write.stored_tokens import StoredTokens
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Fact, Record, RecordVersion
from recall_loop.state.scope import DEFAULT_TENANT, Filters, Scope
from recall_loop.state.types import ContentType

ContentTypeNames = Iterable[ContentType | str]


class StoreReading:
    """The reading half of a store; for errors that all methods share see `MemoryStore`.

    Reads take no turns: each sees what was committed when it began.
    """

    def __init__(self, session: StoreSession) -> None:
        self._session = session

    def get(self, ids: Iterable[str], *, scope: Scope) -> list[Record]:
        """Return records by id, in the order of `ids`; what is missing, out of scope or expired is left out."""
        wanted = checked_ids(ids)
        found = record_queries.read_by_id(*self._readable(scope), wanted)
        return [found[record_id] for record_id in wanted if record_id in found]

    def view(self, scope: Scope, filters: Filters | None = None, content_types: ContentTypeNames | None = None) -> View:
        """Return the view for searches: the records that `scope` may read, narrowed by filters and content types."""
        return View(self._session, self._predicate(scope, filters, content_types))

    def count(
        self, scope: Scope | None = None, filters: Filters | None = None, content_types: ContentTypeNames | None = None
    ) -> int:
        """Return how many records `scan` would give."""
        return record_queries.count_matching(*self._readable(scope, filters, content_types))

    def scan(
        self, scope: Scope | None = None, filters: Filters | None = None, content_types: ContentTypeNames | None = None
    ) -> Iterator[Record]:
        """Yield records in the order in which they were first written (STORE-2).

        Without filters that is everything; any filters leave superseded facts out unless they ask for them.

        Records that are written while it runs may or may not be given; the order is stable.
        """
        return record_queries.iterate_records(*self._readable(scope, filters, content_types))

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
        """
        return record_queries.read_page(*self._readable(scope, filters, content_types), after, limit)

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
            InvalidInputError: `after` is none of a page before.
        """
        return record_queries.read_newest(*self._readable(scope, filters, content_types), after, limit)

    def history(
        self, record_id: str, *, tenant: str = DEFAULT_TENANT, scope: Scope | None = None
    ) -> list[RecordVersion]:
        """Return the changes of a record, oldest first, as far back as `history_days` says (API-3).

        None for a record that was never changed, has expired or isn't there. With a `scope`, which takes the place of
        `tenant`, none from when the record had another owner.
        """
        reach = validate_model(Scope, {"tenant": tenant}) if scope is None else scope
        check_id(record_id)
        return read_versions(self._tables(reach.tenant), reach, record_id, self._session.history_days)

    def overview(self, scope: Scope | None = None) -> StoreOverview:
        """Return what a scope holds, in figures: records by kind, user and agent, and their times."""
        predicate = self._predicate(scope, None, None)
        return read_overview(self._tables(predicate.tenant), predicate, now_microseconds())

    def relations(self, record_id: str, *, scope: Scope) -> RecordRelations | None:
        """Return the records that a record is connected with, within `scope`; None where it isn't there."""
        check_id(record_id)
        records = self.get([record_id], scope=scope)
        return read_relations(*self._readable(scope), records[0]) if records else None

    def recalls(self, record_id: str, *, scope: Scope) -> RecallFigures:
        """Return how often a record was among the facts of a retrieval (PAGE-1); never, where it isn't in `scope`."""
        return read_recalls(*self._readable(scope), record_id, self._session.recalls)

    def count_recalls(self, ids: Iterable[str], *, tenant: str = DEFAULT_TENANT) -> None:
        """Count one retrieval that gave these records; written within ten seconds, or when the store is closed.

        A store that is open for reading only counts nothing.
        """
        if self._session.recalls is not None:
            self._session.recalls.add(tenant, ids)

    def expired_ids(
        self, scope: Scope, filters: Filters | None = None, content_types: ContentTypeNames | None = None
    ) -> list[str]:
        """Return the ids of the records of a scope that have expired and still stand in the store."""
        predicate = self._predicate(scope, filters, content_types)
        return record_queries.expired_ids(self._tables(predicate.tenant), predicate)

    def tenants(self) -> list[str]:
        """Return the tenants that have records, sorted."""
        return record_queries.list_tenants(self._session.current_database())

    def facts_by_key(self, tenant: str, keys: Iterable[str]) -> dict[str, list[Fact]]:
        """Return all facts of a tenant with the given supersession keys, in the order in which they were first written.

        Superseded facts are among them. `encoding.indexing.supersession_key` gives a fact's key.
        """
        return record_queries.facts_by_key(self._tables(tenant), tenant, keys)

    def superseded_sources(self, scope: Scope, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return the records that superseded facts of a scope were drawn from, each with its successor and the time.

        Only facts that `ids` superseded count, directly or through others: the value is one of `ids`, and the time
        (ISO 8601) from which the content of the record doesn't hold any more.
        """
        return record_queries.superseded_sources(self._tables(scope.tenant), scope, ids)

    def next_position(self, scope: Scope, session: str | None) -> int | None:
        """Return the position after the last message of a scope's session; None where messages there have no position.

        Messages with a position come before all that have none.
        """
        return record_queries.next_position(self._tables(scope.tenant), scope, session)

    def distinct_attribute(
        self,
        path: str,
        scope: Scope,
        filters: Filters | None = None,
        content_types: ContentTypeNames | None = None,
    ) -> list[Any]:
        """Return the distinct values of an attribute, such as `item.namespace`; records without it are left out."""
        return record_queries.distinct_attribute(*self._readable(scope, filters, content_types), path)

    def token_source(self, tenant: str) -> StoredTokens | None:
        """Return the token vectors of a tenant; None where the embedder gives none.

        Raises:
            EmbedderError: the file of their projection is missing or damaged.
        """
        codec = codec_for_embedder(self._session.embedder)
        if codec is None:
            return None
        session, tables = self._session, self._tables(tenant)
        known = session.cache.up_to_date(tables, tenant, session.dimension).tokens
        return StoredTokens(tables, tenant, codec, known)

    def _tables(self, tenant: str) -> Database:
        """Return the tables as a tenant may see them."""
        return self._session.current_database().for_tenant(tenant)

    def _predicate(
        self, scope: Scope | None, filters: Filters | None, content_types: ContentTypeNames | None
    ) -> Predicate:
        """Compile what a call may read, with the indexes of attributes that the store has now."""
        database = self._session.current_database()
        indexed = indexed_paths(database) if filters is not None and filters.attributes else NO_PATHS
        return compile_predicate(scope or Scope(), filters, content_types, indexed=indexed, dialect=database.dialect)

    def _readable(
        self,
        scope: Scope | None,
        filters: Filters | None = None,
        content_types: ContentTypeNames | None = None,
    ) -> tuple[Database, Predicate]:
        """Return the tables of a tenant, and what may be read of them now: expired records are forgotten (LIVE-7)."""
        predicate = self._predicate(scope, filters, content_types)
        return self._tables(predicate.tenant), predicate.unexpired(now_microseconds())


def check_id(record_id: object, field: str = "record_id") -> None:
    """Check that a caller's one id is text; `field` is what an error calls it.

    Raises:
        InvalidInputError: it isn't.
    """
    if not isinstance(record_id, str):
        raise InvalidInputError(field, record_id, "text")


def checked_ids(ids: Iterable[str]) -> list[str]:
    """Return ids as a list; raises `InvalidInputError` where it is no list of texts."""
    if isinstance(ids, str | bytes):
        raise InvalidInputError("ids", ids, "a list of ids")
    wanted = list(ids)
    for record_id in wanted:
        check_id(record_id, "ids")
    return wanted
