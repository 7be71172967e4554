"""Folders with `questions.jsonl`, and documents or records in files of JSON Lines (OPS-4).

In the layout, documents are in `docs.jsonl`, and in `*.jsonl` under `turns`, `facts`, `summaries` and `events`; a
folder of records has them in `records.jsonl`. Only the position of each line is kept; records are created when a
collection is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from recall_loop.evals.datasets.dataset_parts import (
    Dataset,
    Document,
    DocumentSelection,
    LabelledQuestion,
    RawDataset,
    build_dataset,
    parse_selection,
)
from recall_loop.evals.datasets.json_files import JsonItem, iter_lines, reread_items
from recall_loop.memory.intake.files.documents import record_from_document
from recall_loop.memory.intake.files.entries import record_from_fields
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Record

QUESTIONS_FILE = "questions.jsonl"
DOCS_FILE = "docs.jsonl"
FOLDERS = ("turns", "facts", "summaries", "events")
LAYOUT_DESCRIPTION = (
    f"a folder with {QUESTIONS_FILE}, and documents in {DOCS_FILE} or in {'/, '.join(FOLDERS)}/ (*.jsonl)"
)
RECORDS_FILE = "records.jsonl"
RECORDS_DESCRIPTION = f"a folder with {RECORDS_FILE} and {QUESTIONS_FILE}"


def read_layout(folder: Path, kinds: DocumentSelection | str | None) -> Dataset:
    """Load the data set in `folder`; raises as `load_dataset`.

    Without `kinds`, a set that has dialogue turns of its own (`turns/`) is loaded with its messages
    only, as recall of gold turns is usually reported, and any other set completely.
    """
    if not folder.is_dir() or not (folder / QUESTIONS_FILE).is_file():
        raise InvalidInputError("data", str(folder), LAYOUT_DESCRIPTION)
    chosen = parse_selection(kinds, messages=any((folder / "turns").glob("*.jsonl")))
    lines = (line for path in _files(folder) for line in iter_lines(path))
    source = _dataset_of_lines(lines, folder / QUESTIONS_FILE, record_from_document)
    if not source.collections:
        raise InvalidInputError("data", str(folder), LAYOUT_DESCRIPTION)
    return build_dataset(folder.resolve().name, source, chosen)


def _files(folder: Path) -> Iterator[Path]:
    if (folder / DOCS_FILE).is_file():
        yield folder / DOCS_FILE
    for name in FOLDERS:
        yield from sorted((folder / name).glob("*.jsonl"))


def read_records_folder(folder: Path) -> RawDataset:
    """Read a folder: records one a line with an `id` and, where there are several, a `collection`."""
    path = folder / RECORDS_FILE
    if not path.is_file() or not (folder / QUESTIONS_FILE).is_file():
        raise InvalidInputError("data", str(folder), RECORDS_DESCRIPTION)
    return _dataset_of_lines(map(_with_id, iter_lines(path)), folder / QUESTIONS_FILE, _record)


def _with_id(line: JsonItem) -> JsonItem:
    if line.value.get("id") is None:
        raise InvalidInputError(f"{line.location}.id", None, "an id: gold names records by it")
    return line


def _record(fields: Mapping[str, Any]) -> Record:
    return record_from_fields({name: value for name, value in fields.items() if name != "collection"})


def _dataset_of_lines(
    lines: Iterable[JsonItem], asked: Path, make: Callable[[Mapping[str, Any]], Record]
) -> RawDataset:
    """Return the documents of some lines by collection, and the questions of the file `asked`, one a line."""
    questions = [validate_model(LabelledQuestion, line.value, line.location) for line in iter_lines(asked)]
    names = list(dict.fromkeys(question.collection for question in questions))
    found: dict[str, list[JsonItem]] = {}
    for line in lines:
        found.setdefault(_collection_of(line, names), []).append(line.without_value())
    return RawDataset({name: partial(_documents, own, make) for name, own in found.items()}, questions)


def _documents(lines: Sequence[JsonItem], make: Callable[[Mapping[str, Any]], Record]) -> Iterator[Document]:
    return (Document(line.location, fields, make) for line, fields in reread_items(lines))


def _collection_of(line: JsonItem, names: list[str]) -> str:
    """Return the collection of a line's document; without one, that of the questions if they have only one."""
    named = line.value.get("collection")
    if named is None and len(names) == 1:
        return names[0]
    if not isinstance(named, str) or not named.strip():
        raise InvalidInputError(f"{line.location}.collection", named, "the name of the collection it belongs to")
    return named
