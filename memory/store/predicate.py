"""Scope, filters and content types as one SQL predicate: the wall that every read passes (STORE-3).

Table alias `r` is `records`. The tenant always comes first, and no part of the predicate is
evaluated anywhere but in SQLite, over the record itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from recall_loop.memory.store.indexing import facet, microseconds
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType, ScopeMode

# Agents that share a group with the given one, and the records of those groups (SEARCH-4).
_CONSTELLATION = """(r.agent_id = ?
 OR r.agent_id IN (SELECT other.agent_id FROM memberships mine JOIN memberships other
      ON other.tenant = mine.tenant AND other.group_id = mine.group_id
      WHERE mine.tenant = ? AND mine.agent_id = ?)
 OR r.group_id IN (SELECT group_id FROM memberships WHERE tenant = ? AND agent_id = ?))"""

_EQUAL = ("role", "label", "fact_type", "conversation_id", "session", "user_id")


@dataclass(frozen=True, slots=True)
class Predicate:
    """A compiled predicate.

    Attributes:
        tenant: the tenant that it is confined to.
        where: SQL over `records r`.
        params: values for its question marks.
        facets: FTS5 expression that holds for every row that `where` allows; narrows the lexical index.
    """

    tenant: str
    where: str
    params: tuple[Any, ...]
    facets: str


def compile_predicate(
    scope: Scope, filters: Filters | None = None, content_types: Iterable[ContentType | str] | None = None
) -> Predicate:
    """Compile what a call may read and what it asks for (SEARCH-3, SEARCH-4).

    `filters.min_similarity` is a property of results, not of records: the search applies it.

    Raises:
        InvalidInputError: an unknown content type, or none at all.
    """
    clauses: list[str] = ["r.tenant = ?"]
    params: list[Any] = [scope.tenant]
    facets = [facet("t", scope.tenant)]
    _add_scope(scope, clauses, params, facets)
    kinds = _kinds(content_types)
    if kinds is not None:
        clauses.append(f"r.kind IN ({_marks(kinds)})")
        params += kinds
    if filters is not None:
        _add_filters(filters, clauses, params, facets)
    narrow = " AND ".join(f'"{token}"' for token in dict.fromkeys(facets))
    return Predicate(scope.tenant, " AND ".join(clauses), tuple(params), f"facets : ({narrow})")


def _add_scope(scope: Scope, clauses: list[str], params: list[Any], facets: list[str]) -> None:
    if scope.agent_id is not None:
        if scope.mode is ScopeMode.CONSTELLATION:
            clauses.append(_CONSTELLATION)
            params += [scope.agent_id, scope.tenant, scope.agent_id, scope.tenant, scope.agent_id]
        else:
            clauses.append("r.agent_id = ?")
            params.append(scope.agent_id)
            facets.append(facet("a", scope.agent_id))
    for name, token in (("user_id", "u"), ("conversation_id", "c")):
        value = getattr(scope, name)
        if value is not None:
            clauses.append(f"r.{name} = ?")
            params.append(value)
            facets.append(facet(token, value))


def _add_filters(filters: Filters, clauses: list[str], params: list[Any], facets: list[str]) -> None:
    if filters.agent_ids is not None:
        clauses.append(f"r.agent_id IN ({_marks(filters.agent_ids)})")
        params += filters.agent_ids
    for name in _EQUAL:
        value = getattr(filters, name)
        if value is not None:
            clauses.append(f"r.{name} = ?")
            params.append(str(value))
    for name, token in (("user_id", "u"), ("conversation_id", "c"), ("session", "s")):
        value = getattr(filters, name)
        if value is not None:
            facets.append(facet(token, value))
    for value, sign in ((filters.start_time, ">="), (filters.end_time, "<")):
        if value is not None:
            clauses.append(f"r.created_at {sign} ?")
            params.append(microseconds(value))
    for tag in dict.fromkeys(filters.tags or ()):
        clauses.append("EXISTS (SELECT 1 FROM record_tags g WHERE g.tag = ? AND g.record = r.rowid)")
        params.append(tag)


def _kinds(content_types: Iterable[ContentType | str] | None) -> list[str] | None:
    """Return the kinds that are asked for, or None for all."""
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


def _marks(values: Iterable[object]) -> str:
    return ",".join("?" for _ in values)
