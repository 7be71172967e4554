"""The written answer: cited sentences out of the returned facts, streamed as they are written (LOOP-10)."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.utils.json import parse_json_markdown
from langgraph.graph.message import push_message
from pydantic import ValidationError

from recall_loop.nodes.model.llm_step import ask_model, skipped_step
from recall_loop.nodes.model.prompt_builder import build_answer_prompt
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.prompting.answer_composition import NOT_IN_MEMORY, compose_answer, compose_partial_answer
from recall_loop.prompts.replies import MAX_SENTENCES, AnswerReply, Sentence
from recall_loop.state.agent_state import AgentState, LlmStep
from recall_loop.state.types import ConfidenceLabel

Writer = Callable[[Any], None]
_JSON_STARTS = '{["'


def write_answer(
    state: AgentState, run: RunContext, ranked: Sequence[RankedEntry], confidence: str, write: Writer
) -> tuple[str | None, LlmStep | None]:
    """Return the answer, and the step that asked for it; no answer where none is wanted or the step failed.

    Low confidence is answered "Not in memory." without asking.
    """
    if not run.wants_answer or run.chat_client is None:
        return None, None
    entries = [item.entry for item in ranked]
    ids = [entry["record"]["id"] for entry in entries]
    stream = AnswerStream(ids, write, f"answer-{state['request_id']}")
    if not entries or confidence == ConfidenceLabel.LOW:
        stream.show(NOT_IN_MEMORY)
        return NOT_IN_MEMORY, None
    prompt, places = build_answer_prompt(state, run, entries, AnswerReply)
    if not places:
        return None, skipped_step(state, "answer", "no memory fits into llm_prompt_tokens")
    stream.restrict_to(places)
    reply, step = ask_model(run, state, "answer", prompt, AnswerReply, stream.feed)
    if reply is None:
        stream.show("")
        return None, step
    answer = compose_answer(stream.citable(reply.sentences), ids) if reply.found else NOT_IN_MEMORY
    stream.show(answer)
    return answer, step


class AnswerStream:
    """Shows an answer while it is being written, as events and as message chunks (`stream_mode="messages"`).

    A sentence is shown only once its citation is known to be valid, and what is shown is a head of the final
    answer; where the language model has to start over, an `answer_reset` says so.
    """

    def __init__(self, ids: Sequence[str], write: Writer, name: str) -> None:
        self._ids, self._write, self._name = ids, write, name
        self._places: frozenset[int] = frozenset()
        self._shown, self._resets = "", 0
        # The call may run in another thread, where LangGraph's configuration isn't set.
        self._context = contextvars.copy_context()

    def restrict_to(self, places: Iterable[int]) -> None:
        """Name the facts, from 1, that were shown to the model: no other can be cited."""
        self._places = frozenset(places)

    def citable(self, sentences: Iterable[Sentence]) -> list[tuple[list[int], str]]:
        """Return the places that each sentence cites validly, and its text."""
        return [([place for place in each.cites if place in self._places], each.text) for each in sentences]

    def feed(self, text: str) -> None:
        """Take the reply so far."""
        head = compose_partial_answer(self.citable(_sentences(text)), self._ids)
        if head.startswith(self._shown) or not self._shown.startswith(head):
            self.show(head)

    def show(self, answer: str) -> None:
        """Show what `answer` adds to what was shown; start over where it is another answer."""
        if not answer.startswith(self._shown):
            self._write({"type": "answer_reset"})
            self._shown, self._resets = "", self._resets + 1
        added = answer[len(self._shown) :]
        if added:
            self._write({"type": "answer_token", "text": added})
            # An answer that starts over is another message: chunks of one id are joined.
            name = f"{self._name}-{self._resets}" if self._resets else self._name
            chunk = AIMessageChunk(content=added, id=name)
            self._context.run(push_message, chunk, state_key=None)
        self._shown = answer


def _sentences(text: str) -> list[Sentence]:
    """Return the sentences of a reply that may break off anywhere, and may be no reply at all."""
    if not any(letter in text for letter in _JSON_STARTS):
        return []
    try:
        found = parse_json_markdown(text)
    except (ValueError, RecursionError):
        return []
    listed = found.get("sentences") if isinstance(found, Mapping) and found.get("found", True) else None
    sentences: list[Sentence] = []
    for item in listed[:MAX_SENTENCES] if isinstance(listed, list) else []:
        try:
            sentences.append(Sentence.model_validate(item))
        except ValidationError:  # its text hasn't begun yet
            break
    return sentences
