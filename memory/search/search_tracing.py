"""A span and a duration for each search of the store, whoever asks for it (OPS-7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from recall_loop.memory.search.query.search_response import SearchResponse
from recall_loop.state.search import SearchParams
from recall_loop.telemetry import metrics, names
from recall_loop.telemetry.spans import error_type, set_attributes, span

if TYPE_CHECKING:
    from opentelemetry.trace import Span

SearchFunction = TypeVar("SearchFunction", bound=Callable[..., list[SearchResponse]])


def with_telemetry(search: SearchFunction) -> SearchFunction:
    """Return a search of several queries as one that is told to OpenTelemetry."""

    @wraps(search)
    def call(*args: Any, **options: Any) -> list[SearchResponse]:
        mode = str((options.get("params") or SearchParams()).mode)
        labels: dict[str, Any] = {names.MODE: mode}
        began = perf_counter()
        try:
            with span(names.SEARCH_SPAN, {names.MODE: mode}) as opened:
                found = search(*args, **options)
                labels[names.DEGRADED] = any(response.degraded_reason for response in found)
                _set_attributes(opened, found, labels[names.DEGRADED])
        except Exception as error:
            labels[names.ERROR_TYPE] = error_type(error)
            raise
        finally:
            metrics.SEARCH_DURATION.record(perf_counter() - began, labels)
        return found

    return cast("SearchFunction", call)


def _set_attributes(opened: Span, found: Sequence[SearchResponse], degraded: bool) -> None:
    if not opened.is_recording():
        return
    told: dict[str, Any] = {
        names.QUERIES: len(found),
        names.RESULTS: sum(len(response.hits) for response in found),
        names.LEGS: sorted({leg for response in found for leg in response.legs}),
        names.DEGRADED: degraded,
    }
    set_attributes(opened, told)
