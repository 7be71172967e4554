"""JSON files of data sets: JSON Lines, large lists item by item, and single values."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from recall_loop.memory.parsing.foreign_json import InvalidLine, parse_object, raw_lines
from recall_loop.state.errors import InvalidInputError

_CHUNK = 4 * 1024 * 1024
_SPACE = " \t\n\r"
_LIST = "a JSON list of objects in UTF-8"


class PublishedModel(BaseModel):
    """The fields that are read of an object that others publish; its other fields are ignored."""

    model_config = ConfigDict(extra="ignore")


@dataclass(frozen=True, slots=True)
class JsonItem:
    """One object of a file, of a list or in a line: its number from 1, and the position of its bytes."""

    path: Path
    number: int
    start: int
    end: int
    value: dict[str, Any]
    unit: str = "item"

    @property
    def location(self) -> str:
        """File and item or line, as errors name them."""
        return f"{self.path.name} {self.unit} {self.number}"

    def without_value(self) -> JsonItem:
        """Return the position of the object, for reading it again."""
        return replace(self, value={})


def iter_lines(path: Path) -> Iterator[JsonItem]:
    """Yield the object of every line that isn't blank; its bytes begin with the blank lines before it.

    A line that holds no JSON object raises `InvalidInputError`.
    """
    start = 0
    for line in raw_lines(path):
        item, value = JsonItem(path, line.number, start, line.end, {}, "line"), parse_object(line)
        if isinstance(value, InvalidLine):
            raise InvalidInputError(item.location, value.reason, "one JSON object in UTF-8")
        yield replace(item, value=value)
        start = line.end


def iter_items(path: Path) -> Iterator[JsonItem]:
    """Yield the objects of the list that a file holds; raise `InvalidInputError` where it holds none, or breaks off."""
    with path.open("rb") as file:
        text = _JsonListScanner(path, file)
        if text.skip() != "[":
            raise InvalidInputError(path.name, text.ahead(), _LIST)
        text.take(1)
        while (sign := text.skip()) != "]":
            if text.number and sign == ",":
                text.take(1)
                text.skip()
            elif text.number:
                raise InvalidInputError(f"{path.name} item {text.number}", text.ahead(), f"{_LIST}, commas between")
            yield text.item()


def reread_items(items: Iterable[JsonItem]) -> Iterator[tuple[JsonItem, dict[str, Any]]]:
    """Yield objects again from their positions; a file is opened once for neighbouring items.

    A file that has changed meanwhile raises `InvalidInputError`.
    """
    for path, group in groupby(items, key=lambda item: item.path):
        with path.open("rb") as file:
            for item in group:
                file.seek(item.start)
                try:
                    value = json.loads(file.read(item.end - item.start))
                except ValueError as error:
                    raise InvalidInputError(
                        item.location, str(error), "the file as it was when it was opened"
                    ) from error
                yield item, dict(value)


def read_json(path: Path, name: str | None = None) -> Any:
    """Return the value that a file holds; errors call it `name`. What is no JSON raises `InvalidInputError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(name or path.name, str(error) or "nested too deeply", "JSON in UTF-8") from error


def first_byte(path: Path) -> bytes:
    """Return the first byte of a file that is no blank; b"" where there is none."""
    with path.open("rb") as file:
        return file.read(64).removeprefix(codecs.BOM_UTF8).lstrip()[:1]


class _JsonListScanner:
    """The part of a file's text that is being read, and how many bytes went before it."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path, self._file = path, file
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._decoder, self._text, self._at = json.JSONDecoder(), "", 0
        self._bytes = self._read_mark()
        self.number = 0

    def _read_mark(self) -> int:
        mark = self._file.read(len(codecs.BOM_UTF8))
        if mark == codecs.BOM_UTF8:
            return len(mark)
        self._file.seek(0)
        return 0

    def ahead(self) -> str:
        """Return the next characters, for a message."""
        return self._text[self._at : self._at + 40]

    def skip(self) -> str:
        """Pass over blanks and return the next character; "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self.take(1)
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def take(self, count: int) -> int:
        """Skip `count` characters; return the byte offset after them."""
        self._bytes += len(self._text[self._at : self._at + count].encode())
        self._at += count
        return self._bytes

    def item(self) -> JsonItem:
        """Read one object."""
        self.number += 1
        place = f"{self._path.name} item {self.number}"
        wanted = _CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                break
            except (ValueError, RecursionError) as error:
                if not self._more(wanted):
                    raise InvalidInputError(place, str(error) or "nested too deeply", _LIST) from None
                wanted *= 2  # a long item isn't parsed again at every chunk
        if not isinstance(value, dict):
            raise InvalidInputError(place, value, "a JSON object")
        start = self._bytes
        return JsonItem(self._path, self.number, start, self.take(end - self._at), value)

    def _more(self, count: int = _CHUNK) -> bool:
        """Read more, and drop skipped text; False at the end of the file."""
        data = self._file.read(count)
        try:
            added = self._decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise InvalidInputError(self._path.name, f"byte {error.start}: not UTF-8", _LIST) from None
        self._text, self._at = self._text[self._at :] + added, 0
        return bool(data)
