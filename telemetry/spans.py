"""Spans through OpenTelemetry's API: nothing is recorded unless the process has an SDK (OPS-7).

User content (questions, queries, facts, prompts, answers, texts of errors) goes into a span only inside of
`allow_content(True)`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from recall_loop.state.run.cancellation import RunCancelledError
from recall_loop.telemetry.names import ERROR_TYPE, SCOPE

Attributes = Mapping[str, AttributeValue | None]
_tracer = trace.get_tracer(SCOPE)
_CONTENT = contexts.create_key("recall_loop.content")
# Ways to end a piece of work that aren't failures.
BENIGN_EXITS = (GeneratorExit, KeyboardInterrupt, asyncio.CancelledError, RunCancelledError)


def start_span(name: str, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL) -> Span:
    """Start a span below the current one; the caller ends it."""
    return _tracer.start_span(name, kind=kind, attributes=_without_none(attributes))


@contextmanager
def use_context(context: Context) -> Iterator[None]:
    """Make a context the current one inside of the block."""
    token = contexts.attach(context)
    try:
        yield
    finally:
        contexts.detach(token)


@contextmanager
def span(name: str, attributes: Attributes) -> Iterator[Span]:
    """Yield a span that is current inside of the block, and ends with it."""
    with _tracer.start_as_current_span(
        name, attributes=_without_none(attributes), record_exception=False, set_status_on_exception=False
    ) as opened:
        try:
            yield opened
        except BaseException as error:
            record_error(opened, error)
            raise


def set_attributes(span: Span, attributes: Attributes) -> None:
    """Set attributes; those that are None are left out."""
    if span.is_recording():
        span.set_attributes(_without_none(attributes))


def record_error(span: Span, error: BaseException) -> None:
    """Mark a span as failed: by the error's class, since its text may quote what a user wrote."""
    if not span.is_recording() or isinstance(error, BENIGN_EXITS):
        return
    mark_failed(span, error_type(error))
    if is_content_allowed():
        span.record_exception(error)


def mark_failed(span: Span, reason: str) -> None:
    """Mark a span as failed; the reason must hold no text of a user."""
    if span.is_recording():
        span.set_attribute(ERROR_TYPE, reason)
        span.set_status(Status(StatusCode.ERROR, reason))


def error_type(error: BaseException) -> str:
    """Return the name of an error's class, with its module unless that is this project's or Python's."""
    kind = type(error)
    known = kind.__module__ == "builtins" or kind.__module__.startswith("recall_loop.")
    return kind.__qualname__ if known else f"{kind.__module__}.{kind.__qualname__}"


@contextmanager
def allow_content(allowed: bool) -> Iterator[None]:
    """Allow user content in the spans of the block, or forbid it."""
    with use_context(contexts.set_value(_CONTENT, allowed)):
        yield


def is_content_allowed() -> bool:
    """Return whether user content may go into spans here."""
    return contexts.get_value(_CONTENT) is True


def set_content(span: Span, name: str, value: Any) -> None:
    """Set an attribute to user content, as JSON unless it is text; does nothing where content isn't allowed."""
    if span.is_recording() and is_content_allowed() and value is not None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        span.set_attribute(name, text.encode("utf-8", "backslashreplace").decode("utf-8"))


def trace_id(span: Span) -> str | None:
    """Return the id of the span's trace, as 32 hexadecimal digits; None where none is recorded."""
    context = span.get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None


def _without_none(attributes: Attributes) -> dict[str, AttributeValue]:
    return {name: value for name, value in attributes.items() if value is not None}
