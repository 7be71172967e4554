"""LangGraph's long-term store on Recall Loop (OPS-5): `compile(store=RecallLoopStore(memory))`.

An item is a record of kind archival (or fact), so that the loop finds what langmem's tools or a graph's nodes have put
there; the adapter itself sees its own items only. The record's attributes hold namespace, key and value, the text of
the item's `fields` is indexed, and each prefix of the namespace is a tag, which both retrievers filter by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from recall_loop.memory.adapters.store_config import (
    DEFAULT_SWEEP_MINUTES,
    check_minutes,
    checked_put,
    checked_ttl,
    index_fields,
)
from recall_loop.memory.adapters.store_items import (
    ids_of,
    is_part_id,
    item_fields,
    item_id,
    item_records,
    later_expiries,
    prefix_tag,
)
from recall_loop.memory.adapters.store_reads import ItemReads, check_namespaces
from recall_loop.memory.adapters.store_sweeper import Sweeper
from recall_loop.memory.adapters.store_values import indexable_texts
from recall_loop.memory.store.files.store_place import check_store
from recall_loop.state.errors import InvalidInputError, RejectedRecordsError, validate_model
from recall_loop.state.records.records import Record
from recall_loop.state.scope import DEFAULT_TENANT, Scope
from recall_loop.state.types import ContentType

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore

# Parts of an item, with the fields of the record that they are built from: errors name them.
_PARTS = {"tags": "namespace", "text": "key"}


class RecallLoopStore(BaseStore):
    """A LangGraph store whose items are records of one tenant of a `MemoryStore`.

    Searches with a query run both retrievers (words and meaning) and return each item's similarity in [0,1] as its
    score, best item first; if an item has several texts, the best one counts. If fewer items match than requested,
    those that aren't indexed follow, without a score; so do matches beyond the best 1,000 texts. Without a query, items
    come in the order in which they were first put.

    A batch reads before it writes; of several puts to one key, the last one counts. Every method may be called from
    several threads; the asynchronous ones run in threads.

    An item is left out everywhere once its time to live is over, `sweep_ttl` erases it, and a read restarts its time
    (unless the configuration or the call says otherwise, or the store is read-only).

    Attributes:
        index_config: the configuration of the index as it was given.
        ttl_config: the configuration of times to live as it was given.
    """

    supports_ttl = True

    def __init__(
        self,
        store: MemoryStore,
        *,
        tenant: str = DEFAULT_TENANT,
        agent_id: str | None = None,
        user_id: str | None = None,
        kind: Literal["archival", "fact"] = "archival",
        fields: Sequence[str] | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Bind a store and the owners of the items; no call can choose others.

        Args:
            store: the store, open for writing where items are put.
            tenant: the tenant.
            agent_id: the agent that the items belong to; others' items are not seen.
            user_id: the user that the items belong to; others' items are not seen.
            kind: kind of the records.
            fields: paths in a value whose texts are indexed, each for itself, as LangGraph writes them; `$`, the
                default, is the whole value as one text.
            index: the same as LangGraph's configuration, with `fields`, `dims` and `embed`. The store's own embedder
                makes all vectors, so that `dims` and `embed` must be those it was opened with; `embed` is compared
                by one text.
            ttl: LangGraph's configuration of times to live, in minutes: `default_ttl` of items that are put without one
                (absent = they stay), `refresh_on_read` (true), `sweep_interval_minutes` of `start_ttl_sweeper` (5).

        Raises:
            InvalidInputError: an argument is not allowed.
            UnsupportedOptionError: `ttl` asks for expired items.
        """
        check_store(store)
        if kind not in ("archival", "fact"):
            raise InvalidInputError("kind", kind, "archival or fact")
        given = {"tenant": tenant, "agent_id": agent_id, "user_id": user_id}
        self._scope = validate_model(Scope, {name: value for name, value in given.items() if value is not None})
        self._owners = (self._scope.agent_id, self._scope.user_id)
        self._store, self._kind = store, ContentType(kind)
        self._items = ItemReads(store, self._scope, self._owners, self._kind)
        self.index_config, self._fields = index, index_fields(store, kind, index, fields)
        self.ttl_config = checked_ttl(ttl)
        self._sweeper = Sweeper(self.sweep_ttl)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations, reads first, and return results in the order of `ops`.

        Raises:
            InvalidInputError: an operation is not allowed; nothing was written. Its field is the path to what is wrong,
                such as `value.profile.tags[2]`.
            InvalidNamespaceError: a label of a namespace is empty, no text, or has a period.
            StoreUnavailableError: the store fails.
        """
        ops = list(ops)
        for op in ops:
            check_namespaces(op)
            validate_op_namespace(op)
        puts = {(tuple(op.namespace), op.key): checked_put(op) for op in ops if isinstance(op, PutOp)}
        results = [self._read(op) for op in ops]
        if puts:
            self._put(list(puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`, with nothing blocking on the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, PutOp):
            return None
        if isinstance(op, GetOp):
            held = self._items.held([item_id(self._owners, tuple(op.namespace), op.key)])
            self._refresh(held if op.refresh_ttl else ())
            return Item(**item_fields(held[0])) if held else None
        if isinstance(op, SearchOp):
            found = self._items.search(op)
            self._refresh([record for record, _ in found] if op.refresh_ttl else ())
            return [SearchItem(**item_fields(record), score=score) for record, score in found]
        if isinstance(op, ListNamespacesOp):
            return self._items.namespaces(op)
        raise InvalidInputError("op", op, "GetOp, PutOp, SearchOp or ListNamespacesOp")

    # Writing

    def _put(self, ops: Sequence[PutOp]) -> None:
        now = datetime.now(UTC)
        with self._store.exclusive(self._scope.tenant):
            by_id = {item_id(self._owners, op.namespace, op.key): op for op in ops}
            known = {record.id: record for record in self._items.held(by_id)}
            written = {
                one["id"]: (op, one)
                for key, op in by_id.items()
                if op.value is not None
                for one in self._records(key, op, known.get(key), now)
            }
            try:
                self._store.upsert([one for _, one in written.values()], tenant=self._scope.tenant)
            except RejectedRecordsError as error:
                wrong = error.rejections[0]
                part = _PARTS.get(wrong.field.partition(".")[0], "value")
                op, _ = list(written.values())[wrong.index]
                raise InvalidInputError(part, getattr(op, part), wrong.allowed) from error
            old = [one for record in known.values() for one in ids_of(record) if one not in written]
            self._store.delete(old, tenant=self._scope.tenant)

    def _records(self, record_id: str, op: PutOp, known: Record | None, now: datetime) -> list[dict[str, Any]]:
        """Return the fields of the records of an item that is put."""
        texts = indexable_texts(op.value or {}, self._fields if op.index is None else op.index or ())
        common = {
            "id": record_id,
            "kind": self._kind.value,
            "tags": [prefix_tag(self._owners, op.namespace[:depth]) for depth in range(len(op.namespace) + 1)],
            "agent_id": self._scope.agent_id,
            "user_id": self._scope.user_id,
            "created_at": known.created_at if known else now,
            "updated_at": now,
        }
        item = {"namespace": list(op.namespace), "key": op.key, "value": op.value}
        if op.ttl is None:
            return item_records(item, common, texts)
        return item_records({**item, "ttl": op.ttl}, {**common, "expires_at": now + timedelta(minutes=op.ttl)}, texts)

    def _refresh(self, read: Iterable[Record]) -> None:
        """Restart the times to live of items that were read."""
        moments = later_expiries(read, datetime.now(UTC))
        if moments and self._store.writable:
            self._store.prolong(moments, tenant=self._scope.tenant)

    # Expiry

    def sweep_ttl(self) -> int:
        """Erase the items that have expired; return how many there were.

        Raises:
            StoreUnavailableError: the store fails.
            StoreReadOnlyError: the store is open for reading only.
        """
        with self._store.exclusive(self._scope.tenant):
            expired = self._store.expired_ids(self._scope, self._items.filters(()), [self._kind])
            self._store.delete(expired, tenant=self._scope.tenant)
        return sum(not is_part_id(one) for one in expired)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep periodically in a thread; interval in minutes, by default as configured, else 5.

        Returns:
            A future that is done when the thread has ended; cancelling it ends the thread. One that runs is kept.

        Raises:
            InvalidInputError: the interval is not allowed.
        """
        check_minutes(sweep_interval_minutes, "sweep_interval_minutes")
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        return self._sweeper.start(sweep_interval_minutes or configured or DEFAULT_SWEEP_MINUTES)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the thread that sweeps and wait for it, at most `timeout` seconds; return whether it has ended."""
        return self._sweeper.stop(timeout)
