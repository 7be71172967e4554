"""The generic format: records as the store takes them, and questions with the ids of those that answer (OPS-4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from recall_loop.evals.datasets.dataset_parts import Document, RawDataset
from recall_loop.evals.datasets.json_files import JsonItem, iter_lines
from recall_loop.evals.datasets.layout import QUESTIONS_FILE, collection_of, read_questions
from recall_loop.memory.intake.files.formats import record_from_fields
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record

RECORDS_FILE = "records.jsonl"
RECORDS_DESCRIPTION = f"a folder with {RECORDS_FILE} and {QUESTIONS_FILE}"


def read_records_folder(folder: Path) -> RawDataset:
    """Read a folder: records one a line with an `id` and, where there are several, a `collection`.

    Raises:
        InvalidInputError: names file, line and field.
    """
    path = folder / RECORDS_FILE
    if not path.is_file() or not (folder / QUESTIONS_FILE).is_file():
        raise InvalidInputError("data", str(folder), RECORDS_DESCRIPTION)
    questions = read_questions(folder / QUESTIONS_FILE)
    names = list(dict.fromkeys(question.collection for question in questions))
    found = dict.fromkeys(_collection(item, names) for item in iter_lines(path))
    return RawDataset({name: partial(_documents, path, names, name) for name in found}, questions)


def _collection(item: JsonItem, names: list[str]) -> str:
    if item.value.get("id") is None:
        raise InvalidInputError(f"{item.location}.id", None, "an id: gold names records by it")
    return collection_of(item, names)


def _documents(path: Path, names: list[str], wanted: str) -> Iterator[Document]:
    for item in iter_lines(path):
        if _collection(item, names) == wanted:
            yield Document(item.location, item.value, _record)


def _record(fields: Mapping[str, Any]) -> Record:
    return record_from_fields({name: value for name, value in fields.items() if name != "collection"})
