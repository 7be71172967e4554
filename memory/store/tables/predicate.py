"""Scope, filters and content types as one SQL predicate: the tenant isolation that every read passes (STORE-3).

Table alias `r` is `records`. The tenant always comes first, and every part is about the record itself. Where all of
it can be said by columns, `tests` says the same once more, for the index of one tenant's rows in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from recall_loop.memory.store.encoding.indexing import facet_token, to_microseconds
from recall_loop.memory.store.tables import trajectory_predicate
from recall_loop.memory.store.tables.database import AMONG, Conditions, Dialect
from recall_loop.memory.store.tables.trajectory_predicate import ScorePredicate
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType, ScopeMode

# The agent, agents that share a group with it, and the records of those groups (SEARCH-4). The tenant is in
# both halves so that each is looked up in its own index.
_CONSTELLATION = """((r.tenant = ? AND r.agent_id IN (SELECT ? UNION ALL
  SELECT other.agent_id FROM memberships mine CROSS JOIN memberships other
    WHERE other.tenant = mine.tenant AND other.group_id = mine.group_id AND mine.tenant = ? AND mine.agent_id = ?))
 OR (r.tenant = ? AND r.group_id IN (SELECT group_id FROM memberships WHERE tenant = ? AND agent_id = ?)))"""

NO_PATHS: Mapping[str, int] = MappingProxyType({})
_EVERYTHING = Filters(include_superseded=True)
_EQUAL = ("role", "label", "fact_type", "conversation_id", "session", "user_id")


@dataclass(frozen=True, slots=True)
class ColumnPredicate:
    """A predicate as tests of columns, for an index that holds a tenant's rows in memory.

    Attributes:
        values: columns of `records` with the values of which a row must have one.
        start: least `created_at` in microseconds since 1970; None = any, also none.
        end: `created_at` must be less.
        tags: tags of which a row must have all; they stand in a table of their own.
        scores: what a trajectory's learning value must satisfy; None = nothing.
        as_of: `created_at` must not be greater, where there is one.
        superseded: whether facts that are superseded (with `as_of`: had ceased to be true then) pass.
    """

    values: tuple[tuple[str, tuple[str, ...]], ...]
    start: int | None
    end: int | None
    tags: tuple[str, ...] = ()
    scores: ScorePredicate | None = None
    as_of: int | None = None
    superseded: bool = True


@dataclass(frozen=True, slots=True)
class Predicate:
    """A compiled predicate.

    Attributes:
        tenant: the tenant that it is confined to.
        where: SQL over `records r`.
        params: values for its question marks.
        facets: tokens of the lexical index that every row which `where` allows has; they narrow a search of it.
        column_predicate: the same as tests of columns; None where `where` looks beyond the row's own columns.
        rowwise: the same without indexes of attributes, for few rows that are known; None where it uses none.
    """

    tenant: str
    where: str
    params: tuple[Any, ...]
    facets: tuple[str, ...]
    column_predicate: ColumnPredicate | None = None
    rowwise: Predicate | None = None

    def unexpired(self, moment: int) -> Predicate:
        """Return the predicate for rows that don't expire until `moment`, in microseconds since 1970 (LIVE-7).

        What `column_predicate` says stays as it is: the index in memory holds no expired rows.
        """
        return replace(self, where=f"{self.where} AND {UNEXPIRED}", params=(*self.params, moment))


UNEXPIRED = "(r.expires_at IS NULL OR r.expires_at > ?)"


def compile_predicate(
    scope: Scope,
    filters: Filters | None = None,
    content_types: Iterable[ContentType | str] | None = None,
    *,
    indexed: Mapping[str, int] = NO_PATHS,
    dialect: Dialect | None = None,
) -> Predicate:
    """Compile the scope and the filters of a call (SEARCH-3, SEARCH-4).

    Expired records pass: `Predicate.unexpired` leaves them out. Without `filters` superseded facts pass too; with them
    only where they ask for it.

    `filters.min_similarity` is a property of results, not of records: the search applies it. `indexed` are the paths of
    attributes that the store has an index for, with their numbers; `dialect` words filters of attributes and is needed
    for those only.

    Raises:
        TypeError: filters of attributes without a `dialect`.
        InvalidInputError: an unknown content type, or none at all.
    """
    kinds = _kinds(content_types)
    plain = _compile(scope, filters, kinds, NO_PATHS, dialect)
    if filters is None or not filters.attributes or indexed.keys().isdisjoint(filters.attributes):
        return plain
    return replace(_compile(scope, filters, kinds, indexed, dialect), rowwise=plain)


def _compile(
    scope: Scope,
    filters: Filters | None,
    kinds: list[str] | None,
    indexed: Mapping[str, int],
    dialect: Dialect | None,
) -> Predicate:
    wanted, facets = Conditions(), [facet_token("t", scope.tenant)]
    wanted.add("r.tenant = ?", scope.tenant)
    _add_scope(scope, wanted, facets)
    if kinds is not None:
        wanted.add(f"r.kind IN ({','.join('?' * len(kinds))})", *kinds)
    if filters is not None:
        _add_filters(filters, wanted, facets)
        if trajectory_predicate.has_trajectory_filters(filters):
            found = trajectory_predicate.trajectory_clauses(filters)
            wanted.add("r.kind = ?", str(ContentType.TRAJECTORY))
            wanted.add(f"EXISTS (SELECT 1 FROM bodies t WHERE t.rowid = r.rowid AND {found.sql})", *found.params)
        if filters.attributes:
            if dialect is None:
                raise TypeError("filters of attributes need the dialect of the store's tables")
            found = dialect.attribute_clauses(filters.attributes, scope.tenant, indexed)
            wanted.add(found.sql, *found.params)
    tests = _column_predicate(scope, filters or _EVERYTHING, kinds)
    return Predicate(scope.tenant, wanted.sql, tuple(wanted.params), tuple(dict.fromkeys(facets)), tests)


def _column_predicate(scope: Scope, filters: Filters, kinds: list[str] | None) -> ColumnPredicate | None:
    """Return scope, filters and kinds as tests of columns; None where those aren't enough."""
    if (
        filters.tools_used is not None
        or filters.speech_acts is not None
        or filters.attributes
        or (scope.agent_id and scope.mode is ScopeMode.CONSTELLATION)
    ):
        return None
    given: list[tuple[str, tuple[str, ...] | None]] = [("kind", None if kinds is None else tuple(kinds))]
    for name in ("agent_id", "user_id", "conversation_id"):
        given.append((name, _one(getattr(scope, name))))
    given.append(("agent_id", filters.agent_ids))
    given += [(name, _one(getattr(filters, name))) for name in _EQUAL]
    if trajectory_predicate.has_trajectory_filters(filters):
        given += [("kind", (ContentType.TRAJECTORY.value,)), *trajectory_predicate.column_values(filters)]
    values = tuple((name, wanted) for name, wanted in given if wanted is not None)
    tags = tuple(dict.fromkeys(filters.tags or ()))
    times = to_microseconds(filters.start_time), to_microseconds(filters.end_time)
    validity = to_microseconds(filters.as_of), bool(filters.include_superseded)
    return ColumnPredicate(values, *times, tags, trajectory_predicate.score_predicate(filters), *validity)


def _one(value: object) -> tuple[str, ...] | None:
    return None if value is None else (str(value),)


def _add_scope(scope: Scope, wanted: Conditions, facets: list[str]) -> None:
    if scope.agent_id is not None:
        if scope.mode is ScopeMode.CONSTELLATION:
            own = (scope.tenant, scope.agent_id)
            wanted.add(_CONSTELLATION, *own, *own, scope.tenant, *own)
        else:
            wanted.add("r.agent_id = ?", scope.agent_id)
            facets.append(facet_token("a", scope.agent_id))
    for name, token in (("user_id", "u"), ("conversation_id", "c")):
        value = getattr(scope, name)
        if value is not None:
            wanted.add(f"r.{name} = ?", value)
            facets.append(facet_token(token, value))


def _add_filters(filters: Filters, wanted: Conditions, facets: list[str]) -> None:
    if filters.agent_ids is not None:
        wanted.add(f"r.agent_id {AMONG}", json.dumps(filters.agent_ids))  # one parameter for any number of values
    for name in _EQUAL:
        value = getattr(filters, name)
        if value is not None:
            wanted.add(f"r.{name} = ?", str(value))
    if filters.speech_acts is not None:
        wanted.add("r.acts & ? != 0", sum(act.bit for act in set(filters.speech_acts)))
    for name, token in (("user_id", "u"), ("conversation_id", "c"), ("session", "s")):
        value = getattr(filters, name)
        if value is not None:
            facets.append(facet_token(token, value))
    for value, sign in ((filters.start_time, ">="), (filters.end_time, "<")):
        if value is not None:
            wanted.add(f"r.created_at {sign} ?", to_microseconds(value))
    for tag in dict.fromkeys(filters.tags or ()):
        wanted.add("EXISTS (SELECT 1 FROM record_tags g WHERE g.tag = ? AND g.record = r.rowid)", tag)
    _add_validity(filters, wanted)


def _add_validity(filters: Filters, wanted: Conditions) -> None:
    moment = to_microseconds(filters.as_of)
    if moment is not None:
        wanted.add("(r.created_at IS NULL OR r.created_at <= ?)", moment)
    if filters.include_superseded:
        return
    if moment is None:
        wanted.add("r.superseded_by IS NULL")
    else:
        wanted.add("(r.valid_until IS NULL OR r.valid_until > ?)", moment)


def _kinds(content_types: Iterable[ContentType | str] | None) -> list[str] | None:
    if content_types is None:
        return None
    given = [content_types] if isinstance(content_types, str) else list(content_types)
    allowed = [kind.value for kind in ContentType]
    for kind in given:
        if kind not in allowed:
            raise InvalidInputError("content_types", kind, ", ".join(allowed))
    if not given:
        raise InvalidInputError("content_types", given, "at least one of " + ", ".join(allowed))
    kinds = list(dict.fromkeys(str(kind) for kind in given))
    return None if len(kinds) == len(allowed) else kinds
