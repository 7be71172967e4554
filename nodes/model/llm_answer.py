"""The steps that ask a chat model: planning, judging the evidence, writing the answer."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.utils.json import parse_json_markdown
from langgraph.graph.message import push_message
from pydantic import ValidationError

from recall_loop.nodes.model.llm_step import (
    ask_model,
    build_answer_prompt,
    build_prompt,
    skipped_answer,
    strategy_lines,
    tool_lines,
)
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.planning.query_forms import make_query, shorten_query
from recall_loop.policy.planning.round_plan import REFINE_ORIGIN, LlmAdvice, PlanningContext, tool_for
from recall_loop.policy.planning.strategies import order_strategies
from recall_loop.policy.prompting.answer_composition import (
    NOT_IN_MEMORY,
    NOT_SEARCHED,
    compose_answer,
    compose_partial_answer,
)
from recall_loop.policy.stopping import RunProgress, metrics_agree, refine_reasons, stop_figures, stop_reason
from recall_loop.prompts.replies import MAX_SENTENCES, AnswerReply, EvaluateReply, PlanReply, RefineReply, Sentence
from recall_loop.state.agent_state import AgentState
from recall_loop.state.run.state_entries import LlmStep, PlannedQuery, QueryNarrowing
from recall_loop.state.types import ConfidenceLabel, QuerySource, StopReason, Strategy, ToolName

Writer = Callable[[Any], None]
_SENTENCES = '"sentences"'


def write_answer(
    state: AgentState, run: RunContext, ranked: Sequence[RankedEntry], confidence: str, write: Writer
) -> tuple[str | None, LlmStep | None]:
    """Return the answer and the step that requested it; no answer if none is requested or the step failed.

    Low confidence gives "Not in memory." without a model call; after a failed search, the answer says that instead.
    """
    if not run.wants_answer or run.chat_client is None:
        return None, None
    missing = NOT_SEARCHED if state["stop_reason"] == StopReason.TOOL_FAILURE else NOT_IN_MEMORY
    entries = [item.entry for item in ranked]
    ids = [entry["record"]["id"] for entry in entries]
    stream = AnswerStream(ids, write, f"answer-{state['request_id']}")
    if not entries or confidence == ConfidenceLabel.LOW:
        stream.show(missing)
        return missing, None
    prompt, places = build_answer_prompt(run, entries, AnswerReply)
    if not places:
        return None, skipped_answer(state)
    stream.restrict_to(places)
    reply, step = ask_model(run, state, "answer", prompt, AnswerReply, stream.feed)
    if reply is None:
        stream.show("")
        return None, step
    answer = compose_answer(stream.citable(reply.sentences), ids) if reply.found else missing
    stream.show(answer)
    return answer, step


class AnswerStream:
    """Shows an answer while it is being written, as events and as message chunks (`stream_mode="messages"`).

    A sentence is shown only once its citation is known to be valid, and the shown text is a prefix of the final
    answer; if the language model has to start over, an `answer_reset` event says so.
    """

    def __init__(self, ids: Sequence[str], write: Writer, name: str) -> None:
        self._ids, self._write, self._name = ids, write, name
        self._places: frozenset[int] = frozenset()
        self._shown, self._resets, self._unreadable = "", 0, ""
        # The call may run in another thread, where LangGraph's configuration isn't set.
        self._context = contextvars.copy_context()

    def restrict_to(self, places: Iterable[int]) -> None:
        """Set the 1-based numbers of the facts that were shown to the model: no others can be cited."""
        self._places = frozenset(places)

    def citable(self, sentences: Iterable[Sentence]) -> list[tuple[list[int], str]]:
        """Return each sentence's valid citations, as numbers of facts, and its text."""
        return [([place for place in each.cites if place in self._places], each.text) for each in sentences]

    def feed(self, text: str) -> None:
        """Take the reply so far."""
        if self._unreadable and text.startswith(self._unreadable):
            return  # parsing takes time in proportion to the text, and nothing that follows can repair it
        try:
            head = compose_partial_answer(self.citable(_sentences(text)), self._ids)
        except RecursionError:
            self._unreadable = text
            return
        if head.startswith(self._shown) or not self._shown.startswith(head):
            self.show(head)

    def show(self, answer: str) -> None:
        """Show the part of `answer` that wasn't shown yet; start over if it is a different answer."""
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
    """Return the sentences of a reply that may be incomplete or invalid.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if _SENTENCES not in text:  # saves parsing, which takes time in proportion to the text, for each new piece
        return []
    try:
        found = parse_json_markdown(text)
    except ValueError:
        return []
    listed = found.get("sentences") if isinstance(found, Mapping) and found.get("found", True) else None
    sentences: list[Sentence] = []
    for item in listed[:MAX_SENTENCES] if isinstance(listed, list) else []:
        try:
            sentences.append(Sentence.model_validate(item))
        except ValidationError:  # its text hasn't begun yet
            break
    return sentences


def judge_evidence(
    state: AgentState, run: RunContext, progress: RunProgress
) -> tuple[StopReason | None, EvaluateReply | None, LlmStep | None]:
    """Return the reason to stop, the judgement, and the step that requested it; None for each that is missing.

    The step records judgement, metrics and decision together.
    """
    reason = stop_reason(progress, run.settings)
    if reason is not None or run.chat_client is None or not metrics_agree(progress, run.settings):
        return reason, None, None
    ranked = run.ranked_entries(state)
    reply, step = ask_model(
        run, state, "evaluate", build_prompt("evaluate", state, run, ranked, EvaluateReply), EvaluateReply
    )
    if reply is None:
        return None, None, step
    sure = list(ConfidenceLabel).index(reply.confidence) >= list(ConfidenceLabel).index(
        run.settings.stop_confidence_required
    )
    reason = stop_reason(replace(progress, judged_enough=reply.stop and sure), run.settings)
    step["detail"] = {
        "judgement": reply.model_dump(mode="json"),
        "metrics": stop_figures(progress),
        "metrics_agree": True,
        "decision": reason.value if reason else "go_on",
    }
    return reason, reply, step


_OFFERED_STRATEGIES = 4


def request_advice(
    state: AgentState, run: RunContext, known: PlanningContext, origin: str
) -> tuple[LlmAdvice, LlmStep]:
    """Ask for a plan; if that fails, the advice is empty and the step has the reason."""
    tools, strategies = _tools(run), _strategies(known)
    more = {"tools": tool_lines(tools), "strategies": strategy_lines(strategies)}
    if origin == REFINE_ORIGIN:
        calls, pool, new = state["tool_calls"], state["evidence_pool"], state["new_facts_last_iteration"]
        more["reasons"] = ", ".join(refine_reasons(calls, pool, new, run.settings))
    schema: type[PlanReply] | type[RefineReply] = RefineReply if origin == REFINE_ORIGIN else PlanReply
    prompt = build_prompt(origin, state, run, known.ranked, schema, **more)
    reply, step = ask_model(run, state, origin, prompt, schema)
    if reply is None:
        return LlmAdvice(), step
    return _advice(reply, run, tools, strategies), step


def _tools(run: RunContext) -> list[ToolName]:
    """Return the tools that search no more than the request's content types."""
    kinds = run.request.content_types
    return list(dict.fromkeys([tool_for(kinds), *(tool_for([kind]) for kind in kinds)]))


def _strategies(known: PlanningContext) -> list[Strategy]:
    """Return the available strategies, the next one first; the first round is always direct."""
    if not known.outcomes:
        return [Strategy.DIRECT]
    return order_strategies(known.used, known.outcomes.values())[:_OFFERED_STRATEGIES]


def _advice(
    reply: PlanReply | RefineReply, run: RunContext, tools: Sequence[ToolName], strategies: Sequence[Strategy]
) -> LlmAdvice:
    narrowed = _narrowed(reply, run, tools)
    longest = run.settings.fallback_max_length
    made = (make_query(shorten_query(text, longest), QuerySource.LLM) for text in reply.queries.texts())
    queries: list[PlannedQuery] = [{**query, "narrowed": narrowed} for query in made]
    strategy = reply.strategy if reply.strategy in strategies else None
    if isinstance(reply, PlanReply):
        return LlmAdvice(queries, strategy)
    return LlmAdvice(queries, strategy, reply.missing, reply.wider, reply.fuzzy)


def _narrowed(reply: PlanReply | RefineReply, run: RunContext, tools: Sequence[ToolName]) -> QueryNarrowing | None:
    """Return the tool and filters for the model's queries; a tool that isn't available is ignored."""
    tool = reply.tool.value if reply.tool and reply.tool in tools[1:] else None
    filters = _filters(reply, run) if isinstance(reply, RefineReply) else {}
    return {"tool": tool, "filters": filters} if tool or filters else None


def _filters(reply: RefineReply, run: RunContext) -> dict[str, Any]:
    """Return filters within the request's own; those that contradict them or each other are left out."""
    own = run.request.filters
    found: dict[str, Any] = {}
    if reply.role is not None and own.role is None:
        found["role"] = reply.role.value
    start, end = _start(reply.start_date), _start(reply.end_date, days=1)
    starts = [time for time in (own.start_time, start) if time]
    ends = [time for time in (own.end_time, end) if time]
    if starts and ends and max(starts) >= min(ends):
        return found
    if start:
        found["start_time"] = max(starts).isoformat()
    if end:
        found["end_time"] = min(ends).isoformat()
    return found


def _start(day: date | None, days: int = 0) -> datetime | None:
    """Return the start of a day in UTC, `days` later; None without a day, or past the end of the calendar."""
    if day is None or day > date.max - timedelta(days=1):
        return None
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=days)
