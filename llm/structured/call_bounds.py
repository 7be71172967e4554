"""The bounds of one call of a chat model: tokens and seconds, of which a caller's own hold where they are smaller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from recall_loop.llm.endpoint.circuit_breaker import Quirk
from recall_loop.llm.endpoint.failures import class_names
from recall_loop.llm.endpoint.wrapped_models import BoundModel

_TOKEN_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_EXTRA = "extra_body"
# The parts of httpx's timeout, in the order of its tuple.
_TIMEOUT_PARTS = ("connect", "read", "write", "pool")


def call_bounds(bound: BoundModel, quirks: frozenset[Quirk], reply_tokens: int, seconds: float) -> dict[str, Any]:
    """Return the arguments of a call: the bound ones, and its bounds as far as the model takes them.

    Limits of tokens and seconds that are the model's own or bound ones stay where they are smaller.
    """
    model, arguments = bound.model, dict(bound.arguments)
    if Quirk.NO_TEMPERATURE in quirks:
        arguments.pop("temperature", None)
    if "max_tokens" not in type(model).model_fields:
        return arguments
    own = [arguments.pop(name) for name in _TOKEN_LIMITS if name in arguments] or [getattr(model, "max_tokens", None)]
    tokens = min([reply_tokens, *(limit for limit in own if _is_limit(limit))])
    extra = _extra_fields(bound)
    if lifting := {
        name: tokens
        for name in _TOKEN_LIMITS
        if name in extra and not (_is_limit(extra[name]) and extra[name] <= tokens)
    }:
        extra |= lifting
        arguments[_EXTRA] = extra
    kinds = class_names(model)
    if "BaseChatOpenAI" not in kinds:
        return {**arguments, "max_tokens": tokens}
    arguments["timeout"] = _shorter(arguments.get("timeout") or getattr(model, "request_timeout", None), seconds)
    # ChatOpenAI sends either name as max_completion_tokens; its subclasses send what they get.
    renames = "ChatOpenAI" in kinds or "AzureChatOpenAI" in kinds
    if Quirk.OTHER_TOKEN_LIMIT not in quirks:
        return {**arguments, "max_completion_tokens" if renames else "max_tokens": tokens}
    if not renames:
        return {**arguments, "max_completion_tokens": tokens}
    return {**arguments, _EXTRA: {"max_tokens": tokens} | extra}


def reply_seconds(bounds: Mapping[str, Any], seconds: float) -> float:
    """Return how long a call with these bounds waits for its reply, of at most `seconds`."""
    own = bounds.get("timeout")
    own = own[1] if isinstance(own, tuple) else getattr(own, "read", own)
    return min(own, seconds) if _is_limit(own) else seconds


def _extra_fields(bound: BoundModel) -> dict[str, Any]:
    """Return the fields that go into the body of a request as they are: they override the arguments."""
    fields = getattr(bound.model, "model_kwargs", None) or {}
    given = bound.arguments.get(_EXTRA, fields.get(_EXTRA, getattr(bound.model, _EXTRA, None)))
    return dict(given) if isinstance(given, Mapping) else {}


def _shorter(own: Any, seconds: float) -> Any:
    """Return the shorter of two timeouts; of the parts of httpx's `Timeout`, or of a tuple, each for itself."""
    if isinstance(own, tuple):
        return tuple(_shorter(part, seconds) for part in (*own, *(None,) * (len(_TIMEOUT_PARTS) - len(own))))
    if all(hasattr(own, name) for name in _TIMEOUT_PARTS):
        return type(own)(**{name: _shorter(getattr(own, name), seconds) for name in _TIMEOUT_PARTS})
    return min(own, seconds) if _is_limit(own) else seconds


def _is_limit(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
