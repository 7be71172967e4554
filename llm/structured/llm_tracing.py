"""Telemetry of each call of a chat model, by OpenTelemetry's semantic conventions for GenAI (OPS-7)."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from langchain_core.messages import AIMessage, BaseMessage
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from recall_loop.llm.endpoint.circuit_breaker import PROMPT_METHOD
from recall_loop.llm.endpoint.failures import CallError, class_names
from recall_loop.llm.endpoint.wrapped_models import BoundModel
from recall_loop.llm.structured.model_calls import ModelCall
from recall_loop.llm.structured.output_methods import base_url, model_name
from recall_loop.telemetry import metrics, names
from recall_loop.telemetry.spans import mark_failed, record_error, set_attributes, set_content, start_span

# Provider names of the conventions by LangChain class; the first one among the model's classes counts.
_PROVIDERS = {
    "AzureChatOpenAI": "azure.ai.openai",
    "AzureAIChatCompletionsModel": "azure.ai.inference",
    "ChatDeepSeek": "deepseek",
    "ChatXAI": "x_ai",
    "ChatPerplexity": "perplexity",
    "BaseChatOpenAI": "openai",
    "ChatAnthropic": "anthropic",
    "ChatBedrock": "aws.bedrock",
    "ChatBedrockConverse": "aws.bedrock",
    "ChatCohere": "cohere",
    "ChatGoogleGenerativeAI": "gcp.gemini",
    "ChatVertexAI": "gcp.vertex_ai",
    "ChatGroq": "groq",
    "ChatMistralAI": "mistral_ai",
    "ChatWatsonx": "ibm.watsonx.ai",
}
_PORTS = {"http": 80, "https": 443}


class CallObserver:
    """The attributes that all calls of one model share."""

    def __init__(self, bound: BoundModel) -> None:
        model = bound.model
        self.name = model_name(bound)
        kinds = class_names(model)
        self.labels: dict[str, Any] = {
            names.OPERATION: "chat",
            names.PROVIDER: next((_PROVIDERS[kind] for kind in kinds if kind in _PROVIDERS), kinds[0]),
            names.MODEL: self.name,
            **_server(base_url(model)),
        }
        self.temperature = bound.arguments.get("temperature", getattr(model, "temperature", None))


class CallSpan:
    """One call: a span that is current while it is made, a duration, and tokens as far as the server counts them.

    `step` names the prompt, `method` the output method. `context` is the call's context. Nothing of the prompt or
    the reply is recorded unless content is allowed.
    """

    def __init__(self, observer: CallObserver, step: str, method: str, call: ModelCall) -> None:
        self._labels = dict(observer.labels)
        attributes = {
            **observer.labels,
            names.STEP: step,
            names.RUNG: method,
            names.MAX_TOKENS: call.bounds.get("max_tokens", call.bounds.get("max_completion_tokens")),
            names.TEMPERATURE: observer.temperature,
            names.STREAM: call.stream,
            names.OUTPUT_TYPE: None if method == PROMPT_METHOD else "json",
        }
        messages = call.messages
        self._span = start_span(names.CHAT_SPAN.format(model=observer.name), attributes, SpanKind.CLIENT)
        set_content(self._span, names.INSTRUCTIONS, [_part(one) for one in messages if one.type == "system"])
        set_content(self._span, names.INPUT_MESSAGES, [_said("user", one) for one in messages if one.type == "human"])
        self.context: Context = trace.set_span_in_context(self._span)
        self._began = perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """End the span and count the call, whatever became of it."""
        if error is not None:
            record_error(self._span, error)
        metrics.CALL_DURATION.record(perf_counter() - self._began, self._labels)
        self._span.end()

    def record_result(self, result: Any, found: object) -> None:
        """Take what came back: the reply, and the value or the error that was made of it."""
        if isinstance(found, CallError):
            self._labels[names.ERROR_TYPE] = found.reason.value
            mark_failed(self._span, found.reason.value)
        reply = result.get("raw") if isinstance(result, Mapping) else result
        if isinstance(reply, AIMessage):
            self._reply(reply)

    def _reply(self, reply: AIMessage) -> None:
        said, usage = _mapping(reply.response_metadata), _mapping(reply.usage_metadata)
        model = said.get("model_name") or said.get("model")
        tokens = {name: _whole(usage.get(f"{name}_tokens")) for name in ("input", "output")}
        end = said.get("finish_reason") or said.get("stop_reason")
        set_attributes(
            self._span,
            {
                names.RESPONSE_ID: said["id"] if isinstance(said.get("id"), str) else None,
                names.RESPONSE_MODEL: model if isinstance(model, str) else None,
                names.FINISH_REASONS: [end] if isinstance(end, str) else None,
                names.INPUT_TOKENS: tokens["input"],
                names.OUTPUT_TOKENS: tokens["output"],
            },
        )
        set_content(self._span, names.OUTPUT_MESSAGES, [_said("assistant", reply)])
        for name, count in tokens.items():
            if count is not None:
                metrics.TOKEN_USAGE.record(count, {**self._labels, names.TOKEN_TYPE: name})


def _server(url: str | None) -> dict[str, Any]:
    """Return host and port of an address; nothing of one that can't be read."""
    try:
        parts = urlsplit(url or "")
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return {}
    return {names.SERVER_ADDRESS: host, names.SERVER_PORT: port} if host and port else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a chat model's metadata of a reply; empty if it doesn't have LangChain's format."""
    return value if isinstance(value, Mapping) else {}


def _whole(count: Any) -> int | None:
    return count if type(count) is int and count >= 0 else None


def _part(message: BaseMessage) -> dict[str, Any]:
    return {"type": "text", "content": message.content}


def _said(role: str, message: BaseMessage) -> dict[str, Any]:
    calls = [
        {"type": "tool_call", "name": call["name"], "arguments": call["args"]}
        for call in getattr(message, "tool_calls", ())
    ]
    return {"role": role, "parts": [_part(message), *calls] if message.content or not calls else calls}
