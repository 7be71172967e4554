"""One run of the loop as a span, as metrics, and as one line in the log (OPS-3, OPS-7)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

from opentelemetry import context as contexts
from opentelemetry import trace

from recall_loop.telemetry import metrics, names
from recall_loop.telemetry.spans import (
    BENIGN_EXITS,
    allow_content,
    error_type,
    is_content_allowed,
    record_error,
    set_attributes,
    set_content,
    start_span,
    trace_id,
    use_context,
)

_RUN = contexts.create_key("recall_loop.run")
_COUNTERS = (
    "iterations",
    "queries_generated",
    "queries_executed",
    "queries_dropped",
    "duplicates_merged",
    "evidence_added",
    "unique_facts_seen",
    "coverage",
    "llm_calls",
    "llm_tokens",
)
_ATTRIBUTES = {  # on the span, and the counters that they feed
    names.STOP_REASON: "stop_reason",
    names.ITERATIONS: "iterations",
    names.QUERIES_GENERATED: "queries_generated",
    names.QUERIES_EXECUTED: "queries_executed",
    names.QUERIES_DROPPED: "queries_dropped",
    names.DUPLICATES: "duplicates_merged",
    names.NEW_FACTS: "new_facts",
    names.UNIQUE_FACTS: "unique_facts_seen",
    names.FACTS: "facts",
    names.COVERAGE: "coverage",
    names.LLM_CALLS: "llm_calls",
    names.LLM_TOKENS: "llm_tokens",
    names.CONFIDENCE: "confidence",
    names.CONFIDENCE_SCORE: "confidence_score",
    names.DEGRADED: "degraded",
    names.WARNINGS: "warnings",
}
_log = logging.getLogger("recall_loop.run")


class RunSpan:
    """Follows one run from its first step to its last; used as `with RunSpan(name) as run:`.

    The span is current only inside of `current()`, so that a run that is streamed step by step never leaves it behind
    in its consumer's context. Nodes find the span of their run with `current_run()`, and record what they know.
    """

    def __init__(self, graph: str) -> None:
        self._graph = graph
        self._span = start_span(
            names.RUN_SPAN.format(graph=graph), {names.OPERATION: "invoke_agent", names.AGENT: graph}
        )
        self._context = trace.set_span_in_context(self._span)
        self._began = time.perf_counter()
        self._request_id: str | None = None
        self._state: Mapping[str, Any] | None = None
        self._question: str | None = None
        self._content = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            self._close(error, time.perf_counter() - self._began)
        finally:
            self._span.end()

    def current(self) -> AbstractContextManager[None]:
        """Make the run's span the current one inside of the block."""
        # Created here: a context held by the span would keep the span, and with it the state of the run, alive until a
        # garbage collection.
        return use_context(contexts.set_value(_RUN, self, self._context))

    def record_request(self, request_id: str | None, question: str | None) -> None:
        """Take the request's id, and its question where content is allowed."""
        self._request_id = request_id
        self._question, self._content = question, is_content_allowed()

    def record_result(self, state: Mapping[str, Any]) -> None:
        """Take the result's keys of the run that has reached its end."""
        self._state = state

    def _close(self, error: BaseException | None, seconds: float) -> None:
        outcome = self._outcome(error)
        summary = {} if self._state is None else run_summary(self._state)
        attributes = {name: summary.get(key) for name, key in _ATTRIBUTES.items()}
        set_attributes(self._span, attributes | {names.OUTCOME: outcome, names.REQUEST_ID: self._request_id})
        if error is not None:
            record_error(self._span, error)
        failure = error_type(error) if outcome == "failed" and error is not None else None
        self._record_content()
        _count_run(outcome, summary, failure, seconds)
        self._log_run(outcome, summary, failure, seconds)

    def _outcome(self, error: BaseException | None) -> str:
        if error is None:
            return "paused" if self._state is None else "finished"
        return "cancelled" if isinstance(error, BENIGN_EXITS) else "failed"

    def _record_content(self) -> None:
        if not self._content:
            return
        state = self._state or {}
        with allow_content(True):
            set_content(self._span, names.INPUT_MESSAGES, _message("user", self._question))
            answer = state.get("answer") or state.get("context")
            set_content(self._span, names.OUTPUT_MESSAGES, _message("assistant", answer))

    def _log_run(self, outcome: str, summary: Mapping[str, Any], failure: str | None, seconds: float) -> None:
        if not _log.isEnabledFor(logging.INFO):
            return
        fields: dict[str, Any] = {"request_id": self._request_id, "graph": self._graph, **summary}
        fields |= {"duration_ms": round(seconds * 1000, 3), "trace_id": trace_id(self._span), "error_type": failure}
        if self._content:
            fields |= {"question": self._question, "answer": (self._state or {}).get("answer")}
        _log.info("run %s", outcome, extra={name: value for name, value in fields.items() if value is not None})


def current_run() -> RunSpan | None:
    """Return the span of the run that this code works for; None outside of one."""
    run = contexts.get_value(_RUN)
    return run if isinstance(run, RunSpan) else None


def run_summary(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counters of a finished run (OPS-3), from the result's keys."""
    metadata, confidence = state["metadata"], state["confidence"]
    return {
        "stop_reason": state["stop"]["reason"],
        **{name: metadata[name] for name in _COUNTERS},
        "new_facts": sum(metadata["new_facts_by_iteration"]),
        "new_facts_by_iteration": list(metadata["new_facts_by_iteration"]),
        "facts": len(state["facts"]),
        "strategies_used": list(metadata["strategies_used"]),
        "confidence": confidence["label"],
        "confidence_score": confidence["score"],
        "degraded": bool(state["degraded"]),
        "warnings": len(state["warnings"]),
    }


def _count_run(outcome: str, summary: Mapping[str, Any], failure: str | None, seconds: float) -> None:
    labels: dict[str, Any] = {names.OUTCOME: outcome}
    if summary:
        labels |= {names.STOP_REASON: summary["stop_reason"], names.DEGRADED: summary["degraded"]}
    if failure is not None:
        labels[names.ERROR_TYPE] = failure
    metrics.RUNS.add(1, labels)
    metrics.RUN_DURATION.record(seconds, labels)
    if summary:
        metrics.RUN_ITERATIONS.record(summary["iterations"], labels)
        metrics.RUN_CONFIDENCE.record(summary["confidence_score"], labels)
        metrics.NEW_FACTS.add(summary["new_facts"])
        metrics.QUERIES.add(summary["queries_executed"])
        metrics.DROPPED_QUERIES.add(summary["queries_dropped"])


def _message(role: str, text: str | None) -> list[dict[str, Any]] | None:
    return None if text is None else [{"role": role, "parts": [{"type": "text", "content": text}]}]
