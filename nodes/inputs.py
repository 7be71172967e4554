"""From the graph's input to a validated request: messages in, defaults filled from context and settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from recall_loop.state.agent_state import AgentState
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError, parse
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings import Settings

RECALL_MARK = "recall_loop"
_ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system", "function": "tool"}
_FIELDS = (
    "goal",
    "tenant",
    "agent_id",
    "user_id",
    "conversation_id",
    "scope",
    "filters",
    "content_types",
    "max_facts",
    "max_iterations",
    "max_context_tokens",
    "reference_time",
    "debug",
)
_FROM_CONTEXT = ("tenant", "agent_id", "user_id", "conversation_id", "scope")
_FROM_SETTINGS = ("max_facts", "max_iterations", "max_context_tokens")


def request_from(state: AgentState, context: Context, settings: Settings) -> RetrieveRequest:
    """Return the request that the graph's input stands for; its own fields win over context and settings.

    Raises:
        InvalidInputError: no message with text, or a field that is out of its range.
    """
    raw: dict[str, Any] = {name: state[name] for name in _FIELDS if state.get(name) is not None}  # type: ignore[literal-required]
    for name in _FROM_CONTEXT:
        if name not in raw and getattr(context, name) is not None:
            raw[name] = getattr(context, name)
    raw.setdefault("tenant", settings.tenant)
    for name in _FROM_SETTINGS:
        raw.setdefault(name, getattr(settings, name))
    if state.get("request_id"):
        raw["id"] = state["request_id"]
    raw["messages"] = chat_messages(state.get("messages") or [])
    return parse(RetrieveRequest, raw)


def chat_messages(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return the conversation's messages with text; our own context blocks are left out.

    Raises:
        InvalidInputError: there is no message, or the last one of the user has no text.
    """
    others = [message for message in messages if not message.additional_kwargs.get(RECALL_MARK)]
    if not others:
        raise InvalidInputError("messages", [], "at least one message")
    window = [_chat_message(message) for message in others]
    asked = [message for message in window if message["role"] == "user"] or window
    if not asked[-1]["content"].strip():
        raise InvalidInputError(
            "messages.content",
            asked[-1]["content"],
            "text with at least one character that is not white space",
        )
    return [message for message in window if message["content"].strip()]


def _chat_message(message: AnyMessage) -> dict[str, Any]:
    return {
        "role": _ROLES.get(message.type, "user"),
        "author": message.name or None,
        "content": _text(message.content),
        "timestamp": message.additional_kwargs.get("timestamp"),
    }


def _text(content: Any) -> str:
    """Return the text parts of a message's content."""
    if isinstance(content, str):
        return content
    parts = (part if isinstance(part, str) else part.get("text", "") for part in content)
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def run_key(state: Mapping[str, Any]) -> str:
    """Return what tells one run of a thread from the next: its input's fields and its messages' ids."""
    fields = {name: state[name] for name in (*_FIELDS, "request_id") if state.get(name) is not None}
    messages = [(message.id, _text(message.content)) for message in state.get("messages") or []]
    plain = json.dumps([fields, messages], sort_keys=True, default=str)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32]
