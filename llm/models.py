"""The chat model that the settings name, and a door to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recall_loop.llm.door import Door
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# A server of one's own mostly wants no key, but the client does.
_NO_KEY = "none"


def chat_model(settings: Settings) -> BaseChatModel:
    """Return the chat model of `llm_model`, at OpenAI or at an OpenAI-compatible `llm_base_url`.

    It makes no further tries of its own: the door does. Without `llm_api_key` OpenAI's own address takes the key from
    `OPENAI_API_KEY`, and another address gets none.

    Raises:
        InvalidInputError: `llm_model` is not set, or OpenAI's address has no key.
    """
    if settings.llm_model is None:
        raise InvalidInputError("llm_model", None, "the name of a chat model")
    from langchain_openai import ChatOpenAI
    from openai import OpenAIError
    from pydantic import SecretStr

    key = settings.llm_api_key or (_NO_KEY if settings.llm_base_url else None)
    try:
        return ChatOpenAI(
            model_name=settings.llm_model,
            openai_api_base=settings.llm_base_url,
            openai_api_key=None if key is None else SecretStr(key),
            temperature=settings.llm_temperature,
            max_retries=0,
        )
    except OpenAIError as error:
        raise InvalidInputError("llm_api_key", None, "a key, or OPENAI_API_KEY in the environment") from error


def make_door(settings: Settings, model: BaseChatModel | None = None) -> Door:
    """Return a door to a handed-in model, else to the one that the settings name, with the settings' bounds.

    Raises:
        InvalidInputError: neither is there.
    """
    return Door(
        chat_model(settings) if model is None else model,
        timeout_seconds=settings.llm_timeout_seconds,
        reply_tokens=settings.llm_reply_tokens,
        retries=settings.llm_retries,
        backoff_seconds=settings.llm_backoff_seconds,
        cooldown_seconds=settings.llm_cooldown_seconds,
        cache_entries=settings.llm_cache_entries,
    )
