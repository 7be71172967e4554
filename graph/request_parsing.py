"""Any form of request (a question, fields, messages of any chat framework), validated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from recall_loop.memory.parsing.chat_messages import is_in_parts, is_recall_block, role_of
from recall_loop.memory.parsing.foreign_json import to_datetime
from recall_loop.memory.parsing.held_messages import held_messages, is_one_message, thread_of
from recall_loop.memory.parsing.message_fields import message_record_fields, parse_known_message
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.types import Role

RequestInput = RetrieveRequest | Mapping[str, Any] | str | Sequence[object]
_FIELDS = ChatMessage.model_fields.keys()
_ALLOWED = "a question, messages or what holds them, or a RetrieveRequest or its fields"


def parse_request(
    request: RequestInput, fields: Mapping[str, Any] = MappingProxyType({}), name: str = "request"
) -> RetrieveRequest:
    """Return the validated request of a question, of messages, or of its fields, with `fields` that it doesn't have.

    Its messages may be objects of a chat framework, or mappings whose content is in parts. Where all are mappings with
    text, each has the fields of a `ChatMessage` and no others. An invalid field raises `InvalidInputError`; `name` is
    the argument's.
    """
    if isinstance(request, str):
        return validate_model(RetrieveRequest, {**fields, "messages": [{"content": request}]})
    if not _is_request(request):
        thread = thread_of(request, name, _ALLOWED)
        told = [chat_fields(thread[0], "message")] if is_one_message(request) else thread_fields(thread)
        return validate_model(RetrieveRequest, {**fields, "messages": told})
    parsed = request if isinstance(request, RetrieveRequest) else _of_fields(cast("Mapping[str, Any]", request))
    for field in fields:
        if field in parsed.model_fields_set:
            raise InvalidInputError(field, fields[field], "no value together with a request that has one")
    return validate_model(RetrieveRequest, {**parsed.model_dump(exclude_unset=True), **fields}) if fields else parsed


def _is_request(given: object) -> bool:
    if not isinstance(given, Mapping):
        return isinstance(given, RetrieveRequest)
    return not is_one_message(given) and ("messages" in given or held_messages(given, "request") is None)


def _of_fields(raw: Mapping[str, Any]) -> RetrieveRequest:
    told = raw.get("messages")
    if isinstance(told, str) or is_one_message(told):
        told = [told]
    if isinstance(told, list | tuple) and any(not isinstance(one, Mapping) or is_in_parts(one) for one in told):
        told = thread_fields(told)
    return validate_model(RetrieveRequest, {**raw, "messages": told} if "messages" in raw else raw)


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
