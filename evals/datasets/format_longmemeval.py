"""LongMemEval as it is published: a JSON list of questions, each with a history of its own (OPS-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recall_loop.evals.datasets.dataset_parts import Document, RawDataset
from recall_loop.evals.datasets.json_files import JsonItem, PublishedModel, iter_items, reread_items
from recall_loop.evals.datasets.questions import LabelledQuestion, question_date
from recall_loop.state.errors import InvalidInputError, validate_model

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

    Gold are the turns marked with `has_answer`. Questions whose id ends in `_abs` have no answer.

    Raises:
        InvalidInputError: names file, item and field.
    """
    items: dict[str, JsonItem] = {}
    questions: list[LabelledQuestion] = []
    for item in iter_items(path):
        asked = _instance(item.value, item.location)
        if asked.question_id in items:
            raise InvalidInputError(f"{item.location}.question_id", asked.question_id, "an id that comes once")
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
    return RawDataset({name: _reader(item) for name, item in items.items()}, questions)


def _instance(value: dict[str, Any], place: str) -> _Instance:
    found = validate_model(_Instance, value, place)
    sessions = len(found.haystack_sessions)
    for name in ("haystack_session_ids", "haystack_dates"):
        if len(getattr(found, name)) != sessions:
            raise InvalidInputError(
                f"{place}.{name}", len(getattr(found, name)), f"one for each of {sessions} sessions"
            )
    return found


def _reader(item: JsonItem) -> Any:
    def read() -> Iterator[Document]:
        for _, value in reread_items([item]):
            for fields, _ in _messages(_instance(value, item.location), item.location):
                yield Document(f"{item.location} {fields['id']}", fields)

    return read


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
