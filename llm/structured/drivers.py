"""The steps of a fallback chain, and the two drivers that carry them out: in a thread, and on an event loop.

The chain itself does no I/O: it yields steps and is sent their outcomes. A call takes at most its seconds on the wall
clock, whatever the model's library does: a reply that stalls in the middle ends too.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import aclosing, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from opentelemetry.context import Context

from recall_loop.llm.structured.reply_parsing import message_text
from recall_loop.state.run.cancellation import cancellation_event, raise_if_cancelled
from recall_loop.telemetry.spans import use_context

R = TypeVar("R")
TextListener = Callable[[str], None]
# How often a run that can be cancelled checks whether it was, while it waits for the model.
_CANCELLATION_POLL_SECONDS = 0.1
# Connections of an event loop that is over, which the model's client may still keep.
_STALE_CONNECTIONS = 20


@dataclass(frozen=True)
class ModelCall:
    """One call of the model, of at most `seconds`; `stream` where somebody listens to the growing text.

    `threaded` says that the model has no asynchronous way of its own. `context` is the trace that it belongs to.
    """

    runnable: Runnable[Any, Any]
    messages: list[BaseMessage]
    config: RunnableConfig
    bounds: dict[str, Any]
    seconds: float
    stream: bool
    threaded: bool = False
    context: Context | None = None


@dataclass(frozen=True)
class RetryPause:
    """A wait before a further try."""

    seconds: float


@dataclass(frozen=True)
class TextOutput:
    """The whole text of a reply that did not come in pieces, for whoever listens."""

    text: str


@dataclass
class StepOutcome:
    """What came of a step: a result, or the error that the model raised; `streamed` if text was heard on the way."""

    result: Any = None
    error: Exception | None = None
    streamed: bool = False


DriverStep = ModelCall | RetryPause | TextOutput
OutcomeSink = Callable[[str | StepOutcome], None]
StepGenerator = Generator[DriverStep, StepOutcome, R]


@dataclass
class _StreamBuffer:
    """The pieces of a streamed reply."""

    pieces: list[Any] = field(default_factory=list)
    text: str = ""

    def add(self, piece: Any) -> bool:
        """Take a piece; True if it has text."""
        self.pieces.append(piece)
        said = message_text(piece) if isinstance(piece, BaseMessage) else ""
        self.text += said
        return bool(said)

    def whole(self) -> Any:
        """Return the reply that the pieces make."""
        first, *others = self.pieces or [None]
        if isinstance(first, AIMessageChunk):
            return first + cast(Any, others) if others else first
        for piece in others:
            first = first + piece
        return first


@contextmanager
def _capturing_error(outcome: StepOutcome) -> Iterator[None]:
    """Put what the model raises into `outcome`."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a handed-in model may raise any vendor's error; the step falls back
        outcome.error = error


def drive(steps: StepGenerator[R], on_text: TextListener | None) -> R:
    """Drive a chain in this thread; each call has a thread of its own, so that it can be left behind."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, ModelCall):
                with use_context(step.context):
                    outcome = _call(step, on_text)
                step = steps.send(outcome)
                continue
            if isinstance(step, RetryPause):
                _sleep(step.seconds)
            elif on_text is not None:
                on_text(step.text)
            step = steps.send(StepOutcome())
    except StopIteration as done:
        return cast(R, done.value)
    finally:
        steps.close()


async def adrive(steps: StepGenerator[R], on_text: TextListener | None) -> R:
    """Drive a chain on the running event loop."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, ModelCall):
                with use_context(step.context):
                    outcome = await _acall(step, on_text)
                step = steps.send(outcome)
                continue
            if isinstance(step, RetryPause):
                await asyncio.sleep(step.seconds)
            elif on_text is not None:
                on_text(step.text)
            step = steps.send(StepOutcome())
    except StopIteration as done:
        return cast(R, done.value)
    finally:
        steps.close()


def _call(call: ModelCall, on_text: TextListener | None) -> StepOutcome:
    """Make a call and wait for it; the listener is called in the waiting thread."""
    heard: queue.SimpleQueue[str | StepOutcome] = queue.SimpleQueue()
    left = _start(call, heard.put)
    end = time.monotonic() + call.seconds
    try:
        while (seconds := end - time.monotonic()) > 0:
            said = _next(heard, seconds)
            if isinstance(said, StepOutcome):
                return said
            if said and on_text is not None:
                on_text(said)
        return StepOutcome(error=TimeoutError())
    finally:
        left.set()


def _sleep(seconds: float) -> None:
    """Wait, unless the run is cancelled."""
    event = cancellation_event()
    if event is None:
        time.sleep(seconds)
    else:
        event.wait(seconds)
        raise_if_cancelled()


def _next(heard: queue.SimpleQueue[str | StepOutcome], seconds: float) -> str | StepOutcome:
    """Return what is heard next; nothing after `seconds`, or after the longest wait that Python takes.

    Raises:
        RunCancelledError: the run was cancelled.
    """
    raise_if_cancelled()
    longest = threading.TIMEOUT_MAX if cancellation_event() is None else _CANCELLATION_POLL_SECONDS
    try:
        return heard.get(timeout=min(seconds, longest))
    except queue.Empty:
        return ""


def _start(call: ModelCall, put: OutcomeSink) -> threading.Event:
    """Start a call in a thread of its own, and return the event that tells the thread that nobody waits any more.

    A daemon: neither the interpreter's end nor the event loop's waits for a call that hangs.
    """
    left = threading.Event()
    # The copied context carries the callbacks of a surrounding graph.
    work = contextvars.copy_context().run
    thread = threading.Thread(target=work, args=(_run_call, call, put, left), name="recall-loop-llm", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the system has no thread left
        put(StepOutcome(error=error))
    return left


def _run_call(call: ModelCall, put: OutcomeSink, left: threading.Event) -> None:
    """Make a call in its own thread; between the pieces of a stream see whether anybody still waits."""
    outcome = StepOutcome()
    try:
        with _capturing_error(outcome):
            if call.stream:
                _stream(call, outcome, put, left)
            else:
                outcome.result = call.runnable.invoke(call.messages, call.config, **call.bounds)
    finally:
        put(outcome)


def _stream(call: ModelCall, outcome: StepOutcome, put: OutcomeSink, left: threading.Event) -> None:
    growing = _StreamBuffer()
    stream = cast(Generator[Any, None, None], call.runnable.stream(call.messages, call.config, **call.bounds))
    with closing(stream):
        for piece in stream:
            if left.is_set():
                return
            if growing.add(piece):
                outcome.streamed = True
                put(growing.text)
    outcome.result = growing.whole()


async def _acall(call: ModelCall, on_text: TextListener | None) -> StepOutcome:
    """Make a call on the event loop, or beside it where the model would only block a thread of the loop's."""
    if call.threaded:
        return await _call_in_thread(call, on_text)
    outcome = StepOutcome()
    for _ in range(_STALE_CONNECTIONS):
        outcome = await _call_on_loop(call, on_text)
        if not _is_stale(outcome.error):
            break
    return outcome


def _is_stale(error: Exception | None) -> bool:
    """Tell whether a kept connection belongs to an event loop that is over: nothing was sent, and the next is fresh."""
    return isinstance(error, RuntimeError) and error.args == ("Event loop is closed",)


async def _call_in_thread(call: ModelCall, on_text: TextListener | None) -> StepOutcome:
    """Make a call in a thread of its own, and wait for it on the event loop."""
    loop, heard = asyncio.get_running_loop(), asyncio.Queue[str | StepOutcome]()

    def put(said: str | StepOutcome) -> None:
        # The loop may be over before a call that was left behind comes back.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(heard.put_nowait, said)

    left, end = _start(call, put), loop.time() + call.seconds
    try:
        while (seconds := end - loop.time()) > 0:
            try:
                said = await asyncio.wait_for(heard.get(), seconds)
            except TimeoutError:
                break
            if isinstance(said, StepOutcome):
                return said
            if on_text is not None:
                on_text(said)
        return StepOutcome(error=TimeoutError())
    finally:
        left.set()


async def _call_on_loop(call: ModelCall, on_text: TextListener | None) -> StepOutcome:
    """Make a call on the event loop."""
    outcome, heard = StepOutcome(), _GuardedListener(on_text)
    try:
        with _capturing_error(outcome):
            async with asyncio.timeout(call.seconds):
                if call.stream:
                    await _astream(call, outcome, heard)
                else:
                    outcome.result = await call.runnable.ainvoke(call.messages, call.config, **call.bounds)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        outcome.error = RuntimeError()  # something inside the model was cancelled, and not the task that asks
    if heard.error is not None:
        raise heard.error
    return outcome


async def _astream(call: ModelCall, outcome: StepOutcome, heard: _GuardedListener) -> None:
    growing = _StreamBuffer()
    stream = cast(Any, call.runnable.astream(call.messages, call.config, **call.bounds))
    async with aclosing(stream):
        async for piece in stream:
            if growing.add(piece):
                outcome.streamed = True
                heard(growing.text)
    outcome.result = growing.whole()


class _GuardedListener:
    """The listener, whose own errors are the caller's and not the model's."""

    def __init__(self, on_text: TextListener | None) -> None:
        self._on_text = on_text
        self.error: Exception | None = None

    def __call__(self, text: str) -> None:
        try:
            if self._on_text is not None:
                self._on_text(text)
        except Exception as error:
            self.error = error
            raise
