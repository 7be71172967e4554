"""Log lines for people or for machines, through standard logging (OPS-3).

As a library the project only writes to loggers below `recall_loop`, and leaves it to the application where that goes.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from opentelemetry import trace

from recall_loop.telemetry.spans import error_type

ROOT = "recall_loop"
# Fields of every record; the others were passed with it. `color_message` repeats uvicorn's event in colours.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
logging.getLogger(ROOT).addHandler(logging.NullHandler())


def log_failure(log: logging.Logger, what: str, error: BaseException | None, **fields: object) -> None:
    """Warn that something failed, in the line itself and as a field by the error's class; its text may quote users."""
    kind = type(error).__name__
    log.warning("%s: %s", what, kind, extra={**fields, "error_type": kind})


class _StderrHandler(logging.Handler):
    """Writes to the process's present standard error, which tests and servers replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody reads the output any more
            self.handleError(record)


def start_logging(log_format: str, log_level: str, *, content: bool = False) -> Callable[[], None]:
    """Write the whole process's log to standard error; return a function that undoes this.

    `log_format` is console or json. `log_level` (debug, info, warning, error) counts for this project's own lines;
    others' appear from warning on: below, they may quote what users wrote. So may the text of an exception, which is
    written with `content` only; its class and where it came from always are.
    """
    handler = _StderrHandler()
    handler.setFormatter(make_formatter(log_format, content=content))
    root, own = logging.getLogger(), logging.getLogger(ROOT)
    before = own.level
    root.addHandler(handler)
    own.setLevel(log_level.upper())

    def undo() -> None:
        root.removeHandler(handler)
        own.setLevel(before)

    return undo


def make_formatter(log_format: str, *, content: bool = False) -> logging.Formatter:
    """Return the formatter of a log's lines; see `start_logging`."""
    return JsonFormatter(content=content) if log_format == "json" else ConsoleFormatter(content=content)


class QueryStringFilter(logging.Filter):
    """Removes the query string from addresses in uvicorn's access log: filters and cursors are a user's words."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; none is dropped."""
        if isinstance(record.args, tuple):
            record.args = tuple(arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args)
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line: timestamp, level, logger, event, the fields given with it, trace, exception."""

    def __init__(self, *, content: bool = False) -> None:
        super().__init__()
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return json.dumps(self.fields(record), default=str)

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the line's fields; those given with the record don't replace timestamp, level, logger or event."""
        fields: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        given = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        fields = fields | _trace_ids() | given | fields
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = self._exception(record.exc_info[1])
        return fields

    def _exception(self, error: BaseException) -> list[str]:
        """Return the exception and its causes, each with its stack; never with the values of variables."""
        lines: list[str] = []
        for each in _chain(error):
            lines.append(f"{error_type(each)}: {each}" if self._content else error_type(each))
            stack = traceback.extract_tb(each.__traceback__)
            lines += [f"  {frame.filename}:{frame.lineno} {frame.name}" for frame in stack]
        return lines


class ConsoleFormatter(JsonFormatter):
    """One line to read: time, level, event, logger, then `name=value` of each field; an exception follows."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; control characters are shown as escapes, so that no value looks like a line of its own."""
        fields = self.fields(record)
        exception = fields.pop("exception", [])
        head = f"{fields.pop('timestamp')} {fields.pop('level'):<7} {fields.pop('event')} [{fields.pop('logger')}]"
        rest = (f"{name}={json.dumps(value, default=str, ensure_ascii=False)}" for name, value in fields.items())
        return "\n".join(map(_printable, [" ".join([head, *rest]), *exception]))


def _chain(error: BaseException) -> list[BaseException]:
    """Return an exception and its causes, each once."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and all(cause is not known for known in chain):
        chain.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return chain


def _trace_ids() -> dict[str, Any]:
    """Return the ids of the current span, where one is recorded."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
