"""Memories of other systems: their items, owners and JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from recall_loop.memory.parsing.foreign_json import InvalidLine, loads_strictly, parse_object, raw_lines
from recall_loop.state.errors import RecallError, display_value

_MAX_ID_LENGTH = 512
_MAX_VALUES = 100_000
_MAX_DEPTH = 90


class SourceError(RecallError):
    """A source can't be read: it is missing, damaged, or not of the kind that was named."""


@dataclass(frozen=True, slots=True)
class ImportItem:
    """One item of a source.

    Exactly one of `fields` (a record's fields), `reason` (why it can't be used) and `left_out` (why it isn't
    wanted) is given. `location` says where it is in the source, `raw` is its text there.
    """

    location: str
    raw: str = ""
    fields: Mapping[str, Any] | None = None
    reason: str | None = None
    left_out: str | None = None


class ImportSource(Protocol):
    """One place of another system: a file or folder, and what it is, for a person."""

    path: Path
    description: str

    def items(self) -> Iterator[ImportItem]:
        """Yield every item, in the same order each time; raise `SourceError` where it can't be read."""
        ...


@dataclass(frozen=True, slots=True)
class DefaultOwner:
    """The owner of items that name none themselves."""

    user_id: str | None = None
    agent_id: str | None = None
    group_id: str | None = None

    def fill(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields, completed where they name no user, agent or group."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return fields | {name: value for name, value in given.items() if not fields.get(name)}


def to_json_checked(value: Any) -> Any:
    """Return a foreign value as JSON: dates as text, sets and tuples as lists.

    Raises `ValueError` where it holds something that JSON has no word for, nests too deeply, or holds more than 100,000
    values: a small file can describe a huge value by naming one part many times.
    """
    return _to_json(value, 0, count())


def _to_json(value: Any, depth: int, visited: Iterator[int]) -> Any:
    if next(visited) >= _MAX_VALUES:
        raise ValueError(f"more than {_MAX_VALUES:,} values")
    if depth > _MAX_DEPTH:
        raise ValueError(f"more than {_MAX_DEPTH} levels of nesting")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _to_json(part, depth + 1, visited) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(part, depth + 1, visited) for part in value]
    if isinstance(value, set | frozenset):
        return sorted((_to_json(part, depth + 1, visited) for part in value), key=str)
    raise ValueError(f"a value of kind {type(value).__name__}, which JSON can't represent")


def stable_id(*parts: str) -> str:
    """Return the parts joined by slashes; a result that is too long for an id ends in a hash of the whole."""
    whole = "/".join(parts)
    if len(whole) <= _MAX_ID_LENGTH:
        return whole
    digest = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return f"{whole[: _MAX_ID_LENGTH - 33]}-{digest}"


def to_identifier(value: object) -> str | None:
    """Return a foreign id or name as text; None for blank text and for what is neither text nor a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) if str(value).strip() else None


def is_past(moment: object, *, day: bool = False) -> bool:
    """Return whether an ISO date or time is in the past, or with `day` whether that day is over; False if invalid."""
    if not isinstance(moment, str):
        return False
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return False
    now = datetime.now(UTC)
    if day:
        return parsed.date() < now.date()
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) < now


def load_json(path: Path) -> Any:
    """Return the one JSON value that a file holds; None if it holds one object a line.

    Raises `SourceError` where it is missing, or neither of both.
    """
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: can't be read: {error}") from error
    try:
        return loads_strictly(text)
    except (ValueError, RecursionError) as error:
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(text.partition("\n")[0]), dict):
                return None
        raise SourceError(f"{path}: not JSON: {str(error) or 'nested too deeply'}") from error


def iter_objects(path: Path, value: Any, words: str) -> Iterator[tuple[str, dict[str, Any] | InvalidLine]]:
    """Yield the objects of a list, or of the file's lines where `value` is None, each with its location.

    Raises `SourceError` where `value` is no list.
    """
    if value is None:
        for line in raw_lines(path):
            yield f"line {line.number}", parse_object(line)
        return
    if not isinstance(value, list):
        raise SourceError(f"{path}: holds {type(value).__name__}, not {words}")
    for number, found in enumerate(value, start=1):
        if isinstance(found, dict):
            yield f"item {number}", found
        else:
            shown = display_value(found)
            yield f"item {number}", InvalidLine(f"not an object: {shown}", shown)


def to_json_text(value: Any) -> str:
    """Return a foreign item as one line of JSON, for the rejects file."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        text = display_value(value)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
