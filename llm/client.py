"""The client of a chat model: structured output with limits, fallbacks and a cache of replies."""

from __future__ import annotations

import hashlib
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from cachetools import LRUCache
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from recall_loop.llm.endpoint.circuit_breaker import EndpointHealth, Limits, Usage, shared_endpoint_health
from recall_loop.llm.endpoint.failures import DETAIL_CHARACTERS, Failure
from recall_loop.llm.endpoint.providers import (
    NO_KEY,
    OPENAI,
    forget_openai_environment,
    is_foreign,
    make_by_provider,
    provider_of,
    settings_for_model,
    without_own_retries,
)
from recall_loop.llm.endpoint.wrapped_models import BoundModel, ChatModel, bound_models
from recall_loop.llm.structured.ask_budget import CallPolicy
from recall_loop.llm.structured.llm_tracing import CallObserver
from recall_loop.llm.structured.output_methods import OutputMethods, endpoint_name, model_name, reply_schema
from recall_loop.llm.structured.structured_output import ChatReply, FallbackChain, ModelConnection
from recall_loop.prompts.templates import RenderedPrompt
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings


class ReplyCache:
    """The last `entries` values, by exact prompt, schema and endpoint; 0 keeps none. Only validated values go in."""

    def __init__(self, entries: int) -> None:
        self._lock = threading.Lock()
        self._values: LRUCache[str, BaseModel] = LRUCache(entries)

    def key(self, endpoint: str, prompt: RenderedPrompt, schema: type[BaseModel]) -> str:
        """Return the cache key of a call; empty if nothing is cached."""
        if not self._values.maxsize:
            return ""
        parts = (
            endpoint,
            prompt.system,
            prompt.user,
            schema.__module__,
            schema.__qualname__,
            reply_schema(schema).text,
        )
        return hashlib.sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "replace")).hexdigest()

    def get(self, key: str) -> BaseModel | None:
        """Return a copy of the value of `key`, which counts as used now."""
        with self._lock:
            found = self._values.get(key)
        return None if found is None else found.model_copy(deep=True)

    def put(self, key: str, value: BaseModel) -> None:
        """Keep a value, and drop the one that was not used for longest."""
        with self._lock:
            self._values[key] = value.model_copy(deep=True)


T = TypeVar("T", bound=BaseModel)
_BETWEEN = "; "
_log = logging.getLogger(__name__)
_anonymous = itertools.count(1)


class ChatClient:
    """Asks a model, and where it fails its fallbacks in turn, for structured output. Safe for several threads at once.

    Clients whose models have the same class, base URL, name and key share what is known of that endpoint (which output
    method works, whether it is left alone after a fault). A model without those shares with none.
    `timeout_seconds` and `reply_tokens` bound one call, `retries` the further tries of one ask; `backoff_seconds`
    doubles with each. `clock` gives seconds.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        timeout_seconds: float = 30.0,
        reply_tokens: int = 800,
        retries: int = 2,
        backoff_seconds: float = 0.5,
        cooldown_seconds: float = 30.0,
        cache_entries: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given = model  # kept alive: clients are found again by its id
        policy = CallPolicy(timeout_seconds, reply_tokens, retries, backoff_seconds, cooldown_seconds, clock)
        bound = [replace(one, model=without_own_retries(one.model)) for one in bound_models(model)]
        self._connections = [_connection(one, policy) for one in bound]
        self.name = " or ".join(dict.fromkeys(one.observer.name for one in self._connections))
        self.endpoint = " or ".join(endpoint_name(one) or f"{model_name(one)}#{next(_anonymous)}" for one in bound)
        self._cache = ReplyCache(cache_entries)

    def ask(
        self, prompt: RenderedPrompt, schema: type[T], limits: Limits, on_text: Callable[[str], None] | None = None
    ) -> ChatReply[T]:
        """Return the model's value for a prompt, within the remaining budget of the request.

        `on_text` is called in this thread with the text of the reply as it grows, as far as the model streams; it
        starts over where a further try is made.
        """
        key = self._cache.key(self.endpoint, prompt, schema)
        cached = self._cache.get(key) if key else None
        if isinstance(cached, schema):
            if on_text is not None:
                on_text(cached.model_dump_json())
            return ChatReply(cached, None, Usage(), None, cached=True)
        reply = self._ask_each(prompt, schema, limits, on_text)
        if key and reply.value is not None:
            self._cache.put(key, reply.value)
        return reply

    def _ask_each(
        self, prompt: RenderedPrompt, schema: type[T], limits: Limits, on_text: Callable[[str], None] | None
    ) -> ChatReply[T]:
        """Return the first value that a model gives, else the failures of all, with what all of them used."""
        used, attempts, failures = Usage(), tuple[tuple[str, str], ...](), list[tuple[str, Failure]]()
        for connection in self._connections:
            reply = FallbackChain(connection, prompt, schema, limits.less(used)).run(on_text)
            used, attempts = used + reply.usage, attempts + reply.attempts
            if reply.failure is None:
                return replace(reply, usage=used, attempts=attempts)
            name, reason = connection.observer.name, reply.failure.reason
            failures.append((name, reply.failure))
            # Of an endpoint that is left alone the log has told already.
            if len(self._connections) > 1 and reply.attempts and not reason.is_own_limit:
                _log.warning("language model failed: model %s, %s", name, reason.value, extra={"failure": reason.value})
        return ChatReply(None, _joint_failure(failures), used, None, attempts)


def _joint_failure(failures: list[tuple[str, Failure]]) -> Failure:
    """Return the failure of an ask: the first one that isn't the caller's own limit, with a line of each model's."""
    first = min((failure for _, failure in failures), key=lambda failure: failure.reason.is_own_limit)
    if len(failures) == 1:
        return first
    room = DETAIL_CHARACTERS // len(failures) - len(_BETWEEN)
    lines = [f"{failure.reason.value} ({name}): {failure.detail}"[:room] for name, failure in failures]
    return Failure(first.reason, _BETWEEN.join(lines))


def _connection(bound: BoundModel, policy: CallPolicy) -> ModelConnection:
    named = endpoint_name(bound)
    health = shared_endpoint_health(named) if named else EndpointHealth()
    return ModelConnection(bound, OutputMethods(bound), health, CallObserver(bound), policy)


def chat_model(settings: Settings) -> BaseChatModel:
    """Return the chat model of `llm_model`: of `provider:model` by LangChain, of a plain name by OpenAI's protocol.

    A plain name, and `openai:name`, is a model at OpenAI or at an OpenAI-compatible `llm_base_url`; with such a URL so
    is a name with a colon whose first part is no provider, such as `llama3:8b`. Models make no further tries: the
    client does. OpenAI's own address gets what the environment has for it: without `llm_api_key` the key of
    `OPENAI_API_KEY`, organization, project and custom headers. Another address, which a caller may have named, gets
    nothing of these: `llm_api_key` or none, and no header but the client's own.

    Raises `InvalidInputError` where `llm_model` is not set, names only a provider, or one that isn't known or isn't
    installed, OpenAI's address has no key, or `llm_base_url` is no URL.
    """
    if settings.llm_model is None:
        raise InvalidInputError("llm_model", None, "the name of a chat model")
    if settings.llm_model.endswith(":"):
        raise InvalidInputError("llm_model", settings.llm_model, "a model's name, or provider:model")
    if provider_of(settings.llm_model, settings.llm_base_url) != OPENAI:
        return make_by_provider("llm_model", settings.llm_model, partial(_by_provider, settings))
    return _openai_model(settings, settings.llm_model.removeprefix(f"{OPENAI}:"))


def _by_provider(settings: Settings) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    provider, _, name = str(settings.llm_model).partition(":")
    given = {
        "base_url": settings.llm_base_url,
        "api_key": settings.llm_api_key,
        "temperature": settings.llm_temperature,
    }
    options: dict[str, Any] = {name: value for name, value in given.items() if value not in ("", None)}
    return cast(BaseChatModel, init_chat_model(name, model_provider=provider, max_retries=0, **options))


def _openai_model(settings: Settings, name: str) -> BaseChatModel:
    from langchain_openai import ChatOpenAI
    from openai import OpenAIError
    from pydantic import SecretStr

    url = settings.llm_base_url or None
    key = settings.llm_api_key or (NO_KEY if is_foreign(url) else None)
    try:
        model = ChatOpenAI(
            model_name=name,
            openai_api_base=url,
            openai_api_key=None if key is None else SecretStr(key),
            temperature=settings.llm_temperature,
            max_retries=0,
        )
    except OpenAIError as error:
        raise InvalidInputError("llm_api_key", None, "a key, or OPENAI_API_KEY in the environment") from error
    except Exception as error:
        # From httpx, or from openai's vendored copy of it.
        if type(error).__name__ != "InvalidURL":
            raise
        raise InvalidInputError("llm_base_url", url, "a URL") from error
    if is_foreign(url):
        model.openai_organization = None
        for client in (model.root_client, model.root_async_client):
            forget_openai_environment(client)
    return model


def make_chat_client(settings: Settings, model: ChatModel | str | None = None) -> ChatClient:
    """Return a client of a handed-in model, else of the one that the settings name, with the settings' bounds.

    A text names a model as the setting `llm_model` does. Raises as `chat_model`.
    """
    return ChatClient(
        chat_model(settings_for_model(settings, model)) if model is None or isinstance(model, str) else model,
        timeout_seconds=settings.llm_timeout_seconds,
        reply_tokens=settings.llm_reply_tokens,
        retries=settings.llm_retries,
        backoff_seconds=settings.llm_backoff_seconds,
        cooldown_seconds=settings.llm_cooldown_seconds,
        cache_entries=settings.llm_cache_entries,
    )
