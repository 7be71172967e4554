"""A message's content, in the parts that any provider writes it in: what is said, calls of tools, and their results.

A part names its kind in a field (`type`, `kind`), as OpenAI's and Anthropic's do, or wraps its fields in it
(`{"toolUse": {…}}`), as Bedrock's and Gemini's do; plain text may come without a kind. Capitals and marks in the name
of a kind don't count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, JsonValue

from recall_loop.memory.parsing.error_results import is_error_result
from recall_loop.memory.parsing.foreign_json import attribute, clean_text, to_json_value, to_text
from recall_loop.memory.parsing.tool_calls import CALL_ID, MessageFields, RawCall, take_calls

_KIND = ("type", "kind", "part_kind", "block_type", "content_type")
_SAID = frozenset(("", "text", "inputtext", "outputtext", "userprompt"))
_CALLS = frozenset(("tooluse", "toolcall", "functioncall", "customtoolcall"))
_RESULTS = frozenset(
    ("toolresult", "toolcallresult", "toolreturn", "functionresponse", "functioncalloutput", "customtoolcalloutput")
)
_RESULT_NAMES = ("content", "output", "result", "response")
_FAILED = ("error", "failed")
_ABSENT = object()


@dataclass(slots=True)
class RawResult:
    """What a tool has returned, as a part of a message tells it; not masked yet."""

    text: str
    name: str | None = None
    call_id: str | None = None
    error: str | None = None
    extra: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(slots=True)
class ContentParts:
    """A message's content: its text, the calls and results among its parts, and the others as they stand."""

    text: str = ""
    calls: list[RawCall] = field(default_factory=list)
    results: list[RawResult] = field(default_factory=list)
    others: list[JsonValue] = field(default_factory=list)

    @classmethod
    def parse(cls, content: Any, *, of_result: bool = False) -> ContentParts:
        """Read content: text, a part, or a list of both; raises as `object_fields`.

        The content `of_result` has no calls and results of its own; what looks like them stays as it stands.
        """
        if isinstance(content, str):
            return cls(clean_text(content))
        if isinstance(content, Mapping) and isinstance(content.get("parts"), list):  # of Gemini's answers
            content = content["parts"]
        parsed = cls()
        given = content if isinstance(content, list | tuple) else [] if content is None else [content]
        texts = [text for part in given if (text := parsed._read(part, of_result=of_result))]
        parsed.text = "\n".join(texts)
        return parsed

    def _read(self, given: Any, *, of_result: bool) -> str:
        """Return a part's text; collect everything else."""
        if isinstance(given, str):
            return clean_text(given)
        kind, part = _kind_and_fields(given)
        if kind in _CALLS and not of_result:
            self.calls += take_calls(MessageFields({"tool_calls": [part]}))
        elif kind in _RESULTS and not of_result:
            self.results.append(_result(MessageFields(part)))
        elif kind in _SAID and isinstance(inner := part.get("content"), list | tuple):  # Pydantic AI's, with images
            self.others += [to_json_value(one) for one in inner if not isinstance(one, str)]
            return "\n".join(clean_text(one) for one in inner if isinstance(one, str))
        elif text := _said(kind, part):
            return text
        else:
            self.others.append(to_json_value(given))
        return ""

    def extra(self) -> dict[str, JsonValue]:
        """Return the parts that are neither text nor calls nor results, as a message keeps them."""
        return {"blocks": self.others} if self.others else {}


def is_tool_part(given: object) -> bool:
    """Tell whether something is a call or a result, as OpenAI's Responses API has them beside the messages."""
    return _kind_and_fields(given)[0] in _CALLS | _RESULTS


def object_fields(given: object, also: Iterable[str] = ()) -> dict[str, Any]:
    """Return the fields of an object that is no mapping, and of its properties those named.

    One that can't be read raises `InvalidInputError`.
    """
    names: Iterable[str] = attribute(given, "__dict__", ())
    if isinstance(given, BaseModel):
        names = [*type(given).model_fields, *(given.model_extra or ())]
    values = {name: attribute(given, name, _ABSENT) for name in [*also, *names]}
    return {name: value for name, value in values.items() if value is not _ABSENT and not callable(value)}


def _fields(given: object) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else object_fields(given)


def _kind_and_fields(given: object) -> tuple[str, dict[str, Any]]:
    """Return the kind of a part, without capitals and marks, and its fields, taken out of their wrapping."""
    part = {name: value for name, value in _fields(given).items() if value is not None}
    kind = next((_folded(part[name]) for name in _KIND if isinstance(part.get(name), str)), "")
    for name, value in part.items() if not kind else ():
        if (wrapped := _folded(name)) in _CALLS | _RESULTS and (inner := _fields(value)):
            return wrapped, inner
    return kind, part


def _folded(name: object) -> str:
    return "".join(filter(str.isalnum, str(name))).lower()


def _said(kind: str, part: Mapping[str, Any]) -> str:
    """Return what a part says: its text, or the transcript of its sound; no thoughts."""
    if isinstance(spoken := part.get("transcript"), str):
        return clean_text(spoken)
    if not kind and "json" in part:
        return _json_text(part["json"])
    if kind == "json" and "value" in part:
        return _json_text(part["value"])
    if kind not in _SAID or part.get("thought"):
        return ""
    text = part.get("text", part.get("content", part.get("value")))
    inner = text if isinstance(text, str) else _fields(text).get("value")  # of OpenAI's threads
    return clean_text(inner) if isinstance(inner, str) else ""


def _json_text(value: object) -> str:
    return json.dumps(to_json_value(value), ensure_ascii=False)


def _result(part: MessageFields) -> RawResult:
    name, call_id = to_text(part.take("name", "tool_name", "toolName")), to_text(part.take(*CALL_ID))
    given = part.take(*_RESULT_NAMES)
    inner = ContentParts.parse(given, of_result=True)
    if isinstance(given, Mapping) and not inner.text:
        inner = ContentParts(_json_text(given))
    marked = part.take("is_error", "isError", "error")
    if marked is None and part.remaining.get("status") in _FAILED:
        marked = True
    failed = is_error_result(inner.text) if marked is None else marked
    return RawResult(inner.text, name, call_id, (inner.text or "error") if failed else None, inner.extra())
