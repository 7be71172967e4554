"""Whatever a question to a `Memory` is made of, as a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recall_loop.graph.run import RequestInput, parse_request
from recall_loop.memory.intake.conversations.additions import is_one_message
from recall_loop.memory.parsing.chat_messages import is_recall_block, parse_messages, role_of
from recall_loop.memory.parsing.foreign_json import to_datetime
from recall_loop.memory.parsing.message_fields import message_record_fields
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.types import Role

QuestionInput = RequestInput | Sequence[object]
_FIELDS = ChatMessage.model_fields.keys()


def request_of(question: QuestionInput, fields: Mapping[str, Any]) -> RetrieveRequest:
    """Return the request of a question, of a message or of several, with further fields.

    Raises:
        InvalidInputError: names what isn't allowed, or a field that the request gives too.
    """
    if isinstance(question, str):
        return parse_request({**fields, "messages": [{"content": question}]})
    if is_one_message(question):
        return parse_request({**fields, "messages": [_chat_fields(question)]})
    if isinstance(question, RetrieveRequest | Mapping):
        request = parse_request(question)
        for name in fields:
            if name in request.model_fields_set:
                raise InvalidInputError(name, fields[name], "nothing beside a request that has it")
        return (
            validate_model(RetrieveRequest, {**request.model_dump(exclude_unset=True), **fields}) if fields else request
        )
    if not isinstance(question, Iterable):
        raise InvalidInputError("question", question, "a question, messages, or a RetrieveRequest or its fields")
    told = [_chat_fields(one) for one in question if not is_recall_block(one)]
    return parse_request({**fields, "messages": _with_words(told)})


def _with_words(told: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the messages with text, as the graph reads a thread; all of them where none of the user's has any."""
    said = [one for one in told if str(one.get("content") or "").strip()]
    asking = [one for one in told if one.get("role", Role.USER) == Role.USER] or told
    return said if any(one in said for one in asking) else told


def _chat_fields(given: object) -> Mapping[str, Any]:
    """Return a message as the request takes it; those of other shapes by their role, text, name and time."""
    if isinstance(given, ChatMessage):
        return given.model_dump(exclude_unset=True)
    if isinstance(given, Mapping) and given.keys() <= _FIELDS and isinstance(given.get("content", ""), str):
        role = role_of(given.get("role"))
        return {**given, "role": role} if role else given
    (message,) = parse_messages([given])[-1:]
    read = message_record_fields(message, 0)
    return {
        "role": read["role"],
        "author": read.get("author"),
        "content": read["text"],
        "timestamp": to_datetime(read.get("created_at")),
    }
