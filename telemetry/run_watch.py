"""One run of the loop as a span, as metrics, and as one line in the log (OPS-3, OPS-7)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from opentelemetry import context as contexts

from recall_loop.telemetry import metrics, names
from recall_loop.telemetry.spans import (
    BENIGN_EXITS,
    allow_content,
    context_with,
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
_COUNTERS = ("queries_generated", "queries_executed", "queries_dropped", "duplicates_merged", "evidence_added")
_log = logging.getLogger("recall_loop.run")


class RunSpan:
    """Follows one run from its first step to its last; used as `with RunSpan(name) as watch:`.

    The span is current only inside of `current()`, so that a run that is streamed step by step never leaves it behind
    in its consumer's context. Nodes find the watch of their run with `current_run()`, and tell it what they know.
    """

    def __init__(self, graph: str) -> None:
        self._graph = graph
        self._span = start_span(
            names.RUN_SPAN.format(graph=graph), {names.OPERATION: "invoke_agent", names.AGENT: graph}
        )
        self._context = contexts.set_value(_RUN, self, context_with(self._span))
        self._began = time.perf_counter()
        self._request_id: str | None = None
        self._state: Mapping[str, Any] | None = None
        self._asked: str | None = None
        self._content = False

    def __enter__(self) -> Self:
        """Return the watch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the span, count the run and write its line."""
        try:
            self._close(error, time.perf_counter() - self._began)
        finally:
            self._span.end()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the run's span the current one inside of the block."""
        with use_context(self._context):
            yield

    def record_request(self, request_id: str | None, question: str | None) -> None:
        """Take the request's id, and its question where content is allowed."""
        self._request_id = request_id
        self._asked, self._content = question, is_content_allowed()

    def record_result(self, state: Mapping[str, Any]) -> None:
        """Take the result's keys of the run that has reached its end."""
        self._state = state

    def _close(self, error: BaseException | None, seconds: float) -> None:
        outcome = self._outcome(error)
        told = {} if self._state is None else run_summary(self._state)
        set_attributes(self._span, {names.OUTCOME: outcome, names.REQUEST_ID: self._request_id, **_attributes(told)})
        if error is not None:
            record_error(self._span, error)
        self._tell_content()
        self._count(outcome, told, error, seconds)
        self._write(outcome, told, error, seconds)

    def _outcome(self, error: BaseException | None) -> str:
        if error is None:
            return "paused" if self._state is None else "finished"
        return "cancelled" if isinstance(error, BENIGN_EXITS) else "failed"

    def _tell_content(self) -> None:
        if not self._content:
            return
        with allow_content(True):
            set_content(self._span, names.INPUT_MESSAGES, _message("user", self._asked))
            set_content(self._span, names.OUTPUT_MESSAGES, _message("assistant", self._answer))

    @property
    def _answer(self) -> str | None:
        state = self._state or {}
        return state.get("answer") or state.get("context")

    def _count(self, outcome: str, told: Mapping[str, Any], error: BaseException | None, seconds: float) -> None:
        labels: dict[str, Any] = {names.OUTCOME: outcome}
        if told:
            labels |= {names.STOP_REASON: told["stop_reason"], names.DEGRADED: told["degraded"]}
        if outcome == "failed" and error is not None:
            labels[names.ERROR_TYPE] = error_type(error)
        metrics.RUNS.add(1, labels)
        metrics.RUN_DURATION.record(seconds, labels)
        if told:
            metrics.RUN_ITERATIONS.record(told["iterations"], labels)
            metrics.RUN_CONFIDENCE.record(told["confidence_score"], labels)
            metrics.NEW_FACTS.add(told["new_facts"])
            metrics.QUERIES.add(told["queries_executed"])
            metrics.DROPPED_QUERIES.add(told["queries_dropped"])

    def _write(self, outcome: str, told: Mapping[str, Any], error: BaseException | None, seconds: float) -> None:
        if not _log.isEnabledFor(logging.INFO):
            return
        line: dict[str, Any] = {"request_id": self._request_id, "graph": self._graph, **told}
        line["duration_ms"] = round(seconds * 1000, 3)
        line["trace_id"] = trace_id(self._span)
        if outcome == "failed" and error is not None:
            line["error_type"] = error_type(error)
        if self._content:
            line |= {"question": self._asked, "answer": (self._state or {}).get("answer")}
        _log.info("run %s", outcome, extra={name: value for name, value in line.items() if value is not None})


def current_run() -> RunSpan | None:
    """Return the watch of the run that this code works for; None outside of one."""
    found = contexts.get_value(_RUN)
    return found if isinstance(found, RunSpan) else None


def run_summary(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counters of a finished run (OPS-3), out of the result's keys."""
    metadata, stop, confidence = state["metadata"], state["stop"], state["confidence"]
    return {
        "stop_reason": stop["reason"],
        "iterations": metadata["iterations"],
        **{name: metadata[name] for name in _COUNTERS},
        "new_facts": sum(metadata["new_facts_by_iteration"]),
        "new_facts_by_iteration": list(metadata["new_facts_by_iteration"]),
        "unique_facts_seen": metadata["unique_facts_seen"],
        "facts": len(state["facts"]),
        "coverage": metadata["coverage"],
        "strategies_used": list(metadata["strategies_used"]),
        "llm_calls": metadata["llm_calls"],
        "llm_tokens": metadata["llm_tokens"],
        "confidence": confidence["label"],
        "confidence_score": confidence["score"],
        "degraded": bool(state["degraded"]),
        "warnings": len(state["warnings"]),
    }


def _attributes(told: Mapping[str, Any]) -> dict[str, Any]:
    if not told:
        return {}
    return {
        names.STOP_REASON: told["stop_reason"],
        names.ITERATIONS: told["iterations"],
        names.QUERIES_GENERATED: told["queries_generated"],
        names.QUERIES_EXECUTED: told["queries_executed"],
        names.QUERIES_DROPPED: told["queries_dropped"],
        names.DUPLICATES: told["duplicates_merged"],
        names.NEW_FACTS: told["new_facts"],
        names.UNIQUE_FACTS: told["unique_facts_seen"],
        names.FACTS: told["facts"],
        names.COVERAGE: told["coverage"],
        names.LLM_CALLS: told["llm_calls"],
        names.LLM_TOKENS: told["llm_tokens"],
        names.CONFIDENCE: told["confidence"],
        names.CONFIDENCE_SCORE: told["confidence_score"],
        names.DEGRADED: told["degraded"],
        names.WARNINGS: told["warnings"],
    }


def _message(role: str, text: str | None) -> list[dict[str, Any]] | None:
    return None if text is None else [{"role": role, "parts": [{"type": "text", "content": text}]}]
