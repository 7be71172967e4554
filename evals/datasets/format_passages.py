"""Sets of passages (MuSiQue, HotpotQA), and sets of records with questions.

An `InvalidInputError` of any reader names file, line or item, and field.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from recall_loop.evals.datasets.dataset_parts import Document, LabelledQuestion, RawDataset
from recall_loop.evals.datasets.json_files import JsonItem, PublishedModel, iter_items, iter_lines
from recall_loop.evals.datasets.layout import QUESTIONS_FILE, collection_of, read_questions
from recall_loop.memory.intake.files.entries import record_from_fields
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Record

_HOPS = re.compile(r"\d+hop")


class _Paragraph(PublishedModel):
    title: str
    paragraph_text: str
    is_supporting: bool = False


class _Musique(PublishedModel):
    id: str
    question: str
    paragraphs: list[_Paragraph]
    answerable: bool = True


class _Hotpot(PublishedModel):
    id: str = Field(alias="_id")
    question: str
    type: str = "uncategorised"
    supporting_facts: list[tuple[str, int]]
    context: list[tuple[str, list[str]]]


class _PassageQuestion(BaseModel):
    """One question of either set; passages are title, text, and whether they are gold."""

    location: str
    id: str
    question: str
    category: str
    answerable: bool = True
    passages: list[tuple[str, str, bool]]


def read_musique(path: Path) -> RawDataset:
    """Read a file of MuSiQue, one question a line; gold are the paragraphs that support the answer."""
    return _source("musique", lambda: _musique(path))


def _musique(path: Path) -> Iterator[_PassageQuestion]:
    for item in iter_lines(path):
        line = validate_model(_Musique, item.value, item.location)
        hops = _HOPS.match(line.id)
        yield _PassageQuestion(
            location=item.location,
            id=line.id,
            question=line.question,
            category=hops[0] if hops else "uncategorised",
            answerable=line.answerable,
            passages=[(each.title, each.paragraph_text, each.is_supporting) for each in line.paragraphs],
        )


def read_hotpotqa(path: Path) -> RawDataset:
    """Read a file of HotpotQA, a JSON list; gold are the passages that a supporting sentence stands in."""
    return _source("hotpotqa", lambda: _hotpotqa(path))


def _hotpotqa(path: Path) -> Iterator[_PassageQuestion]:
    for item in iter_items(path):
        asked = validate_model(_Hotpot, item.value, item.location)
        supporting = {title for title, _ in asked.supporting_facts}
        yield _PassageQuestion(
            location=item.location,
            id=asked.id,
            question=asked.question,
            category=asked.type,
            passages=[(title, " ".join(map(str.strip, text)), title in supporting) for title, text in asked.context],
        )


def _source(name: str, asked: Callable[[], Iterator[_PassageQuestion]]) -> RawDataset:
    def read() -> Iterator[Document]:
        for each in asked():
            for number, (title, text, _) in enumerate(each.passages):
                fields = {"id": _id(title, text), "collection": name, "kind": "fact", "title": title, "text": text}
                yield Document(f"{each.location} passage {number}", fields)

    questions = [
        validate_model(
            LabelledQuestion,
            {
                "id": f"{name}:{each.id}",
                "collection": name,
                "question": each.question,
                "category": each.category,
                "gold": [_id(title, text) for title, text, gold in each.passages if gold and text.strip()],
                "answerable": each.answerable,
            },
            each.location,
        )
        for each in asked()
    ]
    return RawDataset({name: read}, questions)


def _id(title: str, text: str) -> str:
    plain = f"{title}\n{text}".encode()
    return f"p-{hashlib.blake2b(plain, digest_size=8).hexdigest()}"


RECORDS_FILE = "records.jsonl"
RECORDS_DESCRIPTION = f"a folder with {RECORDS_FILE} and {QUESTIONS_FILE}"


def read_records_folder(folder: Path) -> RawDataset:
    """Read a folder: records one a line with an `id` and, where there are several, a `collection`."""
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
