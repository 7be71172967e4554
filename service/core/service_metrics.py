"""Figures for Prometheus: requests, runs, limits. No tenant, key or word of a user is in any of them."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from recall_loop.state.result import RetrieveResult

# Set before several workers are started: prometheus_client then keeps its values in shared files.
MULTIPROC_DIR_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The metrics of one application; those of all workers together if they share a folder."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter(
            "http_requests", "Requests by route, method and status", "route", "method", "status"
        )
        self.seconds = Histogram(
            "recall_loop_http_request_seconds",
            "Seconds from the first byte of a request to the last byte of its response",
            ("route", "method"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "recall_loop_http_in_flight",
            "Requests in progress",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.refused = self._counter("limited", "Requests refused by a limit", "limit")
        self.stops = self._counter("retrievals", "Retrieval runs by stop reason", "reason")
        self.iterations = Histogram(
            "recall_loop_iterations",
            "Search iterations of a retrieval run",
            buckets=(1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50),
            registry=self.registry,
        )
        self.degraded = self._counter("degraded", "Retrieval runs without an unavailable part of the system")
        self.llm_calls = self._counter("llm_calls", "Calls of the chat model")
        self.llm_tokens = self._counter("llm_tokens", "Tokens that the chat model read and wrote")

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"recall_loop_{name}", words, labels, registry=self.registry)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        known = method if method in _METHODS else "other"
        self.requests.labels(route, known, str(status)).inc()
        self.seconds.labels(route, known).observe(seconds)

    def run(self, result: RetrieveResult) -> None:
        """Count a retrieval run."""
        self.stops.labels(result.stop.reason.value).inc()
        self.iterations.observe(result.stop.iteration)
        self.degraded.inc(int(result.degraded))
        self.llm_calls.inc(result.metadata.get("llm_calls") or 0)
        self.llm_tokens.inc(result.metadata.get("llm_tokens") or 0)

    def exposition(self) -> bytes:
        """Return all figures in Prometheus's text format."""
        if MULTIPROC_DIR_VARIABLE not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
