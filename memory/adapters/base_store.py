"""LangGraph's long-term store on Recall Loop (OPS-5): `compile(store=RecallLoopStore(memory))`.

An item is a record of kind archival (or fact), so that the loop finds what langmem's tools or a graph's nodes have put
there; the adapter itself sees its own items only. The record's attributes hold namespace, key and value, the text of
the item's `fields` is indexed, and each prefix of the namespace is a tag, which both retrievers filter by.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchItem, SearchOp

from recall_loop.memory.adapters.store_items import (
    INDEXED_TAG,
    ITEM_ATTRIBUTE,
    indexable_text,
    matches_filter,
    matches_namespace,
    normalise_containers,
    prefix_tag,
    prefix_tags,
)
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.encoding.indexing import digest
from recall_loop.state.errors import InvalidInputError, UnsupportedOptionError, validate_model
from recall_loop.state.records.records import ArchivalEntry, Fact, Record
from recall_loop.state.scope import DEFAULT_TENANT, Filters, Scope
from recall_loop.state.search import MAX_RESULTS, SearchParams
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore

Namespace = tuple[str, ...]
_WIDENING_FACTOR = 4


class RecallLoopStore(BaseStore):
    """A LangGraph store whose items are records of one tenant of a `MemoryStore`.

    Searches with a query run both retrievers (words and meaning) and give each item's similarity in [0,1] as its score,
    best item first. If fewer items match than are wanted, those that aren't indexed follow, without a score; so do
    matches beyond the best 1,000. Without a query items come in the order in which they were first put.

    A batch reads before it writes; of several puts with one namespace and key the last one counts. There is no time to
    live: a `ttl` is an error. Every method may be called from several threads; the asynchronous ones run in threads.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        tenant: str = DEFAULT_TENANT,
        agent_id: str | None = None,
        user_id: str | None = None,
        kind: Literal["archival", "fact"] = "archival",
        fields: Sequence[str] = ("$",),
    ) -> None:
        """Bind a store and the owners of the items; no call can choose others.

        Args:
            store: the store, open for writing where items are put.
            tenant: the tenant.
            agent_id: the agent that the items belong to; others' items are not seen.
            user_id: the user that the items belong to; others' items are not seen.
            kind: kind of the records.
            fields: paths in a value whose text is indexed, as LangGraph writes them; `$` is the whole value.

        Raises:
            InvalidInputError: an argument is not allowed.
        """
        if kind not in ("archival", "fact"):
            raise InvalidInputError("kind", kind, "archival or fact")
        if isinstance(fields, str) or not fields:
            raise InvalidInputError("fields", fields, "a list of paths")
        given = {"tenant": tenant, "agent_id": agent_id, "user_id": user_id}
        self._scope = validate_model(Scope, {name: value for name, value in given.items() if value is not None})
        self._owners = (self._scope.agent_id, self._scope.user_id)
        self._store, self._kind, self._fields = store, ContentType(kind), tuple(fields)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations, reads first, and return results in the order of `ops`.

        Raises:
            InvalidInputError: an operation is not allowed; nothing was written.
            UnsupportedOptionError: a time to live is asked for.
            StoreUnavailableError: the store fails.
        """
        ops = list(ops)
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        for op in puts.values():
            _check(op)
        results = [self._read(op) for op in ops]
        if puts:
            self._put(list(puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`; nothing that blocks runs on the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, PutOp):
            return None
        if isinstance(op, GetOp):
            records = self._store.get([self._id(op.namespace, op.key)], scope=self._scope)
            return Item(**_item_fields(records[0])) if records and ITEM_ATTRIBUTE in records[0].attributes else None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise InvalidInputError("op", op, "GetOp, PutOp, SearchOp or ListNamespacesOp")

    # Writing

    def _id(self, namespace: Namespace, key: str) -> str:
        return f"item-{digest(*self._owners, json.dumps([*namespace, key]))}"

    def _put(self, ops: Sequence[PutOp]) -> None:
        now = datetime.now(UTC)
        with self._store.exclusive():
            by_id = {self._id(op.namespace, op.key): op for op in ops}
            known = {record.id: record for record in self._store.get(by_id, scope=Scope(tenant=self._scope.tenant))}
            written = [self._record(key, op, known.get(key), now) for key, op in by_id.items() if op.value is not None]
            outcomes = self._store.upsert(written, tenant=self._scope.tenant)
            self._store.delete([key for key, op in by_id.items() if op.value is None], tenant=self._scope.tenant)
        for outcome in outcomes:
            if outcome.error:
                raise InvalidInputError("value", outcome.id, outcome.error)

    def _record(self, record_id: str, op: PutOp, known: Record | None, now: datetime) -> Record:
        value = normalise_containers(op.value or {})
        text = None if op.index is False else indexable_text(value, self._fields if op.index is None else op.index)
        tags = [*prefix_tags(self._owners, op.namespace), *([INDEXED_TAG] if text else [])]
        fields = {
            "id": record_id,
            "kind": self._kind,
            "text": text or op.key,
            "attributes": {ITEM_ATTRIBUTE: {"namespace": list(op.namespace), "key": op.key, "value": value}},
            "tags": tags,
            "agent_id": self._scope.agent_id,
            "user_id": self._scope.user_id,
            "created_at": known.created_at if known else now,
            "updated_at": now,
        }
        return validate_model(Fact if self._kind is ContentType.FACT else ArchivalEntry, fields, "value")

    # Reading

    def _filters(self, namespace: Namespace, *tags: str) -> Filters:
        return Filters(tags=(prefix_tag(self._owners, namespace), *tags), include_superseded=True)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        for name in ("limit", "offset"):
            value = getattr(op, name)
            if type(value) is not int or value < 0:
                raise InvalidInputError(name, value, "an integer of at least 0")
        wanted = op.offset + op.limit
        if not op.limit:
            return []
        ranked = self._ranked(op, wanted) if op.query and op.query.strip() else []
        if len(ranked) < wanted:
            seen = {(item.namespace, item.key) for item in ranked}
            others = (item for item in self._scanned(op) if (item.namespace, item.key) not in seen)
            ranked += islice(others, wanted - len(ranked))
        return ranked[op.offset : wanted]

    def _ranked(self, op: SearchOp, wanted: int) -> list[SearchItem]:
        """Return items by relevance: as many as are wanted, or those of the best 1,000 that pass the filter."""
        limit, filters = min(wanted, MAX_RESULTS), self._filters(op.namespace_prefix, INDEXED_TAG)
        while True:
            found = search(
                self._store,
                op.query or "",
                scope=self._scope,
                params=SearchParams(content_types=(self._kind,), filters=filters, limit=limit, time_suffixes=False),
            )
            items = [SearchItem(**_item_fields(hit.record), score=hit.similarity) for hit in found.hits]
            passing = [item for item in items if matches_filter(item.value, op.filter)]
            if len(passing) >= wanted or len(items) < limit or limit == MAX_RESULTS:
                return passing
            limit = min(_WIDENING_FACTOR * limit, MAX_RESULTS)

    def _scanned(self, op: SearchOp) -> Iterator[SearchItem]:
        filters = self._filters(op.namespace_prefix)
        items = (SearchItem(**_item_fields(record)) for record in self._store.scan(self._scope, filters, [self._kind]))
        return (item for item in items if matches_filter(item.value, op.filter))

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        named = self._store.distinct_attribute(
            f"{ITEM_ATTRIBUTE}.namespace", self._scope, self._filters(()), [self._kind]
        )
        every = [tuple(one) for one in named]
        found = [
            one for one in every if all(matches_namespace(one, condition) for condition in op.match_conditions or ())
        ]
        cut = sorted({one[: op.max_depth] for one in found})
        return cut[op.offset : op.offset + op.limit]


def _check(op: PutOp) -> None:
    """Refuse what can't be kept, before anything is written."""
    if op.ttl is not None:
        raise UnsupportedOptionError("ttl", op.ttl, "none: items are kept until they are deleted")
    if not op.namespace or not all(isinstance(label, str) for label in op.namespace):
        raise InvalidInputError("namespace", op.namespace, "a tuple of one or more labels")
    key: object = op.key
    if not isinstance(key, str) or not key.strip():
        raise InvalidInputError("key", key, "text with at least one character that is not white space")
    value: object = op.value
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInputError("value", op.value, "a mapping, or None to delete")
    index: object = op.index
    if index not in (None, False) and not isinstance(index, list | tuple):
        raise InvalidInputError("index", op.index, "None, False, or a list of paths")


def _item_fields(record: Record) -> dict[str, Any]:
    """Return what a record says of the item that it holds."""
    stored: Any = record.attributes[ITEM_ATTRIBUTE]
    created_at = record.created_at or datetime.now(UTC)
    times = {"created_at": created_at, "updated_at": record.updated_at or created_at}
    return {"namespace": tuple(stored["namespace"]), "key": stored["key"], "value": stored["value"], **times}
