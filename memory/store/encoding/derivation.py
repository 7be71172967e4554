"""What the store derives where a record doesn't say it, the same on every way in: id, kind and time (API-2)."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from recall_loop.state.types import ContentType

CREATED_AT, POSITION = "created_at", "position"
_FACT_FIELDS = ("subject", "fact_type", "object", "source_ids", "valid_until", "superseded_by")
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u, which are easily misread
_MAX_COUNT = 1 << 12
_last = (0, 0)
_lock = threading.Lock()


def derive_id() -> str:
    """Return a new id of 20 letters and digits, which sorts by time; those of one process in the order of their making.

    As in a UUID of version 7 its bits are milliseconds since 1970 (48), a counter (12) and chance (40); it is shorter
    because ids stand in every context block.
    """
    global _last  # noqa: PLW0603  # one clock for the process
    with _lock:
        millisecond, count = max((time.time_ns() // 1_000_000, 0), (_last[0], _last[1] + 1))
        if count >= _MAX_COUNT:
            millisecond, count = millisecond + 1, 0
        _last = millisecond, count
    bits = (millisecond << 52) | (count << 40) | secrets.randbits(40)
    return "".join(_DIGITS[(bits >> shift) & 31] for shift in range(95, -1, -5))


def derive_kind(fields: Mapping[str, Any]) -> ContentType:
    """Return the kind of a record that names none.

    A record with a subject, a fact type, an object, sources or an end is a fact; one with a label is an archival entry;
    any other is a message.
    """
    if any(fields.get(name) not in (None, (), []) for name in _FACT_FIELDS):
        return ContentType.FACT
    return ContentType.ARCHIVAL if fields.get("label") is not None else ContentType.MESSAGE


def derive_fields(fields: Mapping[str, Any], given: Collection[str], now: datetime) -> dict[str, Any]:
    """Return the id, kind and `created_at` that a record lacks; `given` are the names of the fields that it states.

    A `created_at` that is stated as None is an unknown time, and stays so.
    """
    derived: dict[str, Any] = {}
    if fields.get("id") is None:
        derived["id"] = derive_id()
    if fields.get("kind") is None:
        derived["kind"] = derive_kind(fields)
    if CREATED_AT not in given:
        derived[CREATED_AT] = now
    return derived
