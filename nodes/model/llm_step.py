"""One call of a chat model within a node: its prompt, limits and record."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from recall_loop.llm.endpoint.circuit_breaker import Limits
from recall_loop.llm.endpoint.failures import Failure, FailureReason
from recall_loop.llm.structured.output_methods import reply_schema
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.prompting import briefing
from recall_loop.prompts.templates import RenderedPrompt, load_template, render_prompt, strategy_instructions
from recall_loop.state.agent_state import AgentState
from recall_loop.state.run.state_entries import LlmStep, PoolEntry
from recall_loop.state.types import Strategy, ToolName
from recall_loop.text.words.snippets import estimate_tokens

_R = TypeVar("_R", bound=BaseModel)
# Each follows from a logged failure, or from a limit that the caller has set.
_EXPECTED = frozenset(
    {FailureReason.CIRCUIT_OPEN, FailureReason.CALL_LIMIT, FailureReason.TOKEN_LIMIT, FailureReason.TIME_LIMIT}
)
_log = logging.getLogger(__name__)


def ask_model(
    run: RunContext,
    state: AgentState,
    step: str,
    prompt: RenderedPrompt,
    schema: type[_R],
    on_text: Callable[[str], None] | None = None,
) -> tuple[_R | None, LlmStep]:
    """Ask the run's language model, and return the reply (None if it failed) and the record of the step.

    One call is reserved for the answer: earlier steps can't use it.
    """
    if run.chat_client is None:
        raise RuntimeError("no language model is set")
    spare = 1 if run.wants_answer and step != "answer" else 0
    began = time.perf_counter()
    reply = run.chat_client.ask(prompt, schema, _limits(run, state, spare), on_text)
    failure = reply.failure
    if failure is not None:
        level = logging.DEBUG if failure.reason in _EXPECTED else logging.WARNING
        reason = failure.reason.value
        _log.log(level, "language model failed: step %s, %s", step, reason, extra={"step": step, "failure": reason})
    entry = _step(state, step, failure)
    entry |= {
        "rung": reply.method,
        "model": reply.model,
        "attempts": [list(attempt) for attempt in reply.attempts],
        "calls": reply.usage.calls,
        "tokens": reply.usage.tokens,
        "cached": reply.cached,
        "duration_ms": round((time.perf_counter() - began) * 1000, 3),
    }
    return reply.value, entry


def skipped_answer(state: AgentState) -> LlmStep:
    """Return the record of an answer whose prompt doesn't fit within the limits."""
    return _step(state, "answer", Failure(FailureReason.TOKEN_LIMIT, "no memory fits into llm_prompt_tokens"))


def _step(state: AgentState, step: str, failure: Failure | None) -> LlmStep:
    """Return the record of a step without any usage yet."""
    return {
        "step": step,
        "iteration": state["iteration"] + (1 if step in ("plan", "refine") else 0),
        "rung": None,
        "model": None,
        "attempts": [],
        "calls": 0,
        "tokens": 0,
        "cached": False,
        "failure": failure.reason.value if failure else None,
        "reason": failure.detail if failure else None,
        "duration_ms": 0.0,
        "detail": {},
    }


def _limits(run: RunContext, state: AgentState, spare: int) -> Limits:
    """Return the limits that the request has left."""
    settings, steps = run.settings, state["llm_steps"]
    spent = sum(step["duration_ms"] for step in steps) / 1000
    deadline = math.inf if settings.deadline_seconds is None else state["started"] + settings.deadline_seconds
    return Limits(
        calls=max(settings.llm_max_calls - spare - sum(step["calls"] for step in steps), 0),
        tokens=max(settings.llm_max_tokens - sum(step["tokens"] for step in steps), 0),
        seconds=max(min(settings.llm_total_seconds - spent, deadline - time.time()), 0.0),
    )


def failure_warning(step: LlmStep) -> str | None:
    """Return the warning of a step that failed, unless it was by the caller's own limits; else None."""
    if step["failure"] is None or FailureReason(step["failure"]).is_own_limit:
        return None
    return f"language model: {step['step']} fell back ({step['failure']}: {step['reason']})"


def record_steps(state: Mapping[str, Any], *steps: LlmStep) -> dict[str, Any]:
    """Return the state update that adds steps, with their warnings."""
    if not steps:
        return {}
    warnings = list(state["warnings"])
    warnings += [words for words in map(failure_warning, steps) if words and words not in warnings]
    return {
        "llm_steps": [*state["llm_steps"], *steps],
        "warnings": warnings,
        "degraded": state["degraded"] or len(warnings) > len(state["warnings"]),
    }


def usage_totals(name: str | None, steps: Sequence[LlmStep]) -> dict[str, Any]:
    """Return the counters of the result's metadata: calls, tokens, and each failure with its reason (OPS-3)."""
    if name is None:
        return {"llm_calls": 0, "llm_tokens": 0, "llm": None}
    failures = [
        {"step": step["step"], "iteration": step["iteration"], "failure": step["failure"], "reason": step["reason"]}
        for step in steps
        if step["failure"]
    ]
    return {
        "llm_calls": sum(step["calls"] for step in steps),
        "llm_tokens": sum(step["tokens"] for step in steps),
        "llm": {"model": name, "failures": failures},
    }


ANSWER_CHARACTERS = 600
# Largest shares of a prompt for the question and the goal.
QUESTION_SHARE, GOAL_SHARE = 0.12, 0.06
_TOOLS = {
    ToolName.ALL: "everything",
    ToolName.FACTS: "statements that were drawn from conversations",
    ToolName.MESSAGES: "what was said, turn by turn",
    ToolName.ARCHIVAL: "longer notes and passages",
    ToolName.TRAJECTORIES: "past runs of agents",
}


def build_prompt(
    name: str, state: AgentState, run: RunContext, ranked: Sequence[PoolEntry], schema: type[BaseModel], **more: str
) -> RenderedPrompt:
    """Return the prompt `name`, of at most `llm_prompt_tokens` tokens by estimate.

    Space is reserved for the reply's `schema`, which is part of the prompt for endpoints that can't take it separately.
    `more` are the prompt's own variables.
    """
    values, open_values, room = _prompt_frame(name, run, schema, more)
    return render_prompt(name, **values, **_sections(open_values, state, run, ranked, room))


def build_answer_prompt(
    run: RunContext, ranked: Sequence[PoolEntry], schema: type[BaseModel]
) -> tuple[RenderedPrompt, list[int]]:
    """Return the prompt of the answer, and the 1-based positions in `ranked` of the facts in it."""
    values, open_values, room = _prompt_frame("answer", run, schema, {})
    said = briefing.render_conversation(
        run.request.messages, run.question.text, int(briefing.CONVERSATION_SHARE * room)
    )
    shown = briefing.render_facts(ranked, room - estimate_tokens(said), run.terms, ANSWER_CHARACTERS)
    sections = {**open_values, "conversation": said, "facts": "\n".join(shown.values())}
    return render_prompt("answer", **values, **sections), list(shown)


def _prompt_frame(
    name: str, run: RunContext, schema: type[BaseModel], more: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], int]:
    """Return the fixed values of a prompt, its variable ones, and the tokens that are left for these."""
    most = run.settings.llm_prompt_tokens
    values = {
        "question": briefing.fit_text(run.question.text, int(QUESTION_SHARE * most)),
        "now": run.reference_time.date().isoformat(),
        "goal": briefing.fit_text(run.request.goal or "", int(GOAL_SHARE * most)),
        **more,
    }
    open_values = dict.fromkeys(load_template(name).variables - set(values), "")
    bare = render_prompt(name, **values, **open_values)
    room = most - estimate_tokens(bare.system) - estimate_tokens(bare.user) - reply_schema(schema).tokens
    return values, open_values, max(room, 0)


def _sections(
    wanted: Mapping[str, str], state: AgentState, run: RunContext, ranked: Sequence[PoolEntry], room: int
) -> dict[str, str]:
    """Fill the sections of a prompt; the tokens that the first ones don't use go to the facts."""
    shares = {
        "conversation": briefing.CONVERSATION_SHARE,
        "uncovered": briefing.UNCOVERED_SHARE,
        "tried": briefing.TRIED_SHARE,
    }
    budgets = {section: int(share * room) for section, share in shares.items()}
    made = {
        "conversation": briefing.render_conversation(run.request.messages, run.question.text, budgets["conversation"]),
        "uncovered": briefing.render_uncovered([*state["judged_uncovered"], *state["uncovered"]], budgets["uncovered"]),
        "tried": briefing.render_tried(state["query_results"].values(), budgets["tried"]) if "tried" in wanted else "",
    }
    left = room - sum(map(estimate_tokens, made.values()))
    made["found"] = briefing.render_found(ranked, state["iteration"], left, run.terms)
    return {section: made[section] for section in wanted}


def tool_lines(tools: Sequence[ToolName]) -> str:
    """Return the available tools, one a line."""
    return "\n".join(f"- {tool.value}: {_TOOLS[tool]}" for tool in tools)


def strategy_lines(strategies: Sequence[Strategy]) -> str:
    """Return the available strategies with their instructions, one a line."""
    return "\n".join(f"- {strategy.value}: {strategy_instructions()[strategy]}" for strategy in strategies)
