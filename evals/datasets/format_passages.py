"""Sets of passages: MuSiQue and HotpotQA.

An `InvalidInputError` of any reader names file, line or item, and field.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel, Field

from recall_loop.evals.datasets.dataset_parts import Document, LabelledQuestion, RawDataset
from recall_loop.evals.datasets.json_files import PublishedModel, iter_items, iter_lines
from recall_loop.state.errors import validate_model

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
