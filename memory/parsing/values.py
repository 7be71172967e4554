"""Small values of foreign records: texts, counts and times; None for anything else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from recall_loop.memory.parsing.to_json import clean_text
from recall_loop.state.types import Role, Timestamp

_MILLISECONDS_FROM = 1e11  # seconds reach this in the year 5138
_MAX_NUMBER = 2**53
_ROLES = frozenset(Role)
_TIMESTAMP: TypeAdapter[datetime] = TypeAdapter(Timestamp)


def to_text(value: Any) -> str | None:
    """Return `value` as text without characters that no store can hold; None stays None, and blank text is None."""
    if value is None:
        return None
    text = clean_text(value if isinstance(value, str) else str(getattr(value, "value", value)))
    return text if text.strip() else None


def known_role(value: object) -> str | None:
    """Return a role that records know, or None."""
    return value if isinstance(value, str) and value in _ROLES else None


def to_error(value: Any) -> str | None:
    """Return an error as text; `false`, 0 and empty values say that there is none."""
    return to_text(value) if value else None


def to_count(value: Any) -> int | None:
    """Return a whole number from 0 up, or None."""
    seconds = to_seconds(value)
    return None if seconds is None else int(seconds)


def to_seconds(value: Any) -> float | None:
    """Return a number of seconds from 0 up, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MAX_NUMBER:
        return None
    return float(value)


def to_datetime(value: Any) -> datetime | None:
    """Return a time in UTC: of a datetime, an RFC 3339 text, or seconds (or milliseconds) since 1970."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC) if value > 0 else None
        return _TIMESTAMP.validate_python(value)
    except (ValueError, OverflowError, OSError):  # no time, or none between the years 1 and 9999
        return None
