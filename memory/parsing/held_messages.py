"""Messages within what holds them: an agent's state, a prompt of LangChain's, a model's whole answer.

As everywhere no framework is imported: objects are read by their attributes.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from recall_loop.memory.parsing.chat_messages import CONTENT
from recall_loop.memory.parsing.foreign_json import attribute
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import Role

_ABSENT = object()
# Objects that can be iterated, but over the names and values of their fields.
_FIELDWISE = (BaseModel, ItemsView)


def is_one_message(item: object) -> bool:
    """Return whether it has a message's content, or is LangChain's `(role, text)`; a pair of texts is a list of two."""
    if isinstance(item, Mapping):
        return not item.keys().isdisjoint(CONTENT) and "messages" not in item
    if any(attribute(item, name, _ABSENT) is not _ABSENT for name in CONTENT):
        return True
    return isinstance(item, tuple) and len(item) == 2 and item[0] in (*Role, "human", "ai")


def thread_of(given: object, field: str, allowed: str) -> list[object]:
    """Return messages, or whatever stands among them, of what a caller gives: one, several, or what holds them.

    Raises:
        InvalidInputError: it is none of these.
    """
    if isinstance(given, str) or is_one_message(given):
        return [given]
    if (held := held_messages(given, field)) is not None:
        return held
    if isinstance(given, (bytes, bytearray, Mapping, *_FIELDWISE)) or not isinstance(given, Iterable):
        raise InvalidInputError(field, given, allowed)
    return list(given)


def held_messages(given: object, field: str) -> list[object] | None:
    """Return the messages that something holds; None for anything else.

    Held are those of a state (`messages`) or a prompt of LangChain's, and a model's answer in a reply of OpenAI's kind,
    of which there must be one.
    """
    if isinstance(given, str | list | tuple) or is_one_message(given):
        return None
    messages = _field(given, "messages")
    if isinstance(messages, str) or is_one_message(messages):
        return [messages]
    if isinstance(messages, list | tuple):
        return list(messages)
    if callable(made := None if isinstance(given, Mapping) else attribute(given, "to_messages")):
        return list(made())
    choices, output = _field(given, "choices"), _field(given, "output")
    answers = [_field(one, "message") for one in choices] if isinstance(choices, list | tuple) else []
    if answers and None not in answers:
        if len(answers) > 1:
            raise InvalidInputError(f"{field}.choices", f"{len(answers)} answers", "one, or the message of one")
        return answers
    return list(output) if isinstance(output, list | tuple) and _field(given, "object") == "response" else None


def _field(given: object, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else attribute(given, name)
