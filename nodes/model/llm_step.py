"""One step that asks the language model: its limits, and the record of what it cost (LOOP-8, OPS-3)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from recall_loop.llm.endpoint.call_limits import Limits
from recall_loop.llm.endpoint.failures import Failure, FailureReason
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.prompts.templates import RenderedPrompt
from recall_loop.state.agent_state import AgentState, LlmStep

_R = TypeVar("_R", bound=BaseModel)
_log = logging.getLogger(__name__)


def ask_model(
    run: RunContext,
    state: AgentState,
    step: str,
    prompt: RenderedPrompt,
    schema: type[_R],
    on_text: Callable[[str], None] | None = None,
) -> tuple[_R | None, LlmStep]:
    """Ask the run's language model, and return the reply (None where it failed) and the record of the step.

    The answer's call is kept free for it: earlier steps may not spend it.
    """
    if run.chat_client is None:
        raise RuntimeError("no language model is set")
    spare = 1 if run.wants_answer and step != "answer" else 0
    began = time.perf_counter()
    reply = run.chat_client.ask(prompt, schema, _limits(run, state, spare), on_text)
    failure = reply.failure
    if failure is not None:
        _log.warning("language model failed", extra={"step": step, "failure": failure.reason.value})
    entry = _step(state, step, failure)
    entry |= {
        "rung": reply.method,
        "attempts": [list(attempt) for attempt in reply.attempts],
        "calls": reply.usage.calls,
        "tokens": reply.usage.tokens,
        "cached": reply.cached,
        "duration_ms": round((time.perf_counter() - began) * 1000, 3),
    }
    return reply.value, entry


def skipped_step(state: AgentState, step: str, reason: str) -> LlmStep:
    """Return the record of a step whose prompt couldn't be made within the limits."""
    return _step(state, step, Failure(FailureReason.TOKEN_LIMIT, reason))


def _step(state: AgentState, step: str, failure: Failure | None) -> LlmStep:
    """Return the record of a step that has cost nothing yet."""
    return {
        "step": step,
        "iteration": state["iteration"] + (1 if step in ("plan", "refine") else 0),
        "rung": None,
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
    """Return what the request has left."""
    settings, steps = run.settings, state["llm_steps"]
    spent = sum(step["duration_ms"] for step in steps) / 1000
    deadline = math.inf if settings.deadline_seconds is None else state["started"] + settings.deadline_seconds
    return Limits(
        calls=max(settings.llm_max_calls - spare - sum(step["calls"] for step in steps), 0),
        tokens=max(settings.llm_max_tokens - sum(step["tokens"] for step in steps), 0),
        seconds=max(min(settings.llm_total_seconds - spent, deadline - time.time()), 0.0),
    )


def endpoint_warning(step: LlmStep) -> str | None:
    """Return the warning of a step that failed through the endpoint's fault, else None."""
    if step["failure"] is None or not FailureReason(step["failure"]).is_endpoint_fault:
        return None
    return f"language model: {step['step']} fell back ({step['failure']}: {step['reason']})"


def record_steps(state: Mapping[str, Any], *steps: LlmStep) -> dict[str, Any]:
    """Return the state update that adds steps, with their warnings."""
    if not steps:
        return {}
    warnings = list(state["warnings"])
    warnings += [words for words in map(endpoint_warning, steps) if words and words not in warnings]
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
