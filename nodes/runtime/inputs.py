"""From the graph's input to a validated request: messages in, defaults filled from context and settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, FunctionMessage, SystemMessage, ToolMessage
from pydantic import ValidationError

from recall_loop.memory.parsing.chat_messages import is_recall_block
from recall_loop.memory.parsing.content_parts import ContentParts
from recall_loop.memory.parsing.foreign_json import clean_text, known_role, to_datetime, to_text
from recall_loop.memory.parsing.message_fields import time_among
from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError, invalid_input_from, validate_model
from recall_loop.state.request import ChatMessage as RequestMessage
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import MAX_TEXT_CHARS, Role

_ROLES = ((AIMessage, "assistant"), (SystemMessage, "system"), (ToolMessage, "tool"), (FunctionMessage, "tool"))
# The fields of a request that are in the graph's state under the same names.
_FIELDS = tuple(name for name in RetrieveRequest.model_fields if name not in ("id", "messages"))
_REWRITTEN = ("request_id", "reference_time")
_FROM_CONTEXT = ("tenant", "agent_id", "user_id", "conversation_id", "scope")
_ASKS_NOTHING = "…"
_FROM_SETTINGS = ("max_facts", "max_iterations", "max_context_tokens")


def request_from_state(state: AgentState, context: Context, settings: Settings) -> RetrieveRequest:
    """Return the request in the graph's input; its own fields take precedence over context and settings.

    Raises:
        InvalidInputError: no message with text, or a field that is out of its range.
    """
    raw = caller_fields(state)
    if "request_id" in raw:
        raw["id"] = raw.pop("request_id")
    raw |= _defaults(raw, context, settings)
    raw["messages"] = chat_messages(state.get("messages") or [])
    return _with_scope_checked(validate_model(RetrieveRequest, raw))


def complete_request(request: RetrieveRequest, context: Context, settings: Settings) -> RetrieveRequest:
    """Return a validated request with its missing fields filled from context and settings.

    Raises:
        InvalidInputError: the scope needs an agent, and none is given.
    """
    given = {name for name in request.model_fields_set if getattr(request, name) is not None}
    return _with_scope_checked(request.model_copy(update=_defaults(given, context, settings)))


def _defaults(given: Collection[str], context: Context, settings: Settings) -> dict[str, Any]:
    """Return values for the fields that aren't given: from the context, else from the settings."""
    values = {name: value for name in _FROM_CONTEXT if (value := getattr(context, name)) is not None}
    values.setdefault("tenant", settings.tenant)
    values |= {name: getattr(settings, name) for name in _FROM_SETTINGS}
    return {name: value for name, value in values.items() if name not in given}


def _with_scope_checked(request: RetrieveRequest) -> RetrieveRequest:
    """Return the request once its scope is checked: only now is the agent known, which may come from the context."""
    try:
        request.read_scope()
    except ValidationError as error:
        raise invalid_input_from(error, "scope") from error
    return request


def chat_messages(messages: Sequence[BaseMessage], key: str = "messages") -> list[RequestMessage]:
    """Return the conversation's messages with text; our own context blocks are left out. Errors name `key`.

    Earlier messages than the question are shortened as in `remember`: they stay in their thread, where an error would
    end every later turn.

    Raises:
        InvalidInputError: there is no message, none of the user's has text (a lone image has none), or the question
            isn't allowed.
    """
    window = _window(messages)
    if not window:
        raise InvalidInputError(key, [], "at least one message")
    asked = _asked(window)
    if not (content := _text(window[asked].content)).strip():
        raise InvalidInputError(f"{key}.content", content, "text with at least one character that is not white space")
    read = (_question(one, f"{key}.{place}") if place == asked else _earlier(one) for place, one in window.items())
    return [message for message in read if message is not None]


def asking(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a thread whose last user message becomes an empty question if no user message has text.

    A message such as a lone image is no mistake of the host application, and must not end its run (GRAPH-1).
    """
    window, thread = _window(messages), list(messages)
    if window and not _text(window[asked := _asked(window)].content).strip():
        thread[asked] = thread[asked].model_copy(update={"content": _ASKS_NOTHING})
    return thread


def _window(messages: Sequence[BaseMessage]) -> dict[int, BaseMessage]:
    return {place: message for place, message in enumerate(messages) if not is_recall_block(message)}


def _asked(window: Mapping[int, BaseMessage]) -> int:
    """Return the index of the question: the last user message with text, else the last user message."""
    places = [place for place, message in window.items() if chat_role(message) == Role.USER] or list(window)
    return next((place for place in reversed(places) if _text(window[place].content).strip()), places[-1])


def _question(message: BaseMessage, where: str) -> RequestMessage:
    fields = {
        "role": chat_role(message),
        "author": message.name or None,
        "content": _text(message.content),
        "timestamp": time_among(message.additional_kwargs),
    }
    return validate_model(RequestMessage, fields, where)


def _earlier(message: BaseMessage) -> RequestMessage | None:
    """Return a message that isn't the question; None for one without text."""
    content = clean_text(_text(message.content))[:MAX_TEXT_CHARS]
    if not content.strip():
        return None
    return RequestMessage(
        role=Role(known_role(chat_role(message)) or Role.ASSISTANT),
        author=to_text(message.name),
        content=content,
        timestamp=to_datetime(time_among(message.additional_kwargs)),
    )


def chat_role(message: BaseMessage) -> str:
    """Return the role; by class, because a streamed chunk's `type` is a name of its own."""
    if isinstance(message, ChatMessage):
        return message.role
    return next((role for kind, role in _ROLES if isinstance(message, kind)), "user")


def _text(content: Any) -> str:
    """Return the text parts of a message's content; a plain text unchanged."""
    return content if isinstance(content, str) else ContentParts.parse(content).text


def caller_fields(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the caller gave.

    `request_id` and `reference_time` are outputs too: values from the thread's last run don't count.
    """
    made_up = state.get("made_up") or {}
    names = [name for name in (*_FIELDS, "request_id") if state.get(name) is not None]
    return {name: state[name] for name in names if name not in made_up or state[name] != made_up[name]}


def cleared_inputs(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update that ends a run: its input must not be input of the thread's next turn."""
    return {
        **{name: None for name in _FIELDS if name not in _REWRITTEN},
        "made_up": {name: state[name] for name in _REWRITTEN},
    }


def run_key(state: Mapping[str, Any], context: Context) -> str:
    """Return a key that differs between the runs of a thread: of the input's fields, the context, the messages' ids."""
    messages = [(message.id, _text(message.content)) for message in state.get("messages") or []]
    # The run rewrites these two in its own format.
    given = {name: value for name, value in caller_fields(state).items() if name not in _REWRITTEN}
    plain = json.dumps([given, context.model_dump(mode="json"), messages], sort_keys=True, default=str)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32]
