"""LoCoMo and LongMemEval as they are published: JSON lists of long conversations and their questions (OPS-4)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from recall_loop.evals.datasets.dataset_parts import Document, LabelledQuestion, RawDataset, question_date
from recall_loop.evals.datasets.json_files import JsonItem, PublishedModel, iter_items, reread_items
from recall_loop.memory.intake.formats.locomo import sample_documents
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
    Adversarial questions have no answer. An `InvalidInputError` names file, item and field.
    """
    items: dict[str, JsonItem] = {}
    questions: list[LabelledQuestion] = []
    for item in iter_items(path):
        sample = validate_model(_Sample, item.value, item.location)
        if sample.sample_id in items:
            raise InvalidInputError(f"{item.location}.sample_id", sample.sample_id, "a unique id")
        items[sample.sample_id] = item.without_value()
        questions += _questions(sample, item)
    return RawDataset({name: partial(_sample_documents, item) for name, item in items.items()}, questions)


def _sample_documents(item: JsonItem) -> Iterator[Document]:
    for number, fields in enumerate(sample_documents([value for _, value in reread_items([item])]), 1):
        yield Document(f"{item.location} {fields.get('id') or f'document {number}'}", fields)


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


_NO_ANSWER = "_abs"


class _LongMemEvalTurn(PublishedModel):
    role: str
    content: str
    has_answer: bool | None = None


class _Instance(PublishedModel):
    question_id: str
    question_type: str
    question: str
    question_date: str
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[list[_LongMemEvalTurn]]


def read_longmemeval(path: Path) -> RawDataset:
    """Read the questions: each one's history is a collection, every turn of it a message.

    Gold are the turns marked with `has_answer`. Questions whose id ends in `_abs` have no answer. An
    `InvalidInputError` names file, item and field.
    """
    items: dict[str, JsonItem] = {}
    questions: list[LabelledQuestion] = []
    for item in iter_items(path):
        asked = _instance(item.value, item.location)
        if asked.question_id in items:
            raise InvalidInputError(f"{item.location}.question_id", asked.question_id, "an id that occurs once")
        items[asked.question_id] = item.without_value()
        fields = {
            "id": asked.question_id,
            "collection": asked.question_id,
            "question": asked.question,
            "category": asked.question_type,
            "gold": [each["id"] for each, turn in _messages(asked, item.location) if turn.has_answer],
            "answerable": not asked.question_id.endswith(_NO_ANSWER),
            "question_date": asked.question_date,
        }
        questions.append(validate_model(LabelledQuestion, fields, item.location))
    return RawDataset({name: partial(_instance_documents, item) for name, item in items.items()}, questions)


def _instance(value: dict[str, Any], place: str) -> _Instance:
    found = validate_model(_Instance, value, place)
    sessions = len(found.haystack_sessions)
    for name in ("haystack_session_ids", "haystack_dates"):
        if len(getattr(found, name)) != sessions:
            got = len(getattr(found, name))
            raise InvalidInputError(f"{place}.{name}", got, f"one for each of {sessions} sessions")
    return found


def _instance_documents(item: JsonItem) -> Iterator[Document]:
    for _, value in reread_items([item]):
        for fields, _ in _messages(_instance(value, item.location), item.location):
            yield Document(f"{item.location} {fields['id']}", fields)


def _messages(asked: _Instance, place: str) -> Iterator[tuple[dict[str, Any], _LongMemEvalTurn]]:
    """Yield every turn as a document; a session that comes twice has another name the second time."""
    times: Counter[str] = Counter()
    triples = zip(asked.haystack_session_ids, asked.haystack_dates, asked.haystack_sessions, strict=True)
    for at, (given, date, turns) in enumerate(triples):
        times[given] += 1
        session = given if times[given] == 1 else f"{given}#{times[given]}"
        said = _date(date, f"{place}.haystack_dates.{at}")
        for number, turn in enumerate(turns):
            fields = {
                "id": f"{asked.question_id}:{session}:{number}",
                "collection": asked.question_id,
                "kind": "message",
                "session": session,
                "timestamp": said,
                "speaker": turn.role,
                "role": turn.role,
                "text": turn.content,
            }
            yield fields, turn


def _date(text: str, place: str) -> Any:
    try:
        return question_date(text)
    except ValueError as error:
        raise InvalidInputError(place, text, str(error)) from None
