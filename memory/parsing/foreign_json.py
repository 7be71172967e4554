"""Foreign input: JSON Lines, one raw line at a time, and foreign values as plain JSON, times and numbers."""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, JsonValue, TypeAdapter

from recall_loop.state.errors import InvalidInputError, display_value
from recall_loop.state.types import Role, Timestamp

# Attributes hold at most 100 levels, and a value sits some levels down already.
_MAX_JSON_DEPTH = 60
_MAX_INT_BITS = 4096
# What is read of a file is met once; objects that refer to each other would be walked through without end.
_MAX_AGAIN = 10_000
_COMMON, _CONTAINERS = (dict, list), (Mapping, Sequence, set, frozenset, BaseModel)
_UNFIT = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Return `text` with characters that no store can hold (NUL, lone surrogates) replaced by U+FFFD."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNFIT.sub("\ufffd", text)


def attribute(given: object, name: str, absent: Any = None) -> Any:
    """Return an attribute of somebody else's object, or `absent`; raise `InvalidInputError` where it can't be read."""
    try:
        return getattr(given, name, absent)
    except Exception as error:  # whatever a property of theirs may raise
        raise InvalidInputError(name, error, "an attribute that can be read") from error


@dataclass(slots=True)
class _Walk:
    """What a value that is read holds: in what the reader stands, and how often it met a thing again."""

    above: set[int] = field(default_factory=set)
    # Things that were met are held: another one made meanwhile would have the id of one that is gone.
    met: dict[int, object] = field(default_factory=dict)
    again: int = 0


def to_json_value(value: object) -> JsonValue:
    """Return `value` as JSON: unknown objects as their fields or their text, NaN and infinities as words.

    What stands within itself is a word there, and so is what is met again and again beyond any reason.
    """
    return _to_json(value, 0, _Walk())


def _to_json(value: object, depth: int, walk: _Walk) -> JsonValue:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return clean_text(value.value if isinstance(value, Enum) else value)
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_INT_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if type(value) in _COMMON or (isinstance(value, _CONTAINERS) and not isinstance(value, bytes | bytearray)):
        return _container(value, depth, walk)
    return clean_text(_scalar_text(value))


def _container(value: object, depth: int, walk: _Walk) -> JsonValue:
    own, known = id(value), id(value) in walk.met
    walk.again += known
    if own in walk.above or (known and walk.again > _MAX_AGAIN):
        return f"<{type(value).__name__} within itself>" if own in walk.above else f"<{type(value).__name__} again>"
    if depth >= _MAX_JSON_DEPTH:
        try:
            return clean_text(json.dumps(value, ensure_ascii=False, default=str))
        except (RecursionError, ValueError, TypeError):
            return f"<{type(value).__name__} nested too deeply>"
    walk.met[own] = value
    walk.above.add(own)
    found = _items_as_json(value, depth + 1, walk)
    walk.above.discard(own)
    return found


def _items_as_json(value: object, depth: int, walk: _Walk) -> JsonValue:
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {clean_text(_written(key)): _to_json(item, depth, walk) for key, item in value.items()}
    items = sorted(value, key=display_value) if isinstance(value, set | frozenset) else value
    return [_to_json(item, depth, walk) for item in items]  # type: ignore[attr-defined]  # a sequence by now


def _scalar_text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    return _written(value)


def _written(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # whatever somebody else's object may raise; others tell as little of themselves
        return f"<{type(value).__name__}>"


def to_json_object(value: Mapping[str, object]) -> dict[str, JsonValue]:
    """Return a mapping as a JSON object, without None and empty values."""
    return {
        clean_text(_written(key)): to_json_value(item)
        for key, item in value.items()
        if item is not None and not (isinstance(item, str | list | dict | tuple) and not item)
    }


_MILLISECONDS_FROM = 1e11  # seconds reach this in the year 5138
_MAX_NUMBER = 2**53
# Fewer digits are a year, or a day without hyphens.
_EPOCH = re.compile(r"\d{9,13}(?:\.\d+)?")
_ZULU = re.compile(r"(?<=\d) ?(?:UTC|GMT)$")
# As in mail and HTTP; its reader takes other texts too, but leaves out `PM`.
_MAIL_DATE = re.compile(r"(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)? (?:UTC|GMT|[+-]\d{4})")
_ROLES = frozenset(Role)
_TIMESTAMP: TypeAdapter[datetime] = TypeAdapter(Timestamp)


def to_text(value: Any) -> str | None:
    """Return `value` as text without characters that no store can hold; None stays None, and blank text is None."""
    if value is None:
        return None
    text = clean_text(value if isinstance(value, str) else _written(attribute(value, "value", value)))
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
    """Return a time in UTC: of a datetime, or seconds (or milliseconds) since 1970, also as text, or a written time.

    It is written as in RFC 3339, also with `UTC` at its end, or as in mail.
    """
    try:
        if isinstance(value, str):
            text = value.strip()
            value = _ZULU.sub("Z", text)
            if _EPOCH.fullmatch(text):
                value = float(text)
            elif _MAIL_DATE.fullmatch(text):
                value = parsedate_to_datetime(text)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC) if value > 0 else None
        return _TIMESTAMP.validate_python(value)
    except (ValueError, OverflowError, OSError):  # not a time, or outside the years 1 to 9999
        return None


MAX_LINE_BYTES = 16 * 1024 * 1024
_SHOWN_RAW = 1_000_000
_SHOWN_KEY = 200


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line that isn't blank. `number` counts from 1; `end` is the byte offset just after it."""

    number: int
    end: int
    data: bytes
    too_long: bool = False


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """A line that can't be used: why, and the line itself as printable text."""

    reason: str
    raw: str


def raw_lines(path: Path, max_bytes: int = MAX_LINE_BYTES) -> Iterator[RawLine]:
    """Yield the lines of `path` without loading the file; blank lines are counted and skipped.

    A line longer than `max_bytes` is yielded cut off, with `too_long`; -1 sets no bound. A byte order mark is dropped.
    """
    with path.open("rb") as file:
        number = end = 0
        while data := file.readline(max_bytes):
            number += 1
            end += len(data)
            too_long = len(data) == max_bytes and not data.endswith(b"\n")
            rest = data
            while too_long and rest and not rest.endswith(b"\n"):
                rest = file.readline(MAX_LINE_BYTES)
                end += len(rest)
            if body := (data.removeprefix(BOM_UTF8) if number == 1 else data).strip():
                yield RawLine(number, end, body, too_long)


def loads_strictly(text: str) -> Any:
    """Return the JSON value of a text; raise `RecursionError` where it is nested too deeply.

    Raises `ValueError` where it is no JSON, which has no NaN and no infinity, or an object of it has a key twice.
    """
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice[:_SHOWN_KEY]!r} occurs twice in an object")
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def parse_object(line: RawLine, loads: Callable[[str], Any] = loads_strictly) -> dict[str, Any] | InvalidLine:
    """Return the JSON object that the line holds, or why it holds none."""
    if line.too_long:
        reason = f"longer than {MAX_LINE_BYTES // 1024 // 1024} MiB"
    else:
        try:
            value = loads(line.data.decode("utf-8"))
            if isinstance(value, dict):
                return value
            reason = f"not a JSON object but {type(value).__name__}"
        except UnicodeDecodeError as error:
            reason = f"not UTF-8: byte {error.start} of the line"
        except (ValueError, RecursionError) as error:
            reason = f"not JSON: {str(error) or 'nested too deeply'}"
    return InvalidLine(reason, to_printable(line.data))


def to_printable(data: bytes) -> str:
    """Return raw bytes as text that UTF-8 can carry; foreign bytes are shown as escapes."""
    return data[:_SHOWN_RAW].decode("utf-8", "backslashreplace")


def raw_json(value: Any) -> str:
    """Return a JSON value as it is shown where it can't be used."""
    return to_printable(json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
