"""LoCoMo as it is published: a JSON list of samples, each a long conversation with questions (OPS-4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.evals.datasets.dataset_parts import Document, Source
from recall_loop.evals.datasets.json_items import Item, list_items, read_item
from recall_loop.evals.datasets.questions import Question
from recall_loop.memory.intake.files.locomo_file import sample_documents
from recall_loop.state.errors import InvalidInputError, parse

CATEGORIES = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}
_TURN = re.compile(r"D(\d+):(\d+)")


class _Asked(BaseModel):
    model_config = ConfigDict(extra="ignore")

    question: str
    category: int
    evidence: list[str] = Field(default_factory=list)


class _Sample(BaseModel):
    model_config = ConfigDict(extra="ignore")

    sample_id: str
    conversation: dict[str, Any]
    qa: list[_Asked]


def read_locomo(path: Path) -> Source:
    """Read the samples: turns are messages, observations facts, summaries and events archival entries.

    Gold are the turns that a question's evidence names and that exist; several in one text are taken apart.
    Adversarial questions have no answer.

    Raises:
        InvalidInputError: names file, item and field.
    """
    items: dict[str, Item] = {}
    questions: list[Question] = []
    for item in list_items(path):
        sample = parse(_Sample, item.value, item.place)
        if sample.sample_id in items:
            raise InvalidInputError(f"{item.place}.sample_id", sample.sample_id, "an id that no other sample has")
        items[sample.sample_id] = Item(item.path, item.number, item.start, item.end, {})
        questions += _questions(sample, item)
    return Source({name: _reader(item) for name, item in items.items()}, questions)


def _reader(item: Item) -> Any:
    def read() -> Iterator[Document]:
        for number, fields in enumerate(sample_documents([read_item(item)]), 1):
            place = f"{item.place} {fields.get('id') or f'document {number}'}"
            yield Document(place, fields)

    return read


def _questions(sample: _Sample, item: Item) -> Iterator[Question]:
    turns = {fields["id"] for fields in sample_documents([item.value]) if fields["kind"] == "message"}
    for number, asked in enumerate(sample.qa):
        place = f"{item.place}.qa.{number}"
        if asked.category not in CATEGORIES:
            raise InvalidInputError(f"{place}.category", asked.category, f"one of {list(CATEGORIES)}")
        named = (f"{sample.sample_id}:D{int(s)}:{int(t)}" for text in asked.evidence for s, t in _TURN.findall(text))
        fields = {
            "id": f"{sample.sample_id}:q{number}",
            "collection": sample.sample_id,
            "question": asked.question,
            "category": CATEGORIES[asked.category],
            "gold": [each for each in dict.fromkeys(named) if each in turns],
            "answerable": CATEGORIES[asked.category] != "adversarial",
        }
        yield parse(Question, fields, place)
