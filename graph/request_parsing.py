"""Any form of request (a question, fields, messages of any chat framework), validated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recall_loop.memory.intake.conversations.additions import is_one_message
from recall_loop.memory.parsing.chat_messages import is_in_parts, is_recall_block, role_of
from recall_loop.memory.parsing.foreign_json import to_datetime
from recall_loop.memory.parsing.message_fields import message_record_fields, parse_known_message
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.types import Role

RequestInput = RetrieveRequest | Mapping[str, Any] | str
QuestionInput = RequestInput | Sequence[object]
_FIELDS = ChatMessage.model_fields.keys()


def parse_request(request: RequestInput) -> RetrieveRequest:
    """Return a validated request.

    Its messages may be objects of a chat framework, or mappings whose content is in parts. Where all are mappings with
    text, each has the fields of a `ChatMessage` and no others. An invalid field raises `InvalidInputError`.
    """
    if isinstance(request, RetrieveRequest):
        return request
    raw = {"messages": [{"content": request}]} if isinstance(request, str) else request
    if not isinstance(raw, Mapping):
        raise InvalidInputError("request", raw, "a question, a mapping of RetrieveRequest fields, or a RetrieveRequest")
    told = raw.get("messages")
    if isinstance(told, list | tuple) and any(not isinstance(one, Mapping) or is_in_parts(one) for one in told):
        raw = {**raw, "messages": thread_fields(told)}
    return validate_model(RetrieveRequest, raw)


def request_of(question: QuestionInput, fields: Mapping[str, Any]) -> RetrieveRequest:
    """Return the request of a question, of a message or of several, with fields that it doesn't have itself."""
    if isinstance(question, str):
        return parse_request({**fields, "messages": [{"content": question}]})
    if is_one_message(question):
        return parse_request({**fields, "messages": [chat_fields(question, "message")]})
    if isinstance(question, RetrieveRequest | Mapping):
        request = parse_request(question)
        for name in fields:
            if name in request.model_fields_set:
                raise InvalidInputError(name, fields[name], "no value together with a request that has one")
        return (
            validate_model(RetrieveRequest, {**request.model_dump(exclude_unset=True), **fields}) if fields else request
        )
    if not isinstance(question, Iterable):
        raise InvalidInputError("question", question, "a question, messages, or a RetrieveRequest or its fields")
    return parse_request({**fields, "messages": thread_fields(question)})


def thread_fields(thread: Iterable[object]) -> Sequence[Mapping[str, Any]]:
    """Return the messages of a thread as a request takes them, without those that have no text.

    All of them if none of the user's has any: that is an error, which names it.
    """
    told = [chat_fields(one, f"messages.{at}") for at, one in enumerate(thread) if not is_recall_block(one)]
    said = [one for one in told if str(one.get("content") or "").strip()]
    asking = [one for one in told if one.get("role", Role.USER) == Role.USER] or told
    return said if any(one in said for one in asking) else told


def chat_fields(given: object, where: str) -> Mapping[str, Any]:
    """Return a message as a request takes it; those of other shapes by their role, text, name and time."""
    if isinstance(given, ChatMessage):
        return given.model_dump(exclude_unset=True)
    if isinstance(given, Mapping) and given.keys() <= _FIELDS and isinstance(given.get("content", ""), str):
        role = role_of(given.get("role"))
        return {**given, "role": role} if role else given
    (message,) = parse_known_message(given, where)[-1:]
    read = message_record_fields(message, 0)
    return {
        "role": read["role"],
        "author": read.get("author"),
        "content": read["text"],
        "timestamp": to_datetime(read.get("created_at")),
    }
