"""Any form of question to a `Memory`, as a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recall_loop.graph.request_parsing import RequestInput, chat_fields, parse_request, thread_fields
from recall_loop.memory.intake.conversations.additions import is_one_message
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import RetrieveRequest

QuestionInput = RequestInput | Sequence[object]


def request_of(question: QuestionInput, fields: Mapping[str, Any]) -> RetrieveRequest:
    """Return the request of a question, of a message or of several, with further fields.

    Raises:
        InvalidInputError: names an invalid value, or a field that the request has too.
    """
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
