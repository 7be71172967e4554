"""Recalled facts as text: the context block, and the message that adds it to a conversation (LIVE-5)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.config import get_config

from recall_loop.memory.parsing.chat_messages import RECALL_MARKER, is_recall_block
from recall_loop.nodes.runtime.inputs import chat_role
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.prompting.briefing import render_memory_lines
from recall_loop.prompts.templates import render_template
from recall_loop.state.display import NOT_SEARCHED_TEXT
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.types import Role, StopReason
from recall_loop.text.words.snippets import estimate_tokens

# Two recalls of one turn that differ in any other field have separate messages.
_NOT_RECALLED = {"id", "messages", "write_answer", "debug"}
_NOTHING_RELEVANT = "(nothing in memory is relevant to the question)"
_NOTHING_BEFORE_FAILURE = "(the search failed midway: whether memory holds something relevant is unknown)"
_NOTHING_FOUND = "No memories were found for the last question."


def render_context(
    run: RunContext, ranked: Sequence[RankedEntry], whole: Sequence[RankedEntry], confidence: str, stop: str
) -> str:
    """Return the context block within the token budget; empty without facts. `whole` has the facts with full texts.

    Facts below the floor, and records that state nothing, are left out; if none is left, the block says so (LIVE-5).
    """
    if not ranked:
        return ""
    frame = {"confidence": confidence, "stop": stop}
    floor = run.settings.context_floor
    shown = [
        full.entry
        for item, full in zip(ranked, whole, strict=True)
        if item.relevance >= floor and run.states(item.entry)
    ]
    if not shown:
        missing = _NOTHING_BEFORE_FAILURE if stop == StopReason.TOOL_FAILURE else _NOTHING_RELEVANT
        return render_template("context", memories=missing, **frame)
    budget = run.settings.max_context_tokens - estimate_tokens(render_template("context", memories="", **frame))
    lines = render_memory_lines(shown, max(budget, 0), run.terms)
    return render_template("context", memories="\n".join(lines), **frame) if lines else ""


def _block(result: Mapping[str, Any]) -> str:
    """Return the context block, or the reason if it is empty."""
    failed = result["stop"]["reason"] == StopReason.TOOL_FAILURE
    return str(result["context"]) or (NOT_SEARCHED_TEXT if failed else _NOTHING_FOUND)


def recall_message(messages: Sequence[AnyMessage], result: Mapping[str, Any], request: RetrieveRequest) -> HumanMessage:
    """Return the context block as a message; its id is the same whenever a node recalls a turn with the same request.

    A turn is identified by its question, so messages that an agent's own steps append meanwhile don't matter (GRAPH-2).
    """
    others = [message for message in messages if not is_recall_block(message)]
    question = next((message for message in reversed(others) if chat_role(message) == Role.USER), others[-1])
    plain = f"{question.id}\n{question.content}" if question.id is None else question.id
    recalled = request.model_dump_json(exclude=_NOT_RECALLED, exclude_none=True)
    identity = hashlib.sha256("\n".join([plain, *_node_path(), recalled]).encode("utf-8", "surrogatepass"))
    return HumanMessage(
        content=_block(result),
        name="recall_loop",
        id=f"recall-loop-{identity.hexdigest()[:32]}",
        additional_kwargs={RECALL_MARKER: True},
    )


def _node_path() -> list[str]:
    """Return the node names of this run in all enclosing graphs; they are the same in a retry."""
    namespace = str(get_config().get("configurable", {}).get("checkpoint_ns") or "")
    return [part.partition(":")[0] for part in namespace.split("|")[:-1]]
