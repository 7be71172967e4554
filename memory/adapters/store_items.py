"""Items of the LangGraph store as records: their ids, tags and texts. Pure functions.

An item is one record, which holds its namespace, key and value and is indexed by the first of its texts. Each further
text is a record of its own, a part of the item, so that every text has a vector and the best one counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from recall_loop.memory.store.encoding.indexing import digest
from recall_loop.state.records.records import Record

ITEM_ATTRIBUTE = "langgraph_store"
PART_ATTRIBUTE = "langgraph_store_part"
INDEXED_TAG = "langgraph-store:indexed"

Namespace = tuple[str, ...]
OwnerIds = tuple[str | None, str | None]


def item_id(owners: OwnerIds, namespace: Namespace, key: str) -> str:
    """Return the id of the record that holds an item of an agent and a user, either may be None."""
    return f"item-{digest(*owners, json.dumps([*namespace, key]))}"


def prefix_tag(owners: OwnerIds, prefix: Sequence[str]) -> str:
    """Return the tag of all items of an agent and a user, either may be None, whose namespace begins with `prefix`.

    A scope without a user reads the records of all users, so that the scope alone doesn't keep items apart.
    """
    return f"langgraph-store:{digest(*owners, *prefix)}"


def is_item(record: Record) -> bool:
    """Return whether a record holds an item, and isn't a part of one."""
    return ITEM_ATTRIBUTE in record.attributes


def stored_item(record: Record) -> dict[str, Any]:
    """Return what a record's attributes hold of an item: namespace, key and value, its time to live and its parts."""
    stored: Any = record.attributes[ITEM_ATTRIBUTE]
    return dict(stored)


def item_fields(record: Record) -> dict[str, Any]:
    """Return an item's fields, as LangGraph names them."""
    stored = stored_item(record)
    created_at = record.created_at or datetime.now(UTC)
    times = {"created_at": created_at, "updated_at": record.updated_at or created_at}
    return {"namespace": tuple(stored["namespace"]), "key": stored["key"], "value": stored["value"], **times}


def item_records(item: dict[str, Any], common: dict[str, Any], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the fields of the records of an item: the one that holds it, then one for each text but the first.

    `item` is its namespace, key and value, and its time to live if it has one; `common` are the other fields of all its
    records. Without texts it isn't indexed, and its key replaces the text, a blank one in quotes.
    """
    tags = [*common["tags"], *([INDEXED_TAG] if texts else [])]
    held = item if len(texts) < 2 else {**item, "parts": len(texts) - 1}
    key = item["key"] if item["key"].strip() else json.dumps(item["key"])  # no record has a blank text
    head = {**common, "tags": tags, "text": texts[0] if texts else key, "attributes": {ITEM_ATTRIBUTE: held}}
    part = {"item": common["id"], "namespace": item["namespace"], "key": item["key"]}
    parts = [
        {**head, "id": one, "text": text, "attributes": {PART_ATTRIBUTE: part}}
        for one, text in zip(part_ids(common["id"], len(texts) - 1), texts[1:], strict=True)
    ]
    return [head, *parts]


def later_expiries(records: Iterable[Record], now: datetime) -> dict[str, datetime]:
    """Return when the records of items that were read expire from now on, where that is notably later than before.

    Less than a hundredth of their time to live isn't, so that what is read all the time isn't written all the time.
    """
    moments: dict[str, datetime] = {}
    for record in records:
        minutes = stored_item(record).get("ttl")
        if record.expires_at is not None and minutes is not None:
            time_to_live = timedelta(minutes=minutes)
            if now + time_to_live - record.expires_at > time_to_live / 100:
                moments |= dict.fromkeys(ids_of(record), now + time_to_live)
    return moments


def part_ids(record_id: str, count: int) -> list[str]:
    """Return the ids of the first `count` parts of an item."""
    return [f"{record_id}-{number}" for number in range(1, count + 1)]


def ids_of(record: Record) -> list[str]:
    """Return the ids of all records of the item that a record holds."""
    return [record.id, *part_ids(record.id, stored_item(record).get("parts", 0))]


def is_part_id(record_id: str) -> bool:
    """Return whether an id is that of a part of an item."""
    return record_id.count("-") > 1


def holder_id(record: Record) -> str:
    """Return the id of the record that holds the item which a record is, or is a part of."""
    part: Any = record.attributes.get(PART_ATTRIBUTE)
    return str(part["item"]) if part else record.id


def best_similarities(found: Iterable[tuple[Record, float]], holders: dict[str, Record]) -> dict[str, float]:
    """Return the ids of the records that hold the items which were found, best first, with their best similarity.

    A part that is older than its item was left by a crash; it says nothing about the item any more.
    """
    best: dict[str, float] = {}
    for record, similarity in found:
        holder = holders.get(holder_id(record))
        if holder is not None and is_item(holder) and holder.updated_at == record.updated_at:
            best[holder.id] = max(similarity, best.get(holder.id, 0.0))
    return best
