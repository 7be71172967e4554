"""The JSON schema of a reply, as it is sent to the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.token_budget import estimate_tokens

# Keywords that strict structured output refuses; pydantic still checks them on the reply.
_REFUSED = word_set(
    "default examples discriminator minLength maxLength uniqueItems minProperties maxProperties propertyNames"
    " patternProperties contains minContains maxContains"
)
_NAMED = ("properties", "$defs")
# Between the prompt and the instruction.
_BREAK = "\n\n"
_INSTRUCTION = "Answer with one JSON object and no other words. It follows this JSON Schema:\n"


@dataclass(frozen=True)
class ReplySchema:
    """A schema as it is sent: the JSON schema, the words that ask for it in a prompt, and their size in tokens.

    The methods `json_mode` and `prompt` append `text` to the system prompt where that has no JSON Schema of its own;
    `json_schema` and `function_calling` send about as much beside the prompt. Which method answers isn't known before,
    so whoever fits a prompt into a number of tokens takes `tokens` off first (LOOP-3, LOOP-8). `names` are the names of
    all properties, the only words of a reply that a failure's detail may hold.
    """

    schema: dict[str, Any]
    text: str
    tokens: int
    names: frozenset[str]

    @property
    def fields(self) -> frozenset[str]:
        """The names of the outermost properties."""
        return frozenset(self.schema.get("properties", ()))


@lru_cache(maxsize=256)
def reply_schema(model: type[BaseModel]) -> ReplySchema:
    """Return the strict JSON schema of a pydantic class.

    All properties are required and no others allowed, as OpenAI's strict mode wants it; the reply's validation by
    pydantic stays as lenient as the class is.
    """
    schema = _strict(model.model_json_schema())
    schema = {"title": model.__name__, "description": schema.get("description", model.__name__)} | schema
    text = _BREAK + _INSTRUCTION + json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return ReplySchema(schema, text, estimate_tokens(text), frozenset(_names(schema)))


def _strict(node: Any) -> Any:
    """Return a schema with strict objects, without the keywords that strict mode refuses."""
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"$ref": node["$ref"]}
    if len(node.get("allOf", ())) == 1:
        node = {key: value for key, value in node.items() if key != "allOf"} | node["allOf"][0]
    kept = {"anyOf" if key == "oneOf" else key: value for key, value in node.items() if key not in _REFUSED}
    made = {key: _strict_named(value) if key in _NAMED else _strict(value) for key, value in kept.items()}
    if "properties" in made or made.get("type") == "object":
        made |= {"required": list(made.setdefault("properties", {})), "additionalProperties": False}
    return made


def _strict_named(named: dict[str, Any]) -> dict[str, Any]:
    """Return schemas by name; a property may be called `default` too."""
    return {name: _strict(node) for name, node in named.items()}


def _names(node: Any) -> Iterator[str]:
    """Yield the names of all properties in a schema."""
    if isinstance(node, list):
        for item in node:
            yield from _names(item)
    elif isinstance(node, dict):
        yield from node.get("properties", {})
        for value in node.values():
            yield from _names(value)
