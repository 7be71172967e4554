"""Messages of any chat framework, parsed into one shape. Nothing is dropped: unknown fields go to `extra`.

Read are OpenAI-style mappings (`tool_calls[].function`, `function_call`), the same with flat calls (`name`,
`arguments`), mappings with the parts of any provider (`content_parts`), LangChain messages as objects, as
their dumps or as `(role, text)`, and plain text as a user's message. No framework is imported: objects are
read by their attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from recall_loop.memory.parsing.content_parts import ContentParts, is_tool_part, object_fields
from recall_loop.memory.parsing.error_results import is_error_result
from recall_loop.memory.parsing.foreign_json import (
    attribute,
    clean_text,
    to_count,
    to_datetime,
    to_error,
    to_json_object,
    to_text,
)
from recall_loop.memory.parsing.tool_calls import MessageFields, RawCall, take_calls
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import Role

_WORDS = {
    Role.USER: ("user", "human", "request"),
    Role.ASSISTANT: ("assistant", "ai", "model", "chatbot", "response", "agent", "bot"),
    Role.TOOL: ("tool", "function"),
    Role.SYSTEM: ("system", "developer"),
}
_ROLES = {word: role for role, words in _WORDS.items() for word in words}
CONTENT = ("content", "parts", "blocks")
"""Names under which messages have what they say: Gemini's, A2A's and Vercel's `parts`, LlamaIndex's `blocks`."""
TIMES = ("timestamp", "created_at", "createdAt", "created", "time", "date")
"""Names under which messages say when they were written."""
# Marks a context block that the loop has appended to a conversation, in its `additional_kwargs`.
RECALL_MARKER = "recall_loop"
_SIMPLE_FIELDS = frozenset(("role", "content", "name", "tool_calls"))
# One of them an object has that is a message.
_TELLING = {"type", "role", "kind"}
# Possible properties of a message's class, beside its fields.
_PROPERTIES = ("type", "role", "kind", "content", "name", "id", "tool_calls", "tool_call_id")


@dataclass(slots=True)
class SourceMessage:
    """One message as its source gave it, in plain JSON values; not masked yet.

    `speaker` is an unknown role: the name of an agent or a person. `extra` has it, too.
    """

    role: Role
    content: str = ""
    name: str | None = None
    calls: list[RawCall] = field(default_factory=list)
    tool_call_id: str | None = None
    timestamp: Any = None
    error: str | None = None
    step_id: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    stop_reason: str | None = None
    id: str | None = None
    speaker: str | None = None
    extra: dict[str, JsonValue] = field(default_factory=dict)


def is_recall_block(message: Any) -> bool:
    """Return whether a message, as an object or a mapping, is a context block that the graph has appended."""
    more = message.get("additional_kwargs") if isinstance(message, Mapping) else None
    more = attribute(message, "additional_kwargs") if more is None else more
    return isinstance(more, Mapping) and bool(more.get(RECALL_MARKER))


def is_in_parts(message: Mapping[str, Any]) -> bool:
    """Tell whether a message in a mapping has what it says in parts."""
    return any(isinstance(message.get(name), list | tuple) for name in CONTENT)


def role_of(word: object) -> Role | None:
    """Return the role for a word of a chat API, such as `human`; None for any other."""
    return _ROLES.get(word) if isinstance(word, str) else None


def parse_messages(messages: Iterable[object]) -> list[SourceMessage]:
    """Read messages, oldest first; what is no message of any known kind raises `InvalidInputError`, with its place."""
    if isinstance(messages, Mapping | str | bytes):
        raise InvalidInputError("messages", messages, "a list of messages")
    return [parsed for index, given in enumerate(messages) for parsed in parse_message(given, f"messages.{index}")]


def parse_message(given: object, where: str = "message") -> list[SourceMessage]:
    """Read one message; more than one where a message carries several tool results as blocks.

    What is no message, and an object's attribute that can't be read, raise `InvalidInputError`.
    """
    try:
        if type(given) is dict and given.keys() <= _SIMPLE_FIELDS:
            simple = _parse_simple_message(given)
            if simple is not None:
                return [simple]
        return _parse_fields(MessageFields(message_fields(given, "")))
    except InvalidInputError as error:
        raise error.within(where) from error


def _parse_fields(fields: MessageFields) -> list[SourceMessage]:
    word, role = fields.remaining.get("role"), _role(fields)
    content = _content(fields)
    name, parts = to_text(fields.take("name")), ContentParts.parse(content)
    message = SourceMessage(role, parts.text, name, take_calls(fields))
    known = {call.id for call in message.calls} - {None}  # LangChain's messages repeat calls of the content in a field
    message.calls += [call for call in parts.calls if call.id not in known]
    if fields.remaining:  # most messages have nothing more to tell
        message.speaker = to_text(word) if isinstance(word, str) and "role" in fields.remaining else None
        message.tool_call_id = to_text(fields.take("tool_call_id"))
        _read_origin(message, fields)
        message.error = _error(fields, message)
        message.extra |= to_json_object(fields.remaining)
    message.extra |= parts.extra()
    results = [
        SourceMessage(Role.TOOL, one.text, one.name, tool_call_id=one.call_id, error=one.error, extra=one.extra)
        for one in parts.results
    ]
    itself = [message] if message.content or message.calls or not results or message.extra else []
    return [*results, *itself] if role is Role.USER else [*itself, *results]


def _content(fields: MessageFields) -> Any:
    """Take what a message says: of several fields the first that isn't empty, else the transcript of its sound."""
    stated = {name: fields.remaining.get(name) for name in CONTENT}
    empty = [name for name, given in stated.items() if isinstance(given, str | list | tuple) and not given]
    content = fields.take(*(name for name in CONTENT if name not in empty), *empty)
    return (fields.nested("audio") or None) if content is None else content


def _parse_simple_message(given: dict[str, Any]) -> SourceMessage | None:
    """Read a message that has nothing but role, text, name and calls, as most do; None for any other."""
    word, content, name = given.get("role"), given.get("content"), given.get("name")
    role = _ROLES.get(word) if type(word) is str else None
    if role is None or type(content) is not str or not (name is None or type(name) is str):
        return None
    calls, text = given.get("tool_calls"), clean_text(content)
    found = take_calls(MessageFields({"tool_calls": calls})) if calls else []
    error = text if role is Role.TOOL and is_error_result(text) else None
    return SourceMessage(role, text, to_text(name), found, error=error)


def message_fields(given: object, where: str) -> dict[str, Any]:
    """Return the fields of a message, whatever it is made of."""
    if isinstance(given, str):
        return {"role": "user", "content": given}
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        return {"role": given[0], "content": given[1]}
    if isinstance(given, Mapping):
        fields = _unwrap_serialized(given)
    else:
        try:
            fields = object_fields(given, _PROPERTIES)
        except InvalidInputError as error:
            raise error.within(where) from error
        fields = fields if _TELLING & fields.keys() else {}
    if all(fields.get(name) is None for name in ("role", *CONTENT)) and is_tool_part(fields):
        return {"role": Role.ASSISTANT.value, "content": [fields]}
    if isinstance(given, Mapping) or not fields.keys().isdisjoint(CONTENT):
        return fields
    raise InvalidInputError(where, given, "a message: a mapping with role and content, or a LangChain message")


def _unwrap_serialized(given: Mapping[str, Any]) -> dict[str, Any]:
    """Take a message out of LangChain's two ways of writing one down."""
    inner, kind = given.get("kwargs"), given.get("id")
    if given.get("lc") and isinstance(inner, Mapping) and isinstance(kind, list) and kind:
        word = (to_text(kind[-1]) or "").removesuffix("Chunk").removesuffix("Message").lower()
        return {"type": word, **inner}
    inner = given.get("data")
    if isinstance(inner, Mapping) and isinstance(given.get("type"), str) and "content" in inner:
        return {"type": given["type"], **inner}
    return dict(given)


def _role(fields: MessageFields) -> Role:
    """Return the speaker's role; an unknown role is an agent's name, and is kept in `extra`."""
    given = fields.take("role", "type")
    word = (to_text(given) or "").lower().removesuffix("messagechunk").removesuffix("message")
    role = _ROLES.get(word)
    if role is None:
        if given is not None:
            fields.remaining["role"] = given
        # Of Zep, where the role names who speaks, of Pydantic AI, and of AutoGen.
        for other in ("role_type", "kind", "source"):
            if stated := _ROLES.get(str(fields.remaining.get(other)).lower()):
                fields.take(other)
                return stated
        if isinstance(fields.remaining.get("author"), Mapping):  # of a chat among people, as in Discord
            return Role.USER
        return Role.TOOL if fields.remaining.get("tool_call_id") else Role.ASSISTANT
    fields.remaining.pop("type", None)
    return role


def _error(fields: MessageFields, message: SourceMessage) -> str | None:
    """Return the error that a message reports; for a mere `true`, or an error result, it is the content."""
    status, marked = fields.remaining.get("status"), fields.remaining.get("is_error")
    given = fields.take("error")
    if marked is True or status in ("error", "failed"):
        given = given or fields.remaining.pop("is_error", True)
    if given is None and marked is None and message.role is Role.TOOL:
        given = is_error_result(message.content)
    return (message.content or "error") if given is True else to_error(given)


def _read_origin(message: SourceMessage, fields: MessageFields) -> None:
    """Take the time, model and step of a message; its token counts stay in `extra` too, which may have more of them."""
    response = fields.nested("response_metadata")
    counts = (fields.nested("usage_metadata"), fields.nested("usage"), *map(response.get, ("token_usage", "usage")))
    usage = next((one for one in counts if isinstance(one, Mapping) and one), {})
    message.id = to_text(fields.take("id"))
    if message.id is not None:
        message.extra["id"] = message.id
    message.step_id = to_text(fields.take("step_id", "step"))
    message.model = to_text(fields.take("model", "model_name") or response.get("model_name") or response.get("model"))
    end = fields.take("stop_reason", "finish_reason")
    message.stop_reason = to_text(end or response.get("finish_reason") or response.get("stop_reason"))
    message.input_tokens = to_count(usage.get("input_tokens", usage.get("prompt_tokens")))
    message.output_tokens = to_count(usage.get("output_tokens", usage.get("completion_tokens")))
    for name in TIMES:
        moment = to_datetime(fields.remaining.get(name))
        if moment is not None and message.timestamp is None:
            message.timestamp = moment
            fields.take(name)
