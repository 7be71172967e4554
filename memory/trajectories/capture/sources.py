"""Messages of any chat framework, read into one shape. Nothing is dropped: what has no place goes to `extra`.

Read are OpenAI-style mappings (`tool_calls[].function`, `function_call`), the same with flat calls (`name`,
`arguments`), mappings with content blocks (`tool_use`, `tool_result`), LangChain messages as objects, as
their dumps or as `(role, text)`, and plain text as a user's message. No framework is imported: objects are
read by their attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, JsonValue

from recall_loop.memory.trajectories.capture.to_json import plain, plain_mapping, plain_text
from recall_loop.memory.trajectories.capture.tool_calls import RawCall, calls_of
from recall_loop.memory.trajectories.capture.values import count_of, error_of, moment_of, text_of
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import Role

_ROLES = {
    "user": Role.USER,
    "human": Role.USER,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "agent": Role.ASSISTANT,
    "bot": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
}
_FEW = frozenset(("role", "content", "name", "tool_calls"))
# What a message may have as a property of its class, beside its own fields.
_PROPERTIES = ("type", "role", "content", "name", "id", "tool_calls", "tool_call_id")


@dataclass(slots=True)
class Heard:
    """One message as its source gave it, in plain JSON values; not masked yet."""

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
    extra: dict[str, JsonValue] = field(default_factory=dict)


def hear_all(messages: Iterable[object]) -> list[Heard]:
    """Read messages, oldest first.

    Raises:
        InvalidInputError: one of them is no message of any kind that is known; names its place.
    """
    if isinstance(messages, Mapping | str | bytes):
        raise InvalidInputError("messages", messages, "a list of messages")
    return [heard for index, given in enumerate(messages) for heard in hear(given, f"messages.{index}")]


def hear(given: object, where: str = "message") -> list[Heard]:
    """Read one message; more than one where a message carries several tool results as blocks.

    Raises:
        InvalidInputError: it is no message.
    """
    if type(given) is dict and given.keys() <= _FEW:
        quick = _quick(given)
        if quick is not None:
            return [quick]
    fields = _Fields(fields_of(given, where))
    role = _role(fields)
    heard = Heard(role, name=text_of(fields.take("name")))
    blocks = _Blocks.of(fields.take("content"))
    heard.content = blocks.text
    heard.calls = [*calls_of(fields), *blocks.calls]
    if fields.rest():  # most messages have nothing more to tell
        heard.tool_call_id = text_of(fields.take("tool_call_id"))
        _read_origin(heard, fields)
        heard.error = _error(fields, heard.content)
        heard.extra |= plain_mapping(fields.rest())
    heard.extra |= blocks.extra()
    own = [heard] if heard.content or heard.calls or not blocks.results or heard.extra else []
    return [*blocks.results, *own] if role is Role.USER else [*own, *blocks.results]


def _quick(given: dict[str, Any]) -> Heard | None:
    """Read a message that has nothing but role, text, name and calls, as most have; None where it isn't so."""
    word, content, name = given.get("role"), given.get("content"), given.get("name")
    role = _ROLES.get(word) if type(word) is str else None
    if role is None or type(content) is not str or not (name is None or type(name) is str):
        return None
    calls = given.get("tool_calls")
    return Heard(role, plain_text(content), text_of(name), calls_of(_Fields({"tool_calls": calls})) if calls else [])


def fields_of(given: object, where: str) -> dict[str, Any]:
    """Return the fields of a message, whatever it is made of."""
    if isinstance(given, str):
        return {"role": "user", "content": given}
    if isinstance(given, Mapping):
        return _unwrapped(given)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        return {"role": given[0], "content": given[1]}
    if hasattr(given, "content") and (hasattr(given, "type") or hasattr(given, "role")):
        return _attributes(given)
    raise InvalidInputError(where, given, "a message: a mapping with role and content, or a LangChain message")


def _attributes(given: object) -> dict[str, Any]:
    names: Iterable[str] = type(given).model_fields if isinstance(given, BaseModel) else getattr(given, "__dict__", ())
    found = {name: getattr(given, name) for name in [*_PROPERTIES, *names] if hasattr(given, name)}
    return {name: value for name, value in found.items() if not callable(value)}


def _unwrapped(given: Mapping[str, Any]) -> dict[str, Any]:
    """Take a message out of LangChain's two ways of writing one down."""
    inner, kind = given.get("kwargs"), given.get("id")
    if given.get("lc") and isinstance(inner, Mapping) and isinstance(kind, list) and kind:
        word = str(kind[-1]).removesuffix("Chunk").removesuffix("Message").lower()
        return {"type": word, **inner}
    inner = given.get("data")
    if isinstance(inner, Mapping) and isinstance(given.get("type"), str) and "content" in inner:
        return {"type": given["type"], **inner}
    return dict(given)


class _Fields:
    """A message's fields; what was taken is left out of the rest."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._left = given

    def take(self, *names: str) -> Any:
        """Remove and return the first of `names` that has a value; None where none has."""
        for name in names:
            if self._left.get(name) is not None:
                return self._left.pop(name)
        return None

    def inner(self, name: str) -> Mapping[str, Any]:
        """Return a field that holds further fields, without taking it; empty where there is none."""
        value = self._left.get(name)
        return value if isinstance(value, Mapping) else {}

    def rest(self) -> dict[str, Any]:
        return self._left


def _role(fields: _Fields) -> Role:
    """Return who speaks; a role that nobody knows is an agent's name, and is kept in `extra`."""
    given = fields.take("role", "type")
    word = str(getattr(given, "value", given) or "").lower().removesuffix("messagechunk").removesuffix("message")
    role = _ROLES.get(word)
    if role is None:
        if given is not None:
            fields.rest()["role"] = given
        return Role.TOOL if fields.rest().get("tool_call_id") else Role.ASSISTANT
    fields.rest().pop("type", None)
    return role


def _error(fields: _Fields, content: str) -> str | None:
    """Return the error that a message reports; a mere `true` makes its content the error."""
    status = fields.rest().get("status")
    given = fields.take("error")
    if fields.rest().get("is_error") is True or status in ("error", "failed"):
        given = given or fields.rest().pop("is_error", True)
    return (content or "error") if given is True else error_of(given)


def _read_origin(heard: Heard, fields: _Fields) -> None:
    """Take when, by which model, in which step and at what cost a message was made."""
    response, usage = fields.inner("response_metadata"), _usage(fields)
    heard.id = text_of(fields.take("id"))
    if heard.id is not None:
        heard.extra["id"] = heard.id
    heard.step_id = text_of(fields.take("step_id", "step"))
    heard.model = text_of(fields.take("model", "model_name") or response.get("model_name") or response.get("model"))
    heard.stop_reason = text_of(
        fields.take("stop_reason", "finish_reason") or response.get("finish_reason") or response.get("stop_reason")
    )
    heard.input_tokens = count_of(usage.get("input_tokens", usage.get("prompt_tokens")))
    heard.output_tokens = count_of(usage.get("output_tokens", usage.get("completion_tokens")))
    for name in ("timestamp", "created_at", "created", "time", "date"):
        moment = moment_of(fields.rest().get(name))
        if moment is not None and heard.timestamp is None:
            heard.timestamp = moment
            fields.take(name)


def _usage(fields: _Fields) -> Mapping[str, Any]:
    """Return where the tokens of a message are counted. It stays in `extra`: it may say more than the totals."""
    places = (fields.inner("usage_metadata"), fields.inner("usage"), fields.inner("response_metadata"))
    for place in (*places[:2], places[2].get("token_usage"), places[2].get("usage")):
        if isinstance(place, Mapping) and place:
            return place
    return {}


@dataclass(slots=True)
class _Blocks:
    """A message's content: its text, and the calls and results that stand among its blocks."""

    text: str = ""
    calls: list[RawCall] = field(default_factory=list)
    results: list[Heard] = field(default_factory=list)
    others: list[JsonValue] = field(default_factory=list)

    @classmethod
    def of(cls, content: Any) -> _Blocks:
        if isinstance(content, str):
            return cls(plain_text(content))
        found = cls()
        given = content if isinstance(content, list | tuple) else [] if content is None else [content]
        texts = [text for block in given if (text := found._read(block))]
        found.text = "\n".join(texts)
        return found

    def _read(self, block: Any) -> str:
        """Return a block's text; file everything else where it belongs."""
        if isinstance(block, str):
            return plain_text(block)
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind in ("text", "input_text", "output_text") and isinstance(block.get("text"), str):
            return plain_text(block["text"])
        if kind == "tool_use":
            self.calls += calls_of(_Fields({"tool_calls": [block]}))
        elif kind == "tool_result":
            inner = _Blocks.of(block.get("content"))
            error = (inner.text or "error") if block.get("is_error") else None
            call_id = text_of(block.get("tool_use_id"))
            self.results.append(Heard(Role.TOOL, inner.text, tool_call_id=call_id, error=error, extra=inner.extra()))
        else:
            self.others.append(plain(block))
        return ""

    def extra(self) -> dict[str, JsonValue]:
        return {"blocks": self.others} if self.others else {}
