"""MuSiQue and HotpotQA as they are published: questions, each with the passages that it is asked of (OPS-4).

The passages of all questions of a file are one collection, as a memory holds them; equal ones are one document.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.evals.datasets.dataset_parts import Document, Source
from recall_loop.evals.datasets.json_items import list_items
from recall_loop.evals.datasets.layout import read_lines
from recall_loop.evals.datasets.questions import Question
from recall_loop.state.errors import parse

_HOPS = re.compile(r"\d+hop")


class _Paragraph(BaseModel):
    model_config = ConfigDict(extra="ignore")

    title: str
    paragraph_text: str
    is_supporting: bool = False


class _Musique(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
    question: str
    paragraphs: list[_Paragraph]
    answerable: bool = True


class _Hotpot(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str = Field(alias="_id")
    question: str
    type: str = "uncategorised"
    supporting_facts: list[tuple[str, int]]
    context: list[tuple[str, list[str]]]


class _Asked(BaseModel):
    """One question of either set; passages are title, text, and whether they are gold."""

    place: str
    id: str
    question: str
    category: str
    answerable: bool = True
    passages: list[tuple[str, str, bool]]


def read_musique(path: Path) -> Source:
    """Read a file of MuSiQue, one question a line; gold are the paragraphs that support the answer.

    Raises:
        InvalidInputError: names file, line and field.
    """
    return _source("musique", lambda: _musique(path))


def _musique(path: Path) -> Iterator[_Asked]:
    for place, fields in read_lines(path):
        line = parse(_Musique, fields, place)
        hops = _HOPS.match(line.id)
        yield _Asked(
            place=place,
            id=line.id,
            question=line.question,
            category=hops[0] if hops else "uncategorised",
            answerable=line.answerable,
            passages=[(each.title, each.paragraph_text, each.is_supporting) for each in line.paragraphs],
        )


def read_hotpotqa(path: Path) -> Source:
    """Read a file of HotpotQA, a JSON list; gold are the passages that a supporting sentence stands in.

    Raises:
        InvalidInputError: names file, item and field.
    """
    return _source("hotpotqa", lambda: _hotpotqa(path))


def _hotpotqa(path: Path) -> Iterator[_Asked]:
    for item in list_items(path):
        asked = parse(_Hotpot, item.value, item.place)
        supporting = {title for title, _ in asked.supporting_facts}
        yield _Asked(
            place=item.place,
            id=asked.id,
            question=asked.question,
            category=asked.type,
            passages=[(title, " ".join(map(str.strip, text)), title in supporting) for title, text in asked.context],
        )


def _source(name: str, asked: Callable[[], Iterator[_Asked]]) -> Source:
    def read() -> Iterator[Document]:
        for each in asked():
            for number, (title, text, _) in enumerate(each.passages):
                fields = {"id": _id(title, text), "collection": name, "kind": "fact", "title": title, "text": text}
                yield Document(f"{each.place} passage {number}", fields)

    questions = [
        parse(
            Question,
            {
                "id": f"{name}:{each.id}",
                "collection": name,
                "question": each.question,
                "category": each.category,
                "gold": [_id(title, text) for title, text, gold in each.passages if gold and text.strip()],
                "answerable": each.answerable,
            },
            each.place,
        )
        for each in asked()
    ]
    return Source({name: read}, questions)


def _id(title: str, text: str) -> str:
    plain = f"{title}\n{text}".encode()
    return f"p-{hashlib.blake2b(plain, digest_size=8).hexdigest()}"
