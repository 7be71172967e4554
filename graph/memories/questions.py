"""Whatever a question to a `Memory` is made of, as a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recall_loop.graph.run import RequestInput, parse_request
from recall_loop.memory.intake.conversations.additions import is_one_message
from recall_loop.memory.parsing.chat_messages import parse_messages
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import ChatMessage, RetrieveRequest

QuestionInput = RequestInput | Sequence[object]


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
    return parse_request({**fields, "messages": [_chat_fields(one) for one in question]})


def _chat_fields(given: object) -> Any:
    """Return a message as the request takes it; those of other shapes by their role, text, name and time."""
    if isinstance(given, ChatMessage) or (
        isinstance(given, Mapping) and given.keys() <= ChatMessage.model_fields.keys()
    ):
        return given
    (message,) = parse_messages([given])[-1:]
    return {
        "role": message.role,
        "author": message.name,
        "content": message.content,
        "timestamp": message.timestamp,
    }
