"""The ways to ask a chat model for structured output, and the schemas that they send."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from pydantic import BaseModel

from recall_loop.llm.endpoint.circuit_breaker import PROMPT_METHOD, Quirk
from recall_loop.llm.endpoint.wrapped_models import BoundModel
from recall_loop.text.words.snippets import estimate_tokens
from recall_loop.text.words.stop_words import word_set

# Keywords that strict structured output rejects; pydantic still checks them on the reply.
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
    # A property may be called `default` too.
    made = {
        key: {name: _strict(one) for name, one in value.items()} if key in _NAMED else _strict(value)
        for key, value in kept.items()
    }
    if "properties" in made or made.get("type") == "object":
        made |= {"required": list(made.setdefault("properties", {})), "additionalProperties": False}
    return made


def _names(node: Any) -> Iterator[str]:
    """Yield the names of all properties in a schema."""
    if isinstance(node, list):
        for item in node:
            yield from _names(item)
    elif isinstance(node, dict):
        yield from node.get("properties", {})
        for value in node.values():
            yield from _names(value)


METHOD_NAMES = ("json_schema", "function_calling", "json_mode")
NATIVE_METHOD = "native"
# Methods that send the schema separately; the others include it in the prompt.
SCHEMA_METHODS = frozenset({"json_schema", "function_calling", NATIVE_METHOD})


@dataclass(frozen=True)
class OutputMethod:
    """One way of asking: what to invoke, and whether keyword arguments reach the model through it."""

    name: str
    runnable: Runnable[Any, Any]
    accepts_bounds: bool


class OutputMethods:
    """The output methods of one model, constructed once for each schema."""

    def __init__(self, bound: BoundModel) -> None:
        self._model = bound.model
        self._has_arguments = bool(bound.arguments)
        self._lock = threading.Lock()
        self._made: dict[tuple[type[BaseModel], bool], dict[str, OutputMethod]] = {}

    def for_schema(self, schema: type[BaseModel], quirks: frozenset[Quirk]) -> dict[str, OutputMethod]:
        """Return the methods by name, the strictest first; those that the model can't construct are missing."""
        key = (schema, Quirk.NO_TEMPERATURE in quirks)
        with self._lock:
            if key not in self._made:
                warm = key[1] and getattr(self._model, "temperature", None) is not None
                model = self._model.model_copy(update={"temperature": None}) if warm else self._model
                methods = _build_methods(model, schema).items()
                # Bound arguments reach the model as its bounds do.
                self._made[key] = {
                    name: method for name, method in methods if method.accepts_bounds or not self._has_arguments
                }
            return self._made[key]


def _build_methods(model: BaseChatModel, schema: type[BaseModel]) -> dict[str, OutputMethod]:
    shape = reply_schema(schema)
    # LangChain's own implementation does the same for every method.
    plain = getattr(type(model), "with_structured_output", None) is BaseChatModel.with_structured_output
    names = () if plain else METHOD_NAMES
    runnables = {name: _structured(model, name, shape.schema) for name in names}
    if not any(runnables.values()):
        runnables = {NATIVE_METHOD: _constructed(model, shape.schema, include_raw=True)}
    methods = [_unwrapped(name, runnable) for name, runnable in runnables.items() if runnable is not None]
    return {method.name: method for method in (*methods, OutputMethod(PROMPT_METHOD, model, True))}


def _structured(model: BaseChatModel, method: str, schema: dict[str, Any]) -> Runnable[Any, Any] | None:
    """Return the model bound to one method, strictly where it has such a mode; None if it can't be constructed."""
    if method == "json_schema":
        strict = _constructed(model, schema, method=method, include_raw=True, strict=True)
        if strict is not None:
            return strict
    return _constructed(model, schema, method=method, include_raw=True)


def _constructed(model: BaseChatModel, schema: dict[str, Any], **options: Any) -> Runnable[Any, Any] | None:
    try:
        return model.with_structured_output(schema, **options)
    except (TypeError, ValueError, NotImplementedError):
        return None


def _unwrapped(name: str, runnable: Runnable[Any, Any]) -> OutputMethod:
    """Return the method without LangChain's parsers, which hold a stream back, if they can be removed."""
    # With `include_raw` LangChain makes `{raw: model} | parsers`; any other make is invoked as it is.
    steps = getattr(getattr(runnable, "first", None), "steps__", None)
    raw = steps.get("raw") if isinstance(steps, Mapping) else None
    return OutputMethod(name, raw, True) if isinstance(raw, Runnable) else OutputMethod(name, runnable, False)


def model_name(bound: BoundModel) -> str:
    """Return the model's name, for metadata."""
    fields = ("model_name", "model", "model_id")
    own = (getattr(bound.model, field, None) for field in fields)
    names = (name for name in (bound.arguments.get("model"), *own) if isinstance(name, str) and name)
    return next(names, type(bound.model).__name__)


def base_url(model: BaseChatModel) -> str | None:
    """Return the configured address of the model; None for its default."""
    fields = ("openai_api_base", "base_url", "anthropic_api_url", "azure_endpoint")
    return next((str(found) for found in (getattr(model, field, None) for field in fields) if found), None)


def endpoint_name(bound: BoundModel) -> str | None:
    """Return a name for the model's endpoint: its class, base URL, model name, and a hash of its key.

    A wrong key of one caller must not close the way for others, hence the key; only a hash that differs between
    processes is taken of it. None for a model without address and name, such as a fake: nobody can say what equals it.
    """
    model, name = bound.model, model_name(bound)
    url = base_url(model) or ""
    if not url and name == type(model).__name__:
        return None
    keys = (getattr(model, field, None) for field in ("openai_api_key", "api_key", "anthropic_api_key"))
    return f"{type(model).__qualname__} {url} {name} {hash(str(next(map(_secret, filter(None, keys)), '')))}"


def _secret(key: Any) -> Any:
    return key.get_secret_value() if hasattr(key, "get_secret_value") else id(key)
