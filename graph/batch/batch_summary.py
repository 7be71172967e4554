"""The outcome of a batch in figures; memory grows with it by eight bytes a request (OPS-3)."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from recall_loop.graph.batch.batch_requests import ResultLine
from recall_loop.state.types import StopReason

_LATENCY = (("p50", 0.50), ("p95", 0.95), ("max", 1.0))


@dataclass(slots=True)
class BatchSummary:
    """Counts of requests; `skipped` had their line from the run that was resumed, and no figures here.

    Attributes:
        total: requests that have their line, skipped ones included.
        succeeded: requests with a result.
        failed: requests with an error.
        degraded: results that some part of the system was missing for.
        stop_reasons: results by stop reason.
        errors: errors by type.
        iterations: search rounds of all results.
        llm_calls: calls of the language model.
        llm_tokens: tokens of those calls.
        seconds: how long each result took.
    """

    total: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    degraded: int = 0
    stop_reasons: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    iterations: int = 0
    llm_calls: int = 0
    llm_tokens: int = 0
    seconds: array[float] = field(default_factory=lambda: array("d"), repr=False)

    @property
    def complete(self) -> bool:
        """Whether every request was searched and answered."""
        return not self.failed and not self.stop_reasons[StopReason.TOOL_FAILURE]

    def skip(self) -> None:
        """Count a request that has its line already."""
        self.total += 1
        self.skipped += 1

    def add(self, line: ResultLine) -> None:
        """Count a line of the output."""
        self.total += 1
        if "error" in line:
            self.failed += 1
            self.errors[line["error"]["type"]] += 1
            return
        result = line["result"]
        figures = result["metadata"]
        self.succeeded += 1
        self.degraded += result["degraded"]
        self.stop_reasons[result["stop"]["reason"]] += 1
        self.iterations += figures["iterations"]
        self.llm_calls += figures["llm_calls"]
        self.llm_tokens += figures["llm_tokens"]
        self.seconds.append(figures["duration_ms"] / 1000)

    def latency(self) -> dict[str, float]:
        """Return seconds a request at the median, at 95 of 100, and at most; empty without a result."""
        ordered = sorted(self.seconds)
        last = len(ordered) - 1
        return {name: round(ordered[round(share * last)], 3) for name, share in _LATENCY} if ordered else {}

    def as_json(self) -> dict[str, Any]:
        """Return all figures as plain JSON; times in seconds."""
        counts = {name: getattr(self, name) for name in ("total", "succeeded", "failed", "skipped", "degraded")}
        return {
            **counts,
            "stop_reasons": dict(self.stop_reasons.most_common()),
            "errors": dict(self.errors.most_common()),
            "latency_seconds": self.latency(),
            "iterations": self.iterations,
            "llm_calls": self.llm_calls,
            "llm_tokens": self.llm_tokens,
        }
