"""The one door to a chat model (LOOP-8).

    door = make_door(settings)
    reply = door.ask(prompt, PlanReply, Limits(calls=24, tokens=100_000, seconds=120))
    plan = reply.value or planned_without(…)

An ask returns a validated value or a failure with its reason; no error of a model, a server or a network comes out of
it. What comes out are errors of the caller's own listener, and the cancellation of the task that asks.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from recall_loop.llm.endpoint.call_limits import Limits, Usage
from recall_loop.llm.endpoint.circuit_breaker import EndpointHealth, shared_endpoint_health
from recall_loop.llm.endpoint.failures import Failure
from recall_loop.llm.response_cache import ReplyCache
from recall_loop.llm.structured.drivers import adrive, drive
from recall_loop.llm.structured.llm_tracing import CallObserver
from recall_loop.llm.structured.output_methods import OutputMethods, endpoint_name, model_name
from recall_loop.llm.structured.structured_output import CallPolicy, ChainResult, FallbackChain
from recall_loop.prompts.templates import RenderedPrompt

T = TypeVar("T", bound=BaseModel)
_anonymous = itertools.count(1)


@dataclass(frozen=True)
class ChatReply(Generic[T]):
    """A value, or the failure that stands for it, and what the ask cost.

    `rung` is the way of asking that gave the value. `attempts` has every call made: its rung, and "ok" or the reason
    of its failure. A `cached` value cost nothing.
    """

    value: T | None
    failure: Failure | None
    usage: Usage
    rung: str | None
    cached: bool = False
    attempts: tuple[tuple[str, str], ...] = ()


class ChatClient:
    """Asks one model for structured output. Safe for threads and event loops at once.

    Doors of equal `endpoint` share what is known of it (which way of asking works, whether it is left alone after a
    fault); by default that is the model's class, base URL, name and key. A model without those shares with none.
    `timeout_seconds` and `reply_tokens` bound one call, `retries` the further tries of one ask; `backoff_seconds`
    doubles with each. `clock` gives seconds.
    """

    def __init__(
        self,
        model: BaseChatModel,
        *,
        endpoint: str | None = None,
        timeout_seconds: float = 30.0,
        reply_tokens: int = 800,
        retries: int = 2,
        backoff_seconds: float = 0.5,
        cooldown_seconds: float = 30.0,
        cache_entries: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = model_name(model)
        named = endpoint or endpoint_name(model)
        self.endpoint = named or f"{self.name}#{next(_anonymous)}"
        self._model = model
        self._methods = OutputMethods(model)
        self._observer = CallObserver(model)
        self._memory = shared_endpoint_health(named) if named else EndpointHealth()
        self._cache = ReplyCache(cache_entries)
        self._call_policy = CallPolicy(timeout_seconds, reply_tokens, retries, backoff_seconds, cooldown_seconds, clock)

    def ask(
        self, prompt: RenderedPrompt, schema: type[T], limits: Limits, on_text: Callable[[str], None] | None = None
    ) -> ChatReply[T]:
        """Return the model's value for a prompt, within what the request has left.

        `on_text` is called in this thread with the text of the reply as it grows, as far as the model streams; it
        begins anew where a further try is made.
        """
        key = self._cache.key(self.endpoint, prompt, schema)
        kept = self._kept(key, on_text)
        if kept is not None:
            return cast(ChatReply[T], kept)
        ladder = self._ladder(prompt, schema, limits)
        return self._reply(key, drive(ladder.steps(on_text is not None), on_text))

    async def aask(
        self, prompt: RenderedPrompt, schema: type[T], limits: Limits, on_text: Callable[[str], None] | None = None
    ) -> ChatReply[T]:
        """Return the same as `ask`, without blocking the event loop; `on_text` is called on it."""
        key = self._cache.key(self.endpoint, prompt, schema)
        kept = self._kept(key, on_text)
        if kept is not None:
            return cast(ChatReply[T], kept)
        ladder = self._ladder(prompt, schema, limits)
        return self._reply(key, await adrive(ladder.steps(on_text is not None), on_text))

    def _ladder(self, prompt: RenderedPrompt, schema: type[T], limits: Limits) -> FallbackChain[T]:
        know = self._methods, self._memory, self._call_policy
        return FallbackChain(self._model, *know, prompt, schema, limits, observer=self._observer)

    def _kept(self, key: str, on_text: Callable[[str], None] | None) -> ChatReply[BaseModel] | None:
        value = self._cache.get(key) if key else None
        if value is None:
            return None
        if on_text is not None:
            on_text(value.model_dump_json())
        return ChatReply(value, None, Usage(), None, cached=True)

    def _reply(self, key: str, answered: ChainResult[T]) -> ChatReply[T]:
        if key and answered.value is not None:
            self._cache.put(key, answered.value)
        return ChatReply(answered.value, answered.failure, answered.usage, answered.rung, attempts=answered.attempts)
