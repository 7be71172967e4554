"""Exports in JSON: one value for the whole file, or one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.imports.external_memory import SourceError
from recall_loop.memory.parsing.json_lines import InvalidLine, loads_strictly, parse_object, raw_lines
from recall_loop.state.errors import display_value

_BOM = "\ufeff"


def load_json(path: Path) -> Any:
    """Return the one JSON value that a file holds; None if it holds one object a line.

    Raises:
        SourceError: it is missing, or neither of both.
    """
    try:
        text = path.read_text(encoding="utf-8").removeprefix(_BOM).strip()
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

    Raises:
        SourceError: `value` is no list.
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
