"""BEAM as it is published: a folder for each chat, with `chat.json` and `probing_questions/` (OPS-4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from recall_loop.evals.datasets.dataset_parts import Document, LabelledQuestion, RawDataset
from recall_loop.evals.datasets.json_files import PublishedModel, read_json
from recall_loop.state.errors import InvalidInputError, invalid_input_from, validate_model

CHAT = "chat.json"
PROBING = Path("probing_questions") / "probing_questions.json"
_UNANSWERABLE = "abstention"
# The plan's number after a user's words, such as "->-> 1,1".
_MARK = re.compile(r"\s*->->[\s\d,.]*$")
_ANCHOR = "%B-%d-%Y"


class _BeamMessage(PublishedModel):
    role: str
    id: int
    content: str
    time_anchor: str | None = None


class _Batch(PublishedModel):
    batch_number: int
    turns: list[list[_BeamMessage]]


class _Probe(PublishedModel):
    question: str
    source_chat_ids: Any = None


_Chat = TypeAdapter(list[_Batch])
_Probes = TypeAdapter(dict[str, list[_Probe]])


def is_beam(folder: Path) -> bool:
    """Return whether a folder is a chat of BEAM, or contains some."""
    return next(_chats(folder), None) is not None


def _chats(folder: Path) -> Iterator[Path]:
    """Yield the folders of chats, up to two levels down, smaller numbers first."""
    if (folder / PROBING).is_file():
        yield folder
        return
    found = (path.parent.parent for above in ("*", "*/*") for path in folder.glob(f"{above}/{PROBING.as_posix()}"))
    yield from sorted(found, key=lambda path: [(len(part), part) for part in path.relative_to(folder).parts])


def read_beam(folder: Path) -> RawDataset:
    """Read the chats in a folder: every message of user and assistant, batches as sessions.

    A message's time is the last time anchor before it. Gold are the messages whose ids a question names as its
    sources. Questions of abstention have no answer. An `InvalidInputError` names file and field.
    """
    chats = {_name(folder, chat): chat for chat in _chats(folder)}
    if not chats:
        raise InvalidInputError("data", str(folder), f"a folder with {CHAT} and {PROBING}, or one of such folders")
    questions = [question for name, chat in chats.items() for question in _questions(name, chat)]
    return RawDataset({name: partial(_documents, name, chat) for name, chat in chats.items()}, questions)


def _name(folder: Path, chat: Path) -> str:
    parts = chat.relative_to(folder).parts or (chat.resolve().name,)
    return "-".join(("beam", *parts))


def _documents(name: str, chat: Path) -> Iterator[Document]:
    path, anchor = chat / CHAT, None
    for batch in _read_validated(path, _Chat):
        for turn in (turn for turns in batch.turns for turn in turns):
            place = f"{_display_name(path)} id {turn.id}"
            anchor = _time(turn.time_anchor, place) or anchor
            fields = {
                "id": f"{name}:{turn.id}",
                "collection": name,
                "kind": "message",
                "session": batch.batch_number,
                "timestamp": anchor,
                "speaker": turn.role,
                "role": turn.role,
                "text": _MARK.sub("", turn.content),
            }
            yield Document(place, fields)


def _time(said: str | None, place: str) -> str | None:
    """Return a time anchor such as `March-15-2024` in ISO format."""
    if not said:
        return None
    try:
        return datetime.strptime(said, _ANCHOR).isoformat()
    except ValueError:
        raise InvalidInputError(f"{place}.time_anchor", said, "a date such as March-15-2024") from None


def _questions(name: str, chat: Path) -> Iterator[LabelledQuestion]:
    path, known = chat / PROBING, {document.fields["id"] for document in _documents(name, chat)}
    number = 0
    for category, probes in _read_validated(path, _Probes).items():
        for at, probe in enumerate(probes):
            place = f"{_display_name(path)} {category}.{at}"
            sources = [f"{name}:{each}" for each in _ids(probe.source_chat_ids, f"{place}.source_chat_ids")]
            fields = {
                "id": f"{name}:q{number}",
                "collection": name,
                "question": probe.question,
                "category": category,
                "gold": [each for each in dict.fromkeys(sources) if each in known],
                "answerable": category != _UNANSWERABLE,
            }
            yield validate_model(LabelledQuestion, fields, place)
            number += 1


def _ids(value: Any, place: str) -> Iterator[int]:
    """Yield the ids of a number, a list, or lists by name."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _ids(each, place)
    elif isinstance(value, int):
        yield value
    elif value is not None:
        raise InvalidInputError(place, value, "ids of messages: numbers, lists of them, or lists by name")


def _read_validated(path: Path, shape: TypeAdapter[Any]) -> Any:
    if not path.is_file():
        raise InvalidInputError("data", str(path), "a file; chats of 10M have another layout, which isn't read")
    try:
        return shape.validate_python(read_json(path, _display_name(path)))
    except ValidationError as error:
        raise invalid_input_from(error, _display_name(path)) from error


def _display_name(path: Path) -> str:
    chat = path.parent if path.name == CHAT else path.parent.parent
    return f"{chat.name}/{path.name}"
