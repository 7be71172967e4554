"""Reads of the items of the LangGraph store: by id, by query, by filter, and their namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from langgraph.store.base import ListNamespacesOp, SearchOp

from recall_loop.memory.adapters.store_filters import check_counts, check_search, matches_filter, matches_namespace
from recall_loop.memory.adapters.store_items import (
    INDEXED_TAG,
    ITEM_ATTRIBUTE,
    Namespace,
    OwnerIds,
    best_similarities,
    holder_id,
    is_item,
    item_value,
    prefix_tag,
)
from recall_loop.memory.search.engine import search as run_search
from recall_loop.state.records.records import Record
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import MAX_RESULTS, SearchParams
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore

_WIDENING_FACTOR = 4
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
        """Return the records of the items that are asked for, with their similarity if they were ranked by it.

        Raises:
            InvalidInputError: a count, the query, the filter or an operator is not allowed.
        """
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
            )
            items = self._items([(hit.record, hit.similarity) for hit in found.hits])
            passing = [one for one in items if matches_filter(item_value(one[0]), op.filter)]
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
        return ((record, None) for record in records if matches_filter(item_value(record), op.filter))

    def namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        """Return the namespaces that are asked for, sorted.

        Raises:
            InvalidInputError: a count or a condition is not allowed.
        """
        check_counts(op)
        named = self._store.distinct_attribute(
            f"{ITEM_ATTRIBUTE}.namespace", self._scope, self.filters(()), [self._kind]
        )
        every = [tuple(one) for one in named]
        found = [
            one for one in every if all(matches_namespace(one, condition) for condition in op.match_conditions or ())
        ]
        cut = sorted({one[: op.max_depth] for one in found})
        return cut[op.offset : op.offset + op.limit]
