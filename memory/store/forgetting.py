"""Forgetting by policy: expired records, records selected by rules, and old versions (LIVE-7, API-3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from recall_loop.memory.store.encoding.indexing import now_microseconds
from recall_loop.memory.store.record_writer import RecordWriter
from recall_loop.memory.store.recovery.recovery import CHUNK
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.tables import record_queries, retention, versions
from recall_loop.memory.store.tables.database import Dialect
from recall_loop.memory.store.tables.predicate import Predicate, compile_predicate
from recall_loop.state.errors import NOTHING, InvalidInputError
from recall_loop.state.scope import Filters, RetentionRule, Scope
from recall_loop.state.types import ContentType, ScopeMode

_LOG = logging.getLogger(__name__)
# For callers from Python, over HTTP and MCP, and for those of the command line.
_WHAT_TO_FORGET = (
    "filters, a rule or content types; all of a user, an agent, a conversation or a tenant goes by `erase` "
    "(on the command line `store delete`)"
)


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """The records that were forgotten, or would be.

    Attributes:
        by_kind: their number by kind, such as `{"message": 3}`; kinds without any are left out.
        dry_run: whether they were only counted.
    """

    by_kind: Mapping[str, int]
    dry_run: bool

    @property
    def records(self) -> int:
        """Their number in all."""
        return sum(self.by_kind.values())


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The result of a sweep.

    Attributes:
        expired: records that had expired.
        retained_no_longer: records selected by a retention rule.
        versions: versions that were older than the store keeps them, of records that stay.
    """

    expired: int = 0
    retained_no_longer: int = 0
    versions: int = 0


def forget_records(session: StoreSession, writer: RecordWriter, predicate: Predicate, *, dry_run: bool) -> ForgetReport:
    """Delete the records that a predicate allows, or count them only; see `MemoryStore.forget`."""
    if dry_run:
        return ForgetReport(retention.count_by_kind(session.database, predicate), dry_run=True)
    session.check_writable()
    with session.exclusive([predicate.tenant]):  # the count must match what is deleted
        counts = retention.count_by_kind(session.database, predicate)
        _delete_all(session, writer, predicate.tenant, partial(record_queries.first_ids, session.database, predicate))
    return ForgetReport(counts, dry_run=False)


def forgettable(
    dialect: Dialect,
    scope: Scope,
    filters: Filters | None,
    rule: RetentionRule | None,
    content_types: Iterable[ContentType | str] | None,
) -> Predicate:
    """Return the predicate of what `MemoryStore.forget` deletes; raises as that does."""
    if scope.mode is ScopeMode.CONSTELLATION:
        raise InvalidInputError("scope", scope.mode.value, "local: the records of other agents are not yours")
    if filters is not None and filters.min_similarity is not None:
        raise InvalidInputError("min_similarity", filters.min_similarity, "none: it applies to results, not to records")
    if rule is None and content_types is None and (filters is None or filters == Filters()):
        raise InvalidInputError("filters", NOTHING, _WHAT_TO_FORGET)
    if filters is not None and filters.include_superseded is None:
        filters = filters.model_copy(update={"include_superseded": True})
    predicate = compile_predicate(scope, filters, content_types, dialect=dialect)
    return predicate if rule is None else retention.with_rule(predicate, rule, now_microseconds())


def check_rules(given: Iterable[RetentionRule]) -> tuple[RetentionRule, ...]:
    """Return rules of retention as a tuple; raises `InvalidInputError` where they are none."""
    found: tuple[object, ...] = tuple(given)
    rules = tuple(rule for rule in found if isinstance(rule, RetentionRule))
    if len(rules) < len(found):
        raise InvalidInputError("retention", found, "a list of rules of retention")
    return rules


def sweep(session: StoreSession, writer: RecordWriter, rules: Sequence[RetentionRule]) -> SweepReport:
    """Erase expired records, those selected by rules, and old versions; see `Maintenance.sweep`."""
    session.check_writable()
    database, now = session.database, now_microseconds()
    expired = sum(
        _delete_all(session, writer, tenant, partial(retention.first_expired_ids, database, tenant, now))
        for tenant in retention.tenants_with_expired(database, now)
    )
    ruled = 0
    for rule in rules:
        for tenant in retention.tenants_selected_by(database, rule, now):
            predicate = retention.with_rule(compile_predicate(Scope(tenant=tenant)), rule, now)
            ruled += _delete_all(session, writer, tenant, partial(record_queries.first_ids, database, predicate))
    old, days = 0, session.history_days
    for tenant in versions.tenants_with_old_versions(database, days, now):
        with session.exclusive([tenant]):
            old += versions.sweep_versions(database, tenant, days or 0, now)
    report = SweepReport(expired, ruled, old)
    if report != SweepReport():
        words = "a sweep erased %s expired records, %s that no rule retains, and %s versions"
        _LOG.info(words, expired, ruled, old)
    return report


def _delete_all(session: StoreSession, writer: RecordWriter, tenant: str, first: Callable[[int], list[str]]) -> int:
    """Delete the records of which `first` names some at a time, until it names none; return how many there were."""
    deleted = 0
    while True:
        with session.exclusive([tenant]):  # no record is rewritten between its selection and deletion
            ids = first(CHUNK)
            if not ids:
                return deleted
            deleted += writer.delete(tenant, [ids])
