"""LoCoMo as it is published: a JSON list of samples, each a long conversation with questions (OPS-4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from recall_loop.evals.datasets.dataset_parts import Document, RawDataset
from recall_loop.evals.datasets.json_files import JsonItem, PublishedModel, iter_items, reread_items
from recall_loop.evals.datasets.questions import LabelledQuestion
from recall_loop.memory.intake.files.formats import sample_documents
from recall_loop.state.errors import InvalidInputError, validate_model

CATEGORIES = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}
_TURN = re.compile(r"D(\d+):(\d+)")


class _LocomoQuestion(PublishedModel):
    question: str
    category: int
    evidence: list[str] = Field(default_factory=list)


class _Sample(PublishedModel):
    sample_id: str
    conversation: dict[str, Any]
    qa: list[_LocomoQuestion]


def read_locomo(path: Path) -> RawDataset:
    """Read the samples: turns are messages, observations facts, summaries and events archival entries.

    Gold are the turns that a question's evidence names and that exist; several in one text are taken apart.
    Adversarial questions have no answer.

    Raises:
        InvalidInputError: names file, item and field.
    """
    items: dict[str, JsonItem] = {}
    questions: list[LabelledQuestion] = []
    for item in iter_items(path):
        sample = validate_model(_Sample, item.value, item.location)
        if sample.sample_id in items:
            raise InvalidInputError(f"{item.location}.sample_id", sample.sample_id, "an id that no other sample has")
        items[sample.sample_id] = item.without_value()
        questions += _questions(sample, item)
    return RawDataset({name: _reader(item) for name, item in items.items()}, questions)


def _reader(item: JsonItem) -> Any:
    def read() -> Iterator[Document]:
        for number, fields in enumerate(sample_documents([value for _, value in reread_items([item])]), 1):
            place = f"{item.location} {fields.get('id') or f'document {number}'}"
            yield Document(place, fields)

    return read


def _questions(sample: _Sample, item: JsonItem) -> Iterator[LabelledQuestion]:
    turns = {fields["id"] for fields in sample_documents([item.value]) if fields["kind"] == "message"}
    for number, asked in enumerate(sample.qa):
        place = f"{item.location}.qa.{number}"
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
        yield validate_model(LabelledQuestion, fields, place)
