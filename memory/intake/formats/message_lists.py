"""Lists of chat messages, as OpenAI and LangChain write them: one list, or a list or lines of conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recall_loop.memory.intake.formats.source_items import LeftOut, SourceItem, as_list
from recall_loop.memory.parsing.foreign_json import InvalidLine, raw_json, to_text
from recall_loop.memory.parsing.message_fields import message_record_fields, parse_known_message
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.language_codes import is_language_code
from recall_loop.state.types import MAX_TEXT_CHARS, Role

_SYSTEM = LeftOut("system messages")
_EMPTY = LeftOut("messages without text")
_NAMES = ("conversation_id", "thread_id", "id")
_LANGCHAIN = ("human", "ai", "system", "tool", "function", "chat", "HumanMessageChunk", "AIMessageChunk")


def is_conversation(item: object) -> bool:
    """Tell whether an item holds the messages of a conversation."""
    return isinstance(item, Mapping) and isinstance(item.get("messages"), list)


def is_langchain(item: object) -> bool:
    """Tell whether an item is a message in one of the ways in which LangChain writes it down."""
    if not isinstance(item, Mapping):
        return False
    typed = item.get("type") in _LANGCHAIN and ("content" in item or isinstance(item.get("data"), Mapping))
    return typed or (bool(item.get("lc")) and isinstance(item.get("kwargs"), Mapping))


def is_openai(item: object) -> bool:
    """Tell whether an item is a message of a chat API."""
    return isinstance(item, Mapping) and isinstance(item.get("role"), str) and "content" in item


def read_messages(document: Any, conversation: str) -> Iterator[SourceItem]:
    """Yield the messages of one list, or of each conversation.

    Args:
        document: messages; a mapping with `messages`; or a list of such mappings.
        conversation: id of a conversation that names none; with a number where there are several.
    """
    number = 0
    for name, messages in _conversations(document, conversation):
        position = 0
        for given in messages:
            number += 1
            outcomes = list(_outcomes(given))
            for outcome in outcomes:
                if isinstance(outcome, dict):
                    outcome |= {"conversation_id": outcome.get("conversation_id") or name, "position": position}
                    position += 1
                yield SourceItem(number, outcome, _raw(given))


def _conversations(document: Any, default: str) -> Iterator[tuple[str, list[Any]]]:
    items = as_list(document)
    if not any(map(is_conversation, items)):
        yield default, items
        return
    for number, item in enumerate(items, start=1):
        fields = item if isinstance(item, Mapping) else {}
        given = next((text for name in _NAMES if (text := to_text(fields.get(name)))), None)
        named = given or (default if len(items) == 1 else f"{default}-{number}")
        yield named, item["messages"] if is_conversation(item) else [item]


def _outcomes(given: Any) -> Iterator[dict[str, Any] | LeftOut | InvalidLine]:
    if isinstance(given, InvalidLine):
        yield given
        return
    if not (isinstance(given, str) or is_openai(given) or is_langchain(given)):
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
            yield _EMPTY
        else:
            message.content = message.content[:MAX_TEXT_CHARS]
            fields = message_record_fields(message, part)
            if not is_language_code(fields.get("language")):
                fields.pop("language", None)
            yield fields


def _raw(value: Any) -> str:
    return value.raw if isinstance(value, InvalidLine) else raw_json(value)
