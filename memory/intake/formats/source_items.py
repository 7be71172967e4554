"""What the readers of all formats yield: a file's items, one at a time, as fields of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from recall_loop.memory.parsing.foreign_json import InvalidLine, clean_text, to_datetime
from recall_loop.state.errors import InvalidInputError

_TIMES = ("created_at", "updated_at", "expires_at", "valid_until")


class UnreadableFileError(InvalidInputError):
    """A whole file is of a kind that can't be read; names the kind and the remedy."""

    def __init__(self, path: object, what: str, instead: str) -> None:
        super().__init__(str(path), what, instead)
        self.args = (f"{path}: is {what}; {instead}",)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An item that isn't kept on purpose: why, in words for many such items, such as "system messages"."""

    reason: str


WITHOUT_TEXT = LeftOut("messages without text")


@dataclass(frozen=True, slots=True)
class SourceItem:
    """One item of a file: its line, row or place, from 1, and the fields of its record, or why there is none.

    `raw` is the item as in the file, for the rejects file. `warning` says how its record deviates from what it says,
    such as in its time. `end` is the byte offset after it; None if the file isn't read by lines.
    """

    number: int
    outcome: dict[str, Any] | InvalidLine | LeftOut
    raw: str
    warning: str | None = None
    end: int | None = None


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and one of anything else."""
    return value if isinstance(value, list) else [value]


def listed(value: Any) -> list[Any]:
    """Return a list as it is, and an empty one for anything else."""
    return value if isinstance(value, list) else []


def file_title(path: Path) -> str:
    """Return a file's name without its ending, as text that a record can hold: names of files need be no Unicode."""
    return clean_text(path.stem)


def with_zoned_times(fields: Mapping[str, Any], zone: tzinfo | None = None) -> dict[str, Any]:
    """Return fields whose times may be written in any way that `to_datetime` reads, or without a zone, as text."""
    found = dict(fields)
    for name in _TIMES:
        value = found.get(name)
        if zone is not None and isinstance(value, str) and (unzoned := _unzoned(value)):
            found[name] = unzoned.replace(tzinfo=zone).isoformat()
        elif moment := to_datetime(value):
            found[name] = moment.isoformat()
    return found


def epoch_time(value: object) -> str | None:
    """Return a time of an export as RFC 3339 text: seconds or milliseconds since 1970, also as text, or a date-time.

    One that is written without a zone has none here either.
    """
    if isinstance(value, str) and (unzoned := _unzoned(value)):
        return unzoned.isoformat()
    moment = to_datetime(value)
    return moment.isoformat() if moment else None


def _unzoned(text: str) -> datetime | None:
    """Return a date or date-time that is written without a zone."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo is None else None
