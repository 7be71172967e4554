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
    SELECTED_KINDS,
    Collections,
    Dataset,
    Document,
    DocumentKind,
    DocumentSelection,
    check_collections,
    document_kind,
    is_blank,
    parse_selection,
    selection_error,
)
from recall_loop.evals.datasets.questions import LabelledQuestion
from recall_loop.memory.parsing.json_lines import InvalidLine, RawLine, parse_object, raw_lines
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Record

QUESTIONS_FILE = "questions.jsonl"
DOCS_FILE = "docs.jsonl"
FOLDERS = ("turns", "facts", "summaries", "events")
LAYOUT_DESCRIPTION = (
    f"a folder with {QUESTIONS_FILE}, and documents in {DOCS_FILE} or in {'/, '.join(FOLDERS)}/ (*.jsonl)"
)


@dataclass(frozen=True)
class _LineLocation:
    path: Path
    line: int
    start: int
    end: int

    @property
    def name(self) -> str:
        """File and line, as errors name them."""
        return f"{self.path.name} line {self.line}"


@dataclass
class _LayoutCollection:
    """The documents of one collection, by where they stand."""

    places: list[_LineLocation] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)

    def records(self) -> Iterator[Record]:
        """Yield the records, in the order of the files."""
        for path, places in groupby(self.places, key=lambda place: place.path):
            with path.open("rb") as file:
                for place in places:
                    file.seek(place.start)
                    yield _record(file.read(place.end - place.start), place)


def read_layout(folder: Path, kinds: DocumentSelection | str | None) -> Dataset:
    """Load the data set in `folder`.

    Without `kinds`, a set that has dialogue turns of its own (`turns/`) is loaded with its messages
    only, as recall of gold turns is usually reported, and any other set wholly.

    Raises:
        InvalidInputError: `folder` isn't of this layout, `kinds` is unknown or picks no document, or a
            line is malformed; names file, line and field.
    """
    if not folder.is_dir() or not (folder / QUESTIONS_FILE).is_file():
        raise InvalidInputError("data", str(folder), LAYOUT_DESCRIPTION)
    chosen = parse_selection(kinds, messages=any((folder / "turns").glob("*.jsonl")))
    questions = read_questions(folder / QUESTIONS_FILE)
    names = list(dict.fromkeys(question.collection for question in questions))
    pools, blank = _scan(folder, chosen, names)
    check_collections(questions, pools)
    return Dataset(folder.resolve().name, chosen, Collections(pools), questions, blank)


def read_questions(path: Path) -> list[LabelledQuestion]:
    """Return the questions of a file, one a line.

    Raises:
        InvalidInputError: a line is malformed; names file, line and field.
    """
    return [validate_model(LabelledQuestion, raw, place.name) for place, raw in _lines(path)]


def _scan(folder: Path, kinds: DocumentSelection, names: list[str]) -> tuple[dict[str, _LayoutCollection], int]:
    """Return where the chosen documents stand, by collection, and how many have no text."""
    pools: dict[str, _LayoutCollection] = {}
    seen: set[DocumentKind] = set()
    blank = 0
    for path in _files(folder):
        for place, raw in _lines(path):
            part = document_kind(raw)
            seen.add(part)
            if part not in SELECTED_KINDS[kinds]:
                continue
            if is_blank(raw):
                blank += 1
            else:
                pools.setdefault(_collection(raw, names, place), _LayoutCollection()).places.append(place)
    if not seen:
        raise InvalidInputError("data", str(folder), LAYOUT_DESCRIPTION)
    if not pools:
        raise selection_error(kinds, seen)
    return pools, blank


def _files(folder: Path) -> Iterator[Path]:
    if (folder / DOCS_FILE).is_file():
        yield folder / DOCS_FILE
    for name in FOLDERS:
        yield from sorted((folder / name).glob("*.jsonl"))


def _collection(document: Mapping[str, Any], names: list[str], place: _LineLocation) -> str:
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


def _record(data: bytes, place: _LineLocation) -> Record:
    fields = _document(RawLine(place.line, place.end, data.removeprefix(BOM_UTF8).strip()), place)
    return Document(place.name, fields).record()


def _lines(path: Path) -> Iterator[tuple[_LineLocation, dict[str, Any]]]:
    """Yield place and object of every line that isn't blank; a place spans the blank lines before it."""
    start = 0
    for line in raw_lines(path):
        place = _LineLocation(path, line.number, start, line.end)
        yield place, _document(line, place)
        start = line.end


def read_json_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield file and line, as errors name them, and the object of every line that isn't blank.

    Raises:
        InvalidInputError: a line holds no JSON object.
    """
    return ((place.name, fields) for place, fields in _lines(path))


def _document(line: RawLine, place: _LineLocation) -> dict[str, Any]:
    document = parse_object(line)
    if isinstance(document, InvalidLine):
        raise InvalidInputError(place.name, document.reason, "one JSON object in UTF-8")
    return document
