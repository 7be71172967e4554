"""One call of a chat model, bounded in time, and the wait before another.

A call takes at most its seconds on the wall clock, whatever the model's library does: a reply that stalls in the middle
ends too.
"""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, cast

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from recall_loop.llm.structured.reply_parsing import MAX_REPLY_CHARACTERS, message_text
from recall_loop.state.run.cancellation import cancellation_event, raise_if_cancelled

TextListener = Callable[[str], None]
# Interval at which a cancellable run checks for cancellation while it waits for the model.
_CANCELLATION_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class ModelCall:
    """One call of the model, of at most `seconds`; `stream` if a listener wants the partial text."""

    runnable: Runnable[Any, Any]
    messages: list[BaseMessage]
    config: RunnableConfig
    bounds: dict[str, Any]
    seconds: float
    stream: bool


@dataclass
class CallOutcome:
    """The outcome of a call: a result, or the error that the model raised; `streamed` if text was heard on the way."""

    result: Any = None
    error: Exception | None = None
    streamed: bool = False


OutcomeSink = Callable[[str | CallOutcome], None]


def call_model(call: ModelCall, on_text: TextListener | None) -> CallOutcome:
    """Make a call in a separate thread, which can be abandoned, and wait for it; `on_text` is called in this one.

    Raises `RunCancelledError` where the run was cancelled, and whatever the listener raises.
    """
    heard: queue.SimpleQueue[str | CallOutcome] = queue.SimpleQueue()
    left = _start(call, heard.put)
    end = time.monotonic() + call.seconds
    try:
        while (seconds := end - time.monotonic()) > 0:
            said = _next(heard, seconds)
            if isinstance(said, CallOutcome):
                return said
            if said and on_text is not None:
                on_text(said)
        return CallOutcome(error=TimeoutError())
    finally:
        left.set()


def pause(seconds: float) -> None:
    """Wait, unless the run is cancelled: that raises `RunCancelledError`."""
    event = cancellation_event()
    if event is None:
        time.sleep(seconds)
    else:
        event.wait(seconds)
        raise_if_cancelled()


def _next(heard: queue.SimpleQueue[str | CallOutcome], seconds: float) -> str | CallOutcome:
    """Return the next message; none after `seconds`, or the longest wait that Python allows. A cancelled run raises."""
    raise_if_cancelled()
    longest = threading.TIMEOUT_MAX if cancellation_event() is None else _CANCELLATION_POLL_SECONDS
    try:
        return heard.get(timeout=min(seconds, longest))
    except queue.Empty:
        return ""


def _start(call: ModelCall, put: OutcomeSink) -> threading.Event:
    """Start a call in a daemon thread, which may hang; return the event that says that nobody waits any more."""
    left = threading.Event()
    # The copied context carries the callbacks of a surrounding graph.
    work = contextvars.copy_context().run
    thread = threading.Thread(target=work, args=(_run_call, call, put, left), name="recall-loop-llm", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the system can't start another thread
        put(CallOutcome(error=error))
    return left


def _run_call(call: ModelCall, put: OutcomeSink, left: threading.Event) -> None:
    """Make a call in its own thread; between the pieces of a stream see whether anybody still waits."""
    outcome = CallOutcome()
    try:
        if call.stream:
            _stream(call, outcome, put, left)
        else:
            outcome.result = call.runnable.invoke(call.messages, call.config, **call.bounds)
    except Exception as error:  # noqa: BLE001 - a handed-in model may raise any vendor's error; the step falls back
        outcome.error = error
    finally:
        put(outcome)


def _stream(call: ModelCall, outcome: CallOutcome, put: OutcomeSink, left: threading.Event) -> None:
    pieces, text = list[Any](), ""
    stream = cast(Generator[Any, None, None], call.runnable.stream(call.messages, call.config, **call.bounds))
    with closing(stream):
        for piece in stream:
            if left.is_set():
                return
            pieces.append(piece)
            if isinstance(piece, BaseMessage) and (said := message_text(piece)):
                text += said
                outcome.streamed = True
                put(text)
            if len(text) > MAX_REPLY_CHARACTERS:  # a server that ignores the token limit
                break
    first, *others = pieces or [None]
    all_at_once = others and isinstance(first, AIMessageChunk)
    outcome.result = first + cast(Any, others) if all_at_once else reduce(add, others, first)
