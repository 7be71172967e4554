"""The chat model that the settings name, and a client of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recall_loop.llm.client import ChatClient
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_openai import ChatOpenAI

# A server of one's own mostly wants no key, but the client does.
_NO_KEY = "none"
# Matched as text: another parser than the client's might see another host in an odd URL.
_OPENAI = re.compile(r"https://(?:[a-z]+\.)?api\.openai\.com(?::443)?(?:/[a-z0-9/]*)?")


def chat_model(settings: Settings) -> BaseChatModel:
    """Return the chat model of `llm_model`, at OpenAI or at an OpenAI-compatible `llm_base_url`.

    It makes no further tries: the client does. OpenAI's own address gets what the environment has for it:
    without `llm_api_key` the key of `OPENAI_API_KEY`, organization, project and custom headers. Another address, which
    a caller may have named, gets nothing of these: `llm_api_key` or none, and no header but the client's own.

    Raises:
        InvalidInputError: `llm_model` is not set, OpenAI's address has no key, or `llm_base_url` is no URL.
    """
    if settings.llm_model is None:
        raise InvalidInputError("llm_model", None, "the name of a chat model")
    from langchain_openai import ChatOpenAI
    from openai import OpenAIError
    from pydantic import SecretStr

    url = settings.llm_base_url or None
    foreign = url is not None and _OPENAI.fullmatch(url) is None
    key = settings.llm_api_key or (_NO_KEY if foreign else None)
    try:
        model = ChatOpenAI(
            model_name=settings.llm_model,
            openai_api_base=url,
            openai_api_key=None if key is None else SecretStr(key),
            temperature=settings.llm_temperature,
            max_retries=0,
        )
    except OpenAIError as error:
        raise InvalidInputError("llm_api_key", None, "a key, or OPENAI_API_KEY in the environment") from error
    except Exception as error:
        # Of httpx, or of the copy of it that openai brings.
        if type(error).__name__ != "InvalidURL":
            raise
        raise InvalidInputError("llm_base_url", url, "a URL") from error
    if foreign:
        _forget_environment(model)
    return model


def _forget_environment(model: ChatOpenAI) -> None:
    """Take out of a model's clients what they have read from OPENAI_* variables, which is for OpenAI only.

    The client reads them whatever it is given, and its constructor has no way to say no.
    """
    model.openai_organization = None
    for client in (model.root_client, model.root_async_client):
        client.organization = client.project = client.admin_api_key = None
        client._custom_headers = {}


def make_chat_client(settings: Settings, model: BaseChatModel | None = None) -> ChatClient:
    """Return a client of a handed-in model, else of the one that the settings name, with the settings' bounds.

    Raises:
        InvalidInputError: neither is there.
    """
    return ChatClient(
        chat_model(settings) if model is None else model,
        timeout_seconds=settings.llm_timeout_seconds,
        reply_tokens=settings.llm_reply_tokens,
        retries=settings.llm_retries,
        backoff_seconds=settings.llm_backoff_seconds,
        cooldown_seconds=settings.llm_cooldown_seconds,
        cache_entries=settings.llm_cache_entries,
    )
