"""Lists of chat messages, as the APIs of providers and LangChain have them: one, or a list or lines of several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from recall_loop.memory.intake.formats.source_items import WITHOUT_TEXT, LeftOut, SourceItem, as_list
from recall_loop.memory.parsing.chat_messages import CONTENT
from recall_loop.memory.parsing.foreign_json import InvalidLine, as_mapping, raw_json, to_text
from recall_loop.memory.parsing.message_fields import message_record_fields, parse_known_message
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.language_codes import is_language_code
from recall_loop.state.types import MAX_TEXT_CHARS, Role

_SYSTEM = LeftOut("system messages")
_OWNER = ("user_id", "agent_id", "conversation_id")
_NAMES = ("conversation_id", "thread_id", "id")
_LANGCHAIN = ("human", "ai", "system", "tool", "function", "chat", "HumanMessageChunk", "AIMessageChunk")

_Read = tuple[int, Any, dict[str, Any] | LeftOut | InvalidLine]


def messages_of(item: object) -> list[Any] | None:
    """Return the messages of a conversation, whatever the field that holds them; None for any other item.

    Of several such fields, as a model's input and output, one alone would be half of it: they are none.
    """
    if not isinstance(item, Mapping) or "role" in item:
        return None
    if isinstance(messages := item.get("messages"), list):
        return messages
    if says_itself(item):
        return None
    found = [given for given in item.values() if isinstance(given, list) and _are_messages(given)]
    return found[0] if len(found) == 1 else None


def says_itself(item: Mapping[str, Any]) -> bool:
    """Return whether an item has a text of its own, as records do: a list of messages beside it is only a field."""
    return isinstance(item.get("text"), str) or isinstance(item.get("content"), str)


def _are_messages(given: list[Any]) -> bool:
    """Tell whether a list holds messages, with what APIs have beside them."""
    alike = all(isinstance(one, Mapping) and ("role" in one or "type" in one) for one in given)
    return alike and any(map(is_openai, given))


def is_langchain(item: object) -> bool:
    """Return whether an item is a message in one of the ways in which LangChain writes it down."""
    if not isinstance(item, Mapping):
        return False
    typed = item.get("type") in _LANGCHAIN and ("content" in item or isinstance(item.get("data"), Mapping))
    return typed or (bool(item.get("lc")) and isinstance(item.get("kwargs"), Mapping))


def is_openai(item: object) -> bool:
    """Tell whether an item is a message of a chat API, or of a chat whose speakers are objects."""
    if not isinstance(item, Mapping) or item.keys().isdisjoint(CONTENT):
        return False
    return isinstance(item.get("role"), str) or isinstance(item.get("author"), Mapping)


def _stands_beside(item: object) -> bool:
    """Tell whether an item is what the Responses API has between messages: a call, its result, a thought."""
    return isinstance(item, Mapping) and isinstance(item.get("type"), str) and "text" not in item


def read_messages(document: Any, conversation: str) -> Iterator[SourceItem]:
    """Yield the messages of one list, of a mapping with `messages`, or of each of a list of such mappings.

    `conversation` is the id of one that names none; with a number where there are several.
    """
    number = 0
    for name, messages in _conversations(document, conversation):
        read: list[_Read] = []
        for given in messages:
            number += 1
            read += [(number, given, outcome) for outcome in _outcomes(given)]
        position = 0
        for place, given, outcome in _oldest_first(read):
            if isinstance(outcome, dict):
                outcome |= {"conversation_id": outcome.get("conversation_id") or name, "position": position}
                position += 1
            yield SourceItem(place, outcome, _raw(given))


def _oldest_first(read: list[_Read]) -> list[_Read]:
    """Return what was read in its order, or in the other one where no message is later than that before it.

    OpenAI's threads come newest first, with times in whole seconds. The parts of a message stay in order.
    """
    times = [outcome.get("created_at") for _, _, outcome in read if isinstance(outcome, dict)]
    moments = [one for one in times if isinstance(one, datetime)]
    falls = len(moments) == len(times) and moments[:1] > moments[-1:] and moments == sorted(moments, reverse=True)
    return sorted(read, key=lambda one: one[0], reverse=True) if falls else read


def _conversations(document: Any, default: str) -> Iterator[tuple[str, list[Any]]]:
    items = as_list(document)
    found = [messages_of(item) for item in items]
    if all(messages is None for messages in found):
        yield default, items
        return
    for number, (item, messages) in enumerate(zip(items, found, strict=True), start=1):
        fields = item if isinstance(item, Mapping) else {}
        given = next((text for name in _NAMES if (text := to_text(fields.get(name)))), None)
        named = given or (default if len(items) == 1 else f"{default}-{number}")
        yield named, [item] if messages is None else messages


def _outcomes(given: Any) -> Iterator[dict[str, Any] | LeftOut | InvalidLine]:
    if isinstance(given, InvalidLine):
        yield given
        return
    if not (isinstance(given, str) or is_openai(given) or is_langchain(given) or _stands_beside(given)):
        yield InvalidLine("message: got neither a role with content nor LangChain's type with content", _raw(given))
        return
    try:
        messages = parse_known_message(given, "message")
    except InvalidInputError as error:
        yield InvalidLine(str(error), _raw(given))
        return
    for part, message in enumerate(messages):
        if message.role is Role.SYSTEM:
            yield _SYSTEM
        elif not message.content.strip():
            yield WITHOUT_TEXT
        else:
            message.content = message.content[:MAX_TEXT_CHARS]
            fields = message_record_fields(message, part) | _owner(given)
            if not is_language_code(fields.get("language")):
                fields.pop("language", None)
            yield fields


def _owner(given: Any) -> dict[str, str]:
    fields = as_mapping(given)
    return {name: text for name in _OWNER if isinstance(text := fields.get(name), str) and text.strip()}


def _raw(value: Any) -> str:
    return value.raw if isinstance(value, InvalidLine) else raw_json(value)
