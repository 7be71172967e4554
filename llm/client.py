"""The one client of a chat model (LOOP-8).

    client = make_chat_client(settings)
    reply = client.ask(prompt, PlanReply, Limits(calls=24, tokens=100_000, seconds=120))
    plan = reply.value or plan_without_model(…)

An ask returns a validated value or a failure with its reason; no error of a model, a server or a network comes out of
it. What comes out are errors of the caller's own listener, and the cancellation of the task that asks.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TypeVar

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from recall_loop.llm.endpoint.call_limits import Limits, Usage
from recall_loop.llm.endpoint.circuit_breaker import EndpointHealth, shared_endpoint_health
from recall_loop.llm.response_cache import ReplyCache
from recall_loop.llm.structured.drivers import StepGenerator, adrive, drive
from recall_loop.llm.structured.llm_tracing import CallObserver
from recall_loop.llm.structured.output_methods import OutputMethods, endpoint_name, model_name
from recall_loop.llm.structured.structured_output import CallPolicy, ChatReply, FallbackChain, ModelConnection
from recall_loop.prompts.templates import RenderedPrompt

T = TypeVar("T", bound=BaseModel)
_anonymous = itertools.count(1)


class ChatClient:
    """Asks one model for structured output. Safe for threads and event loops at once.

    Clients of equal `endpoint` share what is known of it (which output method works, whether it is left alone after a
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
        self._cache = ReplyCache(cache_entries)
        self._connection = ModelConnection(
            model,
            OutputMethods(model),
            shared_endpoint_health(named) if named else EndpointHealth(),
            CallObserver(model),
            CallPolicy(timeout_seconds, reply_tokens, retries, backoff_seconds, cooldown_seconds, clock),
        )

    def ask(
        self, prompt: RenderedPrompt, schema: type[T], limits: Limits, on_text: Callable[[str], None] | None = None
    ) -> ChatReply[T]:
        """Return the model's value for a prompt, within what the request has left.

        `on_text` is called in this thread with the text of the reply as it grows, as far as the model streams; it
        starts over where a further try is made.
        """
        key = self._cache.key(self.endpoint, prompt, schema)
        reply = self._cached(key, schema, on_text)
        return reply or self._keep(key, drive(self._steps(prompt, schema, limits, on_text), on_text))

    async def aask(
        self, prompt: RenderedPrompt, schema: type[T], limits: Limits, on_text: Callable[[str], None] | None = None
    ) -> ChatReply[T]:
        """Return the same as `ask`, without blocking the event loop; `on_text` is called on it."""
        key = self._cache.key(self.endpoint, prompt, schema)
        reply = self._cached(key, schema, on_text)
        return reply or self._keep(key, await adrive(self._steps(prompt, schema, limits, on_text), on_text))

    def _steps(
        self, prompt: RenderedPrompt, schema: type[T], limits: Limits, on_text: Callable[[str], None] | None
    ) -> StepGenerator[ChatReply[T]]:
        return FallbackChain(self._connection, prompt, schema, limits).steps(on_text is not None)

    def _cached(self, key: str, schema: type[T], on_text: Callable[[str], None] | None) -> ChatReply[T] | None:
        value = self._cache.get(key) if key else None
        if not isinstance(value, schema):
            return None
        if on_text is not None:
            on_text(value.model_dump_json())
        return ChatReply(value, None, Usage(), None, cached=True)

    def _keep(self, key: str, reply: ChatReply[T]) -> ChatReply[T]:
        if key and reply.value is not None:
            self._cache.put(key, reply.value)
        return reply
