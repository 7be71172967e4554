"""The layout of a folder with `questions.jsonl` and documents in files of JSON Lines (OPS-4).

Documents stand in `docs.jsonl`, and in `*.jsonl` under `turns`, `facts`, `summaries` and `events`. `read_layout`
reads every document once and keeps only where it stands; records are made when a collection is asked for.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from recall_loop.evals.datasets.dataset_parts import (
    PARTS,
    Collections,
    Dataset,
    Document,
    Kinds,
    Part,
    check_collections,
    is_blank,
    kinds_of,
    no_such_kinds,
    part_of,
)
from recall_loop.evals.datasets.questions import Question
from recall_loop.memory.intake.files.lines import BadLine, RawLine, parse_object, raw_lines
from recall_loop.state.errors import InvalidInputError, parse
from recall_loop.state.records.records import Record

QUESTIONS = "questions.jsonl"
DOCS = "docs.jsonl"
FOLDERS = ("turns", "facts", "summaries", "events")
SHAPE = f"a folder with {QUESTIONS}, and documents in {DOCS} or in {'/, '.join(FOLDERS)}/ (*.jsonl)"


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


@dataclass
class _Lines:
    """The documents of one collection, by where they stand."""

    places: list[_Place] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)

    def records(self) -> Iterator[Record]:
        """Yield the records, in the order of the files."""
        for path, places in groupby(self.places, key=lambda place: place.path):
            with path.open("rb") as file:
                for place in places:
                    file.seek(place.start)
                    yield _record(file.read(place.end - place.start), place)


def read_layout(folder: Path, kinds: Kinds | str | None) -> Dataset:
    """Load the data set in `folder`.

    Without `kinds`, a set that has dialogue turns of its own (`turns/`) is loaded with its messages
    only, as recall of gold turns is usually reported, and any other set wholly.

    Raises:
        InvalidInputError: `folder` isn't of this layout, `kinds` is unknown or picks no document, or a
            line is malformed; names file, line and field.
    """
    if not folder.is_dir() or not (folder / QUESTIONS).is_file():
        raise InvalidInputError("data", str(folder), SHAPE)
    chosen = kinds_of(kinds, messages=any((folder / "turns").glob("*.jsonl")))
    questions = read_questions(folder / QUESTIONS)
    names = list(dict.fromkeys(question.collection for question in questions))
    pools, blank = _scan(folder, chosen, names)
    check_collections(questions, pools)
    return Dataset(folder.resolve().name, chosen, Collections(pools), questions, blank)


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a file, one a line.

    Raises:
        InvalidInputError: a line is malformed; names file, line and field.
    """
    return [parse(Question, raw, place.name) for place, raw in _lines(path)]


def _scan(folder: Path, kinds: Kinds, names: list[str]) -> tuple[dict[str, _Lines], int]:
    """Return where the chosen documents stand, by collection, and how many have no text."""
    pools: dict[str, _Lines] = {}
    seen: set[Part] = set()
    blank = 0
    for path in _files(folder):
        for place, raw in _lines(path):
            part = part_of(raw)
            seen.add(part)
            if part not in PARTS[kinds]:
                continue
            if is_blank(raw):
                blank += 1
            else:
                pools.setdefault(_collection(raw, names, place), _Lines()).places.append(place)
    if not seen:
        raise InvalidInputError("data", str(folder), SHAPE)
    if not pools:
        raise no_such_kinds(kinds, seen)
    return pools, blank


def _files(folder: Path) -> Iterator[Path]:
    if (folder / DOCS).is_file():
        yield folder / DOCS
    for name in FOLDERS:
        yield from sorted((folder / name).glob("*.jsonl"))


def _collection(document: Mapping[str, Any], names: list[str], place: _Place) -> str:
    """Return the document's collection; without one, that of the questions if they have only one."""
    return collection_of(document, names, place.name)


def collection_of(document: Mapping[str, Any], names: list[str], place: str) -> str:
    """Return the document's collection; without one, that of the questions if they have only one.

    Raises:
        InvalidInputError: it names none, and the questions name several; tells the place.
    """
    own = document.get("collection")
    if own is None and len(names) == 1:
        return names[0]
    if not isinstance(own, str) or not own.strip():
        raise InvalidInputError(f"{place}.collection", own, "the name of the collection it belongs to")
    return own


def _record(data: bytes, place: _Place) -> Record:
    fields = _document(RawLine(place.line, place.end, data.removeprefix(BOM_UTF8).strip()), place)
    return Document(place.name, fields).record()


def _lines(path: Path) -> Iterator[tuple[_Place, dict[str, Any]]]:
    """Yield place and object of every line that isn't blank; a place spans the blank lines before it."""
    start = 0
    for line in raw_lines(path):
        place = _Place(path, line.number, start, line.end)
        yield place, _document(line, place)
        start = line.end


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield file and line, as errors name them, and the object of every line that isn't blank.

    Raises:
        InvalidInputError: a line holds no JSON object.
    """
    return ((place.name, fields) for place, fields in _lines(path))


def _document(line: RawLine, place: _Place) -> dict[str, Any]:
    document = parse_object(line)
    if isinstance(document, BadLine):
        raise InvalidInputError(place.name, document.reason, "one JSON object in UTF-8")
    return document
