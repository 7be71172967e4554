"""Reads of the items of the LangGraph store: by id, by query, by filter, and their namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any

from langgraph.store.base import ListNamespacesOp, MatchCondition, Op, SearchOp

from recall_loop.memory.adapters.store_items import (
    INDEXED_TAG,
    ITEM_ATTRIBUTE,
    Namespace,
    OwnerIds,
    best_similarities,
    holder_id,
    is_item,
    prefix_tag,
    stored_item,
)
from recall_loop.memory.search.engine import search as run_search
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import MAX_RESULTS, SearchParams
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore

_WIDENING_FACTOR = 4
_COMPARISONS = {"$eq": eq, "$ne": ne, "$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
FoundItem = tuple[Record, float | None]


@dataclass(frozen=True, slots=True)
class ItemReads:
    """Reads of the items of one agent and one user, either may be None."""

    _store: MemoryStore
    _scope: Scope
    _owners: OwnerIds
    _kind: ContentType

    def held(self, ids: Iterable[str]) -> list[Record]:
        """Return the records that hold items, by id; missing ones are left out."""
        return [record for record in self._store.get(ids, scope=self._scope) if is_item(record)]

    def filters(self, namespace: Namespace, *tags: str) -> Filters:
        """Return the filters of items whose namespace begins with another, parts of items among them."""
        return Filters(tags=(prefix_tag(self._owners, namespace), *tags), include_superseded=True)

    def search(self, op: SearchOp) -> list[FoundItem]:
        """Return the records of the items that are asked for, with their similarity if they were ranked by it."""
        check_counts(op)
        check_search(op)
        wanted = op.offset + op.limit
        if not op.limit:
            return []
        ranked = self._ranked(op, wanted) if op.query and op.query.strip() else []
        if len(ranked) < wanted:
            seen = {record.id for record, _ in ranked}
            ranked += islice((one for one in self._scanned(op) if one[0].id not in seen), wanted - len(ranked))
        return ranked[op.offset : wanted]

    def _ranked(self, op: SearchOp, wanted: int) -> list[FoundItem]:
        """Return items by relevance: as many as are wanted, or those of the best 1,000 texts that pass the filter."""
        limit, filters = min(wanted, MAX_RESULTS), self.filters(op.namespace_prefix, INDEXED_TAG)
        while True:
            found = run_search(
                self._store,
                op.query or "",
                scope=self._scope,
                params=SearchParams(content_types=(self._kind,), filters=filters, limit=limit, time_suffixes=False),
                fallback=False,
            )
            items = self._items([(hit.record, hit.similarity) for hit in found.hits])
            passing = [one for one in items if matches_filter(stored_item(one[0])["value"], op.filter)]
            if len(passing) >= wanted or len(found.hits) < limit or limit == MAX_RESULTS:
                return passing
            limit = min(_WIDENING_FACTOR * limit, MAX_RESULTS)

    def _items(self, found: Sequence[tuple[Record, float]]) -> list[FoundItem]:
        """Return the items that were found, by themselves or by their parts."""
        holders = {record.id: record for record, _ in found}
        missing = {holder_id(record) for record, _ in found} - holders.keys()
        holders |= {record.id: record for record in self.held(missing)} if missing else {}
        return [(holders[one], similarity) for one, similarity in best_similarities(found, holders).items()]

    def _scanned(self, op: SearchOp) -> Iterator[FoundItem]:
        records = filter(is_item, self._store.scan(self._scope, self.filters(op.namespace_prefix), [self._kind]))
        return ((record, None) for record in records if matches_filter(stored_item(record)["value"], op.filter))

    def namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        """Return the namespaces that are asked for, sorted."""
        check_counts(op)
        path, conditions = f"{ITEM_ATTRIBUTE}.namespace", op.match_conditions or ()
        every = map(tuple, self._store.distinct_attribute(path, self._scope, self.filters(()), [self._kind]))
        found = (one for one in every if all(matches_namespace(one, condition) for condition in conditions))
        return sorted({one[: op.max_depth] for one in found})[op.offset : op.offset + op.limit]


def check_namespaces(op: Op) -> None:
    """Raise `InvalidInputError` where a namespace, its prefix or a condition's path isn't a tuple.

    A text would be taken for its letters.
    """
    named = [(name, getattr(op, name)) for name in ("namespace", "namespace_prefix") if hasattr(op, name)]
    if isinstance(op, ListNamespacesOp):
        named += [(condition.match_type, condition.path) for condition in op.match_conditions or ()]
    for name, value in named:
        if not isinstance(value, tuple | list):
            raise InvalidInputError(name, value, "a tuple of labels, such as ('users', 'ann')")


def check_search(op: SearchOp) -> None:
    """Raise `InvalidInputError` where the query or the filter of a search is of another type."""
    query: object = op.query
    if query is not None and not isinstance(query, str):
        raise InvalidInputError("query", query, "text, or None")
    wanted: object = op.filter
    if wanted is not None and not isinstance(wanted, Mapping):
        raise InvalidInputError("filter", wanted, "a mapping of names to values or operators, or None")


def check_counts(op: SearchOp | ListNamespacesOp) -> None:
    """Raise `InvalidInputError` where `limit`, `offset` or `max_depth` is not an integer in its range."""
    for name, least in (("limit", 0), ("offset", 0), ("max_depth", 1)):
        value = getattr(op, name, None)
        if not (value is None and name == "max_depth") and (type(value) is not int or value < least):
            raise InvalidInputError(name, value, f"an integer of at least {least}")


def matches_namespace(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends as a condition says; `*` stands for any one label.

    Another kind of condition raises `InvalidInputError`.
    """
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidInputError("match_type", condition.match_type, "prefix or suffix")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def matches_filter(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Return whether a value matches a filter: equal fields, or fields that satisfy its operators.

    An operator that LangGraph doesn't have raises `InvalidInputError`.
    """
    return all(_matches_value(value.get(name), expected) for name, expected in (wanted or {}).items())


def _matches_value(value: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping):
        if any(str(name).startswith("$") for name in expected):
            return all(_apply_operator(value, name, bound) for name, bound in expected.items())
        return isinstance(value, Mapping) and all(
            _matches_value(value.get(name), one) for name, one in expected.items()
        )
    if isinstance(expected, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(expected)
        return same and all(_matches_value(one, other) for one, other in zip(value, expected, strict=True))
    return bool(value == expected)


def _apply_operator(value: Any, name: str, bound: Any) -> bool:
    """Apply an operator. Numbers compare with numbers and text with text; anything else is neither less nor more."""
    if name not in _COMPARISONS:
        raise InvalidInputError("filter", name, "$eq, $ne, $gt, $gte, $lt or $lte")
    same_kind = (_number(value) and _number(bound)) or (isinstance(value, str) and isinstance(bound, str))
    return (name in ("$eq", "$ne") or same_kind) and bool(_COMPARISONS[name](value, bound))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
