"""A span and a duration for each search of the store (OPS-7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from recall_loop.memory.search.query.query_preparation import SearchResponse
from recall_loop.state.types import SearchMode
from recall_loop.telemetry import metrics, names
from recall_loop.telemetry.spans import error_type, set_attributes, span


@contextmanager
def observe_search(mode: SearchMode) -> Iterator[list[SearchResponse]]:
    """Report a search of several queries to OpenTelemetry; the body appends its responses to the yielded list."""
    labels: dict[str, Any] = {names.MODE: str(mode)}
    responses: list[SearchResponse] = []
    began = perf_counter()
    try:
        with span(names.SEARCH_SPAN, {names.MODE: str(mode)}) as opened:
            yield responses
            labels[names.DEGRADED] = any(response.degraded_reason for response in responses)
            if opened.is_recording():
                results = sum(len(response.hits) for response in responses)
                legs = sorted({leg for response in responses for leg in response.legs})
                counts: dict[str, Any] = {names.QUERIES: len(responses), names.RESULTS: results, names.LEGS: legs}
                set_attributes(opened, {**counts, names.DEGRADED: labels[names.DEGRADED]})
    except Exception as error:
        labels[names.ERROR_TYPE] = error_type(error)
        raise
    finally:
        metrics.SEARCH_DURATION.record(perf_counter() - began, labels)
