"""Parsing the reply of a chat model, in any of its forms.

Servers differ in what they make of the same request: the object stands in the content, in a fence inside prose, in the
arguments of a tool's call, in a `parsed` field, or in blocks. All of them are read; pydantic then decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from pydantic import BaseModel, ValidationError

from recall_loop.llm.endpoint.failures import CallError, FailureReason, call_error
from recall_loop.llm.structured.output_methods import ReplySchema, reply_schema

T = TypeVar("T", bound=BaseModel)

_FENCED = re.compile(r"```[\w-]*\s*\n?(.*?)```", re.DOTALL)
_THOUGHT, _THOUGHT_ENDS = re.compile(r"<think(?:ing)?>"), re.compile(r"</think(?:ing)?>")
# Control characters inside strings are accepted: small models write line breaks there.
_DECODER = json.JSONDecoder(strict=False)
# Positions at which an object may begin inside prose: each costs a scan of the rest of the text.
_MAX_STARTS = 50
MAX_REPLY_CHARACTERS = 1_000_000
"""Characters of one reply that are read (GUARD-7); the largest that is asked for has some thousands."""
_TRUNCATION_REASONS = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_REFUSAL_REASONS = frozenset({"content_filter", "refusal", "safety"})


@dataclass(frozen=True)
class ParsedReply:
    """The content of a reply: ready objects, text, and whether the model refused or was cut off.

    `tokens` is what the server counted for the call, read and written; None if it didn't.
    """

    objects: tuple[Any, ...] = ()
    text: str = ""
    refused: bool = False
    truncated: bool = False
    tokens: int | None = None


def parse_reply(result: Any) -> ParsedReply:
    """Parse a model's result: a message, an object, or LangChain's dict of `raw` and `parsed`."""
    if isinstance(result, BaseMessage):
        return _read_message(result)
    if isinstance(result, Mapping) and isinstance(result.get("raw"), BaseMessage):
        inner, parsed = _read_message(result["raw"]), result.get("parsed")
        return inner if parsed is None else replace(inner, objects=(_plain(parsed), *inner.objects))
    if isinstance(result, str):
        return ParsedReply(text=result)
    return ParsedReply() if result is None else ParsedReply(objects=(_plain(result),))


def parse_truncated_reply(error: BaseException) -> ParsedReply | None:
    """Return the reply, which may be whole, in openai's error of one that ends at the limit; None for other errors."""
    completion = getattr(error, "completion", None)
    choices = getattr(completion, "choices", None)
    if not choices:
        return None
    content = getattr(choices[0].message, "content", None)
    total = getattr(getattr(completion, "usage", None), "total_tokens", None)
    return ParsedReply(text=content or "", truncated=True, tokens=_count(total))


def message_text(message: BaseMessage) -> str:
    """Return the JSON text of a message or of a piece of one: a tool call's arguments, else the content."""
    chunked = isinstance(message, AIMessageChunk) and message.tool_call_chunks
    return "".join(_argument_texts(message)) if chunked else _content(message)


def validate_reply(reading: ParsedReply, schema: type[T]) -> T | CallError:
    """Return the value of a reading, or why there is none."""
    unread = _unread(reading)
    if unread is not None:
        return unread
    shape, wrong = reply_schema(schema), ""
    objects = list(_candidates(reading))
    for found in objects:
        # With defaults, any object would validate.
        if shape.fields and not shape.fields & set(found):
            continue
        try:
            return schema.model_validate_json(json.dumps(found))
        except (ValidationError, ValueError, RecursionError) as error:
            wrong = wrong or _what_is_wrong(error, shape)
    if reading.truncated:
        return call_error(FailureReason.TRUNCATED, "the reply was cut off at its limit", alive=True)
    if objects:
        return call_error(FailureReason.INVALID, wrong or "the object has no field of the schema", alive=True)
    if not reading.objects and not reading.text.strip():
        return call_error(FailureReason.EMPTY, "the reply is empty", alive=True)
    return call_error(FailureReason.NOT_JSON, "the reply holds no JSON object", alive=True)


def _unread(reading: ParsedReply) -> CallError | None:
    """Return why a reply isn't parsed: the model refused, or it is too long."""
    if reading.refused:
        return call_error(FailureReason.REFUSED, "the model refused", alive=True)
    written = _characters(reading)
    if written <= MAX_REPLY_CHARACTERS:
        return None
    detail = f"reply: got {written:,} characters; allowed: at most {MAX_REPLY_CHARACTERS:,}"
    return call_error(FailureReason.TOO_LONG, detail, alive=True)


def _characters(reading: ParsedReply) -> int:
    """Return the size of a reply; of objects that JSON can't hold, which are refused anyway, the text alone counts."""
    try:
        return len(reading.text) + sum(len(json.dumps(found)) for found in reading.objects)
    except (TypeError, ValueError, RecursionError):
        return len(reading.text)


def _read_message(message: BaseMessage) -> ParsedReply:
    metadata = message.response_metadata
    details = metadata.get("incomplete_details")
    why = details.get("reason") if isinstance(details, Mapping) else None
    ends = {str(end).lower() for end in (metadata.get("finish_reason"), metadata.get("stop_reason"), why) if end}
    usage = getattr(message, "usage_metadata", None)
    return ParsedReply(
        objects=tuple(_objects(message)),
        text=" ".join(filter(None, (_content(message), *_argument_texts(message)))),
        refused=bool(ends & _REFUSAL_REASONS) or _refuses(message),
        truncated=bool(ends & _TRUNCATION_REASONS),
        tokens=_count(usage.get("total_tokens")) if isinstance(usage, Mapping) else None,
    )


def _count(total: Any) -> int | None:
    """Return a server's count of tokens; None if it is no count of anything."""
    return total if type(total) is int and total > 0 else None


def _objects(message: BaseMessage) -> Iterator[Any]:
    """Yield the objects that langchain or the server has parsed already."""
    # A chunk's tool calls are completed by guessing if the text is cut off: its text is read instead.
    if isinstance(message, AIMessage) and not isinstance(message, AIMessageChunk):
        for call in message.tool_calls:
            yield call["args"]
    parsed = message.additional_kwargs.get("parsed")
    if parsed is not None:
        yield _plain(parsed)
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("json"), dict):
            yield block["json"]


def _argument_texts(message: BaseMessage) -> Iterator[str]:
    """Yield the arguments of tool calls that came as text."""
    if isinstance(message, AIMessageChunk):
        yield "".join(chunk["args"] or "" for chunk in message.tool_call_chunks)
    elif isinstance(message, AIMessage):
        for call in message.invalid_tool_calls:
            yield call["args"] or ""


def _content(message: BaseMessage) -> str:
    """Return the text of a message whose content is text, or blocks."""
    if isinstance(message.content, str):
        return message.content
    blocks = ({"type": "text", "text": one} if isinstance(one, str) else one for one in message.content)
    texts = (one.get("text") for one in blocks if one.get("type") in ("text", "output_text"))
    return "".join(text for text in texts if isinstance(text, str))


def _refuses(message: BaseMessage) -> bool:
    if message.additional_kwargs.get("refusal"):
        return True
    blocks = [block for block in message.content if isinstance(block, dict)]
    return any(block.get("type") == "refusal" or block.get("refusal") for block in blocks)


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _candidates(reading: ParsedReply) -> Iterator[dict[str, Any]]:
    """Yield the objects that could be the value, and the contents of objects in which small models wrap it."""
    for found in (*reading.objects, *_in_text(reading)):
        if isinstance(found, dict):
            yield from (found, *_unwrapped(found))


def _unwrapped(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the object inside a tool call written as text, or inside a lone key."""
    inner = [found.get("arguments"), found.get("parameters"), *(found.values() if len(found) == 1 else ())]
    yield from (value for value in inner if isinstance(value, dict))


def _in_text(reading: ParsedReply) -> Iterator[Any]:
    """Yield the JSON values in text: the whole, fenced parts, then objects that begin somewhere in prose."""
    text = _without_thoughts(reading.text).strip()
    whole = [*_decoded(text), *(value for part in _FENCED.findall(text) for value in _decoded(part.strip()))]
    yield from whole
    # In a truncated reply, a complete part is not the whole.
    if whole or reading.truncated:
        return
    at, starts = text.find("{"), 0
    while at >= 0 and starts < _MAX_STARTS:
        try:
            value, end = _DECODER.raw_decode(text, at)
            yield value
        except (ValueError, RecursionError):
            end = at + 1
        at, starts = text.find("{", end), starts + 1


def _without_thoughts(text: str) -> str:
    """Return a text without the parts between tags of thinking, in time that grows with its length and no faster."""
    kept, at = [], 0
    for end in _THOUGHT_ENDS.finditer(text):
        begin = _THOUGHT.search(text, at, end.start())
        kept.append(text[at : begin.start()] if begin else text[at : end.end()])
        at = end.end()
    return "".join(kept) + text[at:]


def _decoded(text: str) -> list[Any]:
    try:
        return [_DECODER.decode(text)]
    except (ValueError, RecursionError):
        return []


def _what_is_wrong(error: Exception, shape: ReplySchema) -> str:
    """Return which field is wrong and how, in the schema's own words."""
    if not isinstance(error, ValidationError):
        return "the object can't be read"
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    first = errors[0]
    where = [str(part) for part in first["loc"] if isinstance(part, int) or part in shape.names]
    return f"{len(errors)} wrong, first {'.'.join(where) or 'the object'}: {first['type']}"
