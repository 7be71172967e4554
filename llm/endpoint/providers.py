"""Models by name: which provider a name means, and LangChain's own makers for all but OpenAI's protocol (GRAPH-3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from recall_loop.llm.endpoint.failures import class_names
from recall_loop.state.errors import InvalidInputError
from recall_loop.text.words.stop_words import word_set

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from recall_loop.state.settings.settings import Settings

OPENAI = "openai"
NO_KEY = "none"
"""Key sent to an address that needs none: the client requires one."""

# The providers of LangChain's `init_chat_model` except OpenAI. Other prefixes are tried there too, unless a base URL
# shows that the name belongs to that server, such as `llama3:8b`.
PROVIDERS = word_set(
    "anthropic anthropic_bedrock azure_ai azure_openai baseten bedrock bedrock_converse bedrock_mantle_anthropic"
    " bedrock_mantle_openai cohere deepseek fireworks google_anthropic_vertex google_genai google_vertexai groq"
    " huggingface ibm langsmith litellm meta mistralai nvidia ollama openrouter perplexity together upstage xai"
)
# Prefixes of OpenAI's own model names: a fine-tuned model is `ft:base:organization::id`.
_OPENAI_PREFIXES = (OPENAI, "ft")
# Matched as text: another parser than the client's might find another host in an odd URL.
_OPENAI_ADDRESS = re.compile(r"https://(?:[a-z]+\.)?api\.openai\.com(?::443)?(?:/[a-z0-9/]*)?")
_UNKNOWN = ("unsupported provider", "is not supported", "unable to infer")
_Model = TypeVar("_Model")


def provider_of(name: str | None, base_url: str | None) -> str:
    """Return the provider that a chat model's name means: OpenAI's protocol, unless it is `provider:model`."""
    prefix, colon, _ = (name or "").partition(":")
    if not colon or prefix in _OPENAI_PREFIXES or (base_url and prefix not in PROVIDERS):
        return OPENAI
    return prefix


def settings_for_model(settings: Settings, name: str | None, base_url: str | None = None) -> Settings:
    """Return settings with another chat model and its `base_url`, without the address and key of another provider."""
    if name is None or name == settings.llm_model:
        return settings
    url = base_url or settings.llm_base_url
    if provider_of(name, url) == provider_of(settings.llm_model, settings.llm_base_url):
        return settings.model_copy(update={"llm_model": name})
    return settings.model_copy(update={"llm_model": name, "llm_base_url": None, "llm_api_key": None})


def without_own_retries(model: BaseChatModel) -> BaseChatModel:
    """Return a copy of one of LangChain's OpenAI models that leaves retries to us; any other model as it is.

    A client that retries would multiply our own attempts. One that the caller put in place of the model's stays.
    """
    root = getattr(model, "root_client", None)
    if root is None or "BaseChatOpenAI" not in class_names(model) or not getattr(root, "max_retries", 0):
        return model
    if getattr(model, "client", None) is not root.chat.completions:
        return model
    once = root.with_options(max_retries=0)
    return model.model_copy(update={"root_client": once, "client": once.chat.completions, "max_retries": 0})


def is_foreign(url: str | None) -> bool:
    """Return whether an address is another than OpenAI's own."""
    return url is not None and _OPENAI_ADDRESS.fullmatch(url) is None


def forget_openai_environment(client: Any) -> None:
    """Remove values of OPENAI_* variables from a client of OpenAI's class: they are for OpenAI only.

    The client reads them whatever it is given, and its constructor has no way to say no.
    """
    client.organization = client.project = client.admin_api_key = None
    client._custom_headers = {}


def make_by_provider(field: str, name: str, make: Callable[[], _Model]) -> _Model:
    """Return LangChain's model for `provider:model`, the `name` that the setting or argument `field` has.

    Raises `InvalidInputError` where LangChain knows no such provider, its package is missing (the text names it), or
    the model can't be set up.
    """
    try:
        return make()
    except ImportError as error:
        raise InvalidInputError(field, name, f"a model whose package is installed. {_line(error)}") from error
    except Exception as error:
        text = _line(error)
        if isinstance(error, ValueError) and any(words in text.lower() for words in _UNKNOWN):
            raise InvalidInputError(field, name, f"a model of OpenAI's protocol, or provider:model. {text}") from error
        raise InvalidInputError(field, name, f"a model that can be set up. {type(error).__name__}: {text}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
