"""Chat models as callers hand them in: alone, or inside `bind`, `with_config`, `with_retry` or `with_fallbacks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableWithFallbacks
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.retry import RunnableRetry

from recall_loop.state.errors import InvalidInputError

ChatModel = Runnable[LanguageModelInput, BaseMessage]
"""A chat model of LangChain's, or one inside its wrappers (`bound_models` says which)."""
_ALLOWED = (
    "a LangChain chat model, also from its bind, with_config, with_retry or with_fallbacks; the name of a model; or"
    " None. Of a chain or a configurable model, pass the chat model in it"
)
# Arguments that decide the form of a reply, which the client decides anew for each prompt.
_FORMS = frozenset({"tools", "tool_choice", "functions", "function_call", "response_format"})


@dataclass(frozen=True)
class BoundModel:
    """A chat model with what its wrappers add to each call: arguments, and configuration such as callbacks."""

    model: BaseChatModel
    arguments: Mapping[str, Any] = field(default_factory=dict)
    config: RunnableConfig = field(default_factory=RunnableConfig)
    config_factories: tuple[Callable[[RunnableConfig], RunnableConfig], ...] = ()

    def call_config(self, config: RunnableConfig) -> RunnableConfig:
        """Return the configuration of a call, together with that of the wrappers."""
        merged = merge_configs(self.config, config)
        return merge_configs(merged, *(make(merged) for make in self.config_factories))


def bound_models(llm: object) -> list[BoundModel]:
    """Return the chat models in what a caller handed in, in the order in which they are asked.

    Further tries are the client's own, in place of those of `with_retry`. A fallback is asked after any failure.

    Raises:
        InvalidInputError: it is no chat model, or one with tools or an output format bound, which change its replies.
    """
    if isinstance(llm, BaseChatModel):
        return [BoundModel(llm)]
    if isinstance(llm, RunnableWithFallbacks):
        return [model for one in llm.runnables for model in bound_models(one)]
    if not isinstance(llm, RunnableBinding | RunnableRetry):
        raise InvalidInputError("llm", type(llm).__name__, _ALLOWED)
    if forms := sorted(_FORMS & llm.kwargs.keys()):
        raise InvalidInputError("llm", f"a model with {', '.join(forms)} bound", "the chat model itself, without them")
    return [
        replace(
            inner,
            arguments={**inner.arguments, **llm.kwargs},
            config=merge_configs(inner.config, llm.config),
            config_factories=(*llm.config_factories, *inner.config_factories),
        )
        for inner in bound_models(llm.bound)
    ]
