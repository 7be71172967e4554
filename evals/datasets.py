"""Labelled data sets: a folder with `questions.jsonl` and documents, as collections and questions (OPS-4).

Documents stand in `docs.jsonl`, and in `*.jsonl` under `turns`, `facts`, `summaries` and `events`. `load`
reads every document once and keeps only where it stands; records are made when a collection is asked for.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Any

from recall_loop.evals.questions import Question
from recall_loop.memory.intake.documents import record_from_doc
from recall_loop.memory.intake.lines import BadLine, RawLine, parse_object, raw_lines
from recall_loop.state.errors import InvalidInputError, parse
from recall_loop.state.records import Record

QUESTIONS = "questions.jsonl"
DOCS = "docs.jsonl"
FOLDERS = ("turns", "facts", "summaries", "events")
SHAPE = f"a folder with {QUESTIONS}, and documents in {DOCS} or in {'/, '.join(FOLDERS)}/ (*.jsonl)"

# Record fields that documents call otherwise: an error names what stands in the file.
_DOCUMENT_NAMES = {
    "author": "speaker",
    "subject": "speaker",
    "conversation_id": "collection",
    "created_at": "timestamp",
    "label": "title",
}


class Kinds(StrEnum):
    """Which documents of a data set are loaded."""

    MESSAGES = "messages"
    FACTS = "facts"
    MESSAGES_AND_FACTS = "messages+facts"
    ALL = "all"


class Part(StrEnum):
    """What a document is to an evaluation; titled passages, summaries and events are `other`."""

    MESSAGE = "message"
    FACT = "fact"
    OTHER = "other"


_PARTS = {
    Kinds.MESSAGES: frozenset({Part.MESSAGE}),
    Kinds.FACTS: frozenset({Part.FACT}),
    Kinds.MESSAGES_AND_FACTS: frozenset({Part.MESSAGE, Part.FACT}),
    Kinds.ALL: frozenset(Part),
}


@dataclass(frozen=True)
class _Place:
    path: Path
    line: int
    start: int
    end: int

    @property
    def name(self) -> str:
        """File and line, as errors name them."""
        return f"{self.path.name} line {self.line}"


@dataclass(frozen=True)
class Collections(Mapping[str, list[Record]]):
    """Records by collection; each access reads them anew, so only one collection need be in memory."""

    _places: Mapping[str, list[_Place]] = field(repr=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places  # the inherited one would read the records

    def __getitem__(self, name: str) -> list[Record]:
        return list(self.records(name))

    def size(self, name: str) -> int:
        """Return how many documents the collection has, without reading them."""
        return len(self._places[name])

    def records(self, name: str) -> Iterator[Record]:
        """Yield the records of one collection, in the order of the files.

        Raises:
            KeyError: the data set has no such collection.
            InvalidInputError: a document can't become a record; names file, line and field.
        """
        for path, places in groupby(self._places[name], key=lambda place: place.path):
            with path.open("rb") as file:
                for place in places:
                    file.seek(place.start)
                    yield _record(file.read(place.end - place.start), place)


@dataclass(frozen=True)
class Dataset:
    """A labelled data set: its collections, and the questions asked of them.

    `blank` counts the documents without text, of the chosen kinds: they are left out.
    """

    name: str
    kinds: Kinds
    collections: Collections
    questions: list[Question]
    blank: int = 0


def load(folder: Path, kinds: Kinds | str | None = None) -> Dataset:
    """Load the data set in `folder`.

    Without `kinds`, a set that has dialogue turns of its own (`turns/`) is loaded with its messages
    only, as recall of gold turns is usually reported, and any other set wholly.

    Raises:
        InvalidInputError: `folder` isn't a data set, `kinds` is unknown or picks no document, or a
            line is malformed; names file, line and field.
    """
    if not folder.is_dir() or not (folder / QUESTIONS).is_file():
        raise InvalidInputError("data", str(folder), SHAPE)
    chosen = _kinds(kinds, folder)
    questions = [parse(Question, raw, place.name) for place, raw in _lines(folder / QUESTIONS)]
    names = list(dict.fromkeys(question.collection for question in questions))
    places, blank = _scan(folder, chosen, names)
    for question in questions:
        if question.collection not in places:
            raise InvalidInputError(
                f"question {question.id}: collection", question.collection, f"one of {sorted(places)}"
            )
    return Dataset(folder.resolve().name, chosen, Collections(places), questions, blank)


def _kinds(kinds: Kinds | str | None, folder: Path) -> Kinds:
    if kinds is None:
        return Kinds.MESSAGES if any((folder / "turns").glob("*.jsonl")) else Kinds.ALL
    try:
        return Kinds(kinds)
    except ValueError:
        raise InvalidInputError("kinds", kinds, " | ".join(Kinds)) from None


def _scan(folder: Path, kinds: Kinds, names: list[str]) -> tuple[dict[str, list[_Place]], int]:
    """Return where the chosen documents stand, by collection, and how many have no text."""
    places: dict[str, list[_Place]] = {}
    seen: set[Part] = set()
    blank = 0
    for path in _files(folder):
        for place, raw in _lines(path):
            part = _part(raw)
            seen.add(part)
            if part not in _PARTS[kinds]:
                continue
            if _is_blank(raw):
                blank += 1
            else:
                places.setdefault(_collection(raw, names, place), []).append(place)
    if not seen:
        raise InvalidInputError("data", str(folder), SHAPE)
    if not places:
        fitting = [each.value for each in Kinds if _PARTS[each] & seen]
        raise InvalidInputError("kinds", kinds.value, f"one that this data set has: {' | '.join(fitting)}")
    return places, blank


def _is_blank(document: Mapping[str, Any]) -> bool:
    text = document.get("text")
    return isinstance(text, str) and not text.strip()


def _files(folder: Path) -> Iterator[Path]:
    if (folder / DOCS).is_file():
        yield folder / DOCS
    for name in FOLDERS:
        yield from sorted((folder / name).glob("*.jsonl"))


def _part(document: Mapping[str, Any]) -> Part:
    if document.get("kind") == "message":
        return Part.MESSAGE
    if document.get("kind") == "fact" and not document.get("title"):
        return Part.FACT
    return Part.OTHER


def _collection(document: Mapping[str, Any], names: list[str], place: _Place) -> str:
    """Return the document's collection; without one, that of the questions if they have only one."""
    own = document.get("collection")
    if own is None and len(names) == 1:
        return names[0]
    if not isinstance(own, str) or not own.strip():
        raise InvalidInputError(f"{place.name}.collection", own, "the name of the collection it belongs to")
    return own


def _record(data: bytes, place: _Place) -> Record:
    document = _document(RawLine(place.line, place.end, data.removeprefix(BOM_UTF8).strip()), place)
    try:
        return record_from_doc(document)
    except InvalidInputError as error:
        top = error.field.partition(".")[0]
        field_name = _DOCUMENT_NAMES.get(top, top)
        raise InvalidInputError(f"{place.name}.{field_name}", document.get(field_name), error.allowed) from error


def _lines(path: Path) -> Iterator[tuple[_Place, dict[str, Any]]]:
    """Yield place and object of every line that isn't blank; a place spans the blank lines before it."""
    start = 0
    for line in raw_lines(path):
        place = _Place(path, line.number, start, line.end)
        yield place, _document(line, place)
        start = line.end


def _document(line: RawLine, place: _Place) -> dict[str, Any]:
    document = parse_object(line)
    if isinstance(document, BadLine):
        raise InvalidInputError(place.name, document.reason, "one JSON object in UTF-8")
    return document
