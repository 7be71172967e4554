"""Metrics through OpenTelemetry's API: recorded by the SDK of the process, if it has one (OPS-7).

Attributes of metrics are few and have few values: no id, and never user content.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import metrics
from opentelemetry.metrics import Histogram

from recall_loop.telemetry.names import SCOPE

_meter = metrics.get_meter(SCOPE)
# The GenAI conventions give these boundaries.
_CALL_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4.0**power for power in range(14))
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_ITERATIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 50.0, 100.0)
_SHARES = tuple(tenth / 10 for tenth in range(1, 11))


def _histogram(name: str, unit: str, description: str, bounds: Sequence[float]) -> Histogram:
    return _meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)


RUNS = _meter.create_counter("recall_loop.runs", "{run}", "Retrieval runs that ended.")
RUN_DURATION = _histogram("recall_loop.run.duration", "s", "Duration of a run.", _SECONDS)
RUN_ITERATIONS = _histogram("recall_loop.run.iterations", "{iteration}", "Iterations of a finished run.", _ITERATIONS)
RUN_CONFIDENCE = _histogram("recall_loop.run.confidence", "1", "Confidence score of a finished run.", _SHARES)
NEW_FACTS = _meter.create_counter("recall_loop.new_facts", "{fact}", "New facts of all iterations.")
QUERIES = _meter.create_counter("recall_loop.queries.executed", "{query}", "Queries that were searched.")
DROPPED_QUERIES = _meter.create_counter(
    "recall_loop.queries.dropped", "{query}", "Queries that were dropped as repeats."
)
NODE_DURATION = _histogram("recall_loop.node.duration", "s", "Duration of one node of a run.", _SECONDS)
SEARCH_DURATION = _histogram("recall_loop.search.duration", "s", "Duration of one search of the store.", _SECONDS)
CALL_DURATION = _histogram(
    "gen_ai.client.operation.duration", "s", "Duration of one call of the chat model.", _CALL_SECONDS
)
TOKEN_USAGE = _histogram("gen_ai.client.token.usage", "{token}", "Tokens that one call read or wrote.", _TOKENS)
