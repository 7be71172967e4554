"""A fallback chain: from the strictest output method to the most lenient, within limits, with retries (LOOP-8)."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from recall_loop.llm.endpoint.circuit_breaker import Admission, EndpointHealth, Limits, Quirk, Usage
from recall_loop.llm.endpoint.failures import (
    CIRCUIT_OPENING_REASONS,
    CallError,
    Failure,
    FailureReason,
    call_error,
    class_names,
    classify_error,
    unclassified_error,
)
from recall_loop.llm.endpoint.wrapped_models import BoundModel
from recall_loop.llm.structured.ask_budget import AskBudget, CallPolicy
from recall_loop.llm.structured.call_bounds import call_bounds, reply_seconds
from recall_loop.llm.structured.llm_tracing import CallObserver, CallSpan
from recall_loop.llm.structured.model_calls import CallOutcome, ModelCall, TextListener, call_model, pause
from recall_loop.llm.structured.output_methods import (
    SCHEMA_METHODS,
    OutputMethod,
    OutputMethods,
    reply_schema,
)
from recall_loop.llm.structured.reply_parsing import parse_reply, parse_truncated_reply, validate_reply
from recall_loop.prompts.templates import RenderedPrompt
from recall_loop.telemetry.logs import log_failure
from recall_loop.telemetry.spans import use_context

_log = logging.getLogger(__name__)
T = TypeVar("T", bound=BaseModel)

# LangGraph hides the tokens of runs with this tag: partial JSON doesn't belong in a chat window.
_HIDDEN = "nostream"
# A call with less than this share of the timeout says nothing about the endpoint's health.
_FAIR_SHARE = 0.5
# Failures after which the server has read the prompt, and may charge for it.
_PROMPT_COUNTED_REASONS = frozenset(
    {FailureReason.TIMEOUT, FailureReason.TIME_LIMIT, FailureReason.EMPTY, FailureReason.ERROR}
)


@dataclass(frozen=True)
class ModelConnection:
    """A model, and all that is the same for every ask."""

    bound: BoundModel
    methods: OutputMethods
    endpoint: EndpointHealth
    observer: CallObserver
    policy: CallPolicy


@dataclass(frozen=True)
class ChatReply(Generic[T]):
    """A value, or the failure in its place, and the usage.

    `method` is the output method that gave the value, and `model` the name of its model. `attempts` has every call
    made: its method, and "ok" or the reason of its failure. A `cached` value cost nothing.
    """

    value: T | None
    failure: Failure | None
    usage: Usage
    method: str | None
    attempts: tuple[tuple[str, str], ...] = ()
    cached: bool = False
    model: str | None = None


class FallbackChain(Generic[T]):
    """One request: a prompt, a schema, and its budget."""

    def __init__(self, connection: ModelConnection, prompt: RenderedPrompt, schema: type[T], limits: Limits) -> None:
        self._connection, self._endpoint, self._policy = connection, connection.endpoint, connection.policy
        self._prompt, self._schema = prompt, schema
        self._budget = AskBudget(self._policy, limits, prompt, reply_schema(schema).tokens)
        self._trial = False
        self._streams = True

    def run(self, on_text: TextListener | None) -> ChatReply[T]:
        """Return the outcome. Raises only errors of the listener, or that the run was cancelled."""
        blocked = self._budget.limit_error()
        if blocked is not None:
            return self._failed(blocked)
        try:
            methods = tuple(self._methods())
        except Exception as error:  # noqa: BLE001 - a handed-in model may fail anywhere, not in its calls only
            return self._failed(unclassified_error(error))
        try:
            return self._try_methods(self._endpoint.methods_to_try(methods), on_text)
        finally:
            if self._trial:
                self._endpoint.release_trial()

    def _try_methods(self, plan: tuple[str, ...], on_text: TextListener | None) -> ChatReply[T]:
        refused: set[str] = set()
        last = call_error(FailureReason.UNSUPPORTED, "no output method works with this model")
        for name in plan:
            found = self._try_method(name, on_text)
            if not isinstance(found, CallError):
                self._endpoint.record_success(name)
                attempts, model = tuple(self._budget.attempts), self._connection.observer.name
                return ChatReply(found, None, self._budget.usage(), name, attempts, model=model)
            last = found
            if not found.try_next_method:
                return self._failed(found)
            if found.reason in (FailureReason.BAD_REQUEST, FailureReason.UNSUPPORTED):
                self._endpoint.record_refusal(name)
                refused.add(name)
        self._endpoint.record_failure(frozenset(refused), frozenset(plan))
        return self._failed(last)

    def _try_method(self, name: str, on_text: TextListener | None) -> T | CallError:
        """Ask with one method, with retries; return the value, or the error that ends the method."""
        while True:
            blocked = self._budget.limit_error() or self._circuit_error()
            if blocked is not None:
                return blocked
            try:
                call = self._call(name, on_text is not None)
            except Exception as error:  # noqa: BLE001 - the model's fields may be odd in any way
                return unclassified_error(error)
            outcome, found = self._attempt(name, call, on_text)
            if not isinstance(found, CallError):
                self._close_circuit()
                if not self._streams:
                    self._endpoint.learn_quirk("stream")
                if on_text is not None and not outcome.streamed:
                    on_text(found.model_dump_json())
                return found
            if found.unreadable and call.stream and not outcome.streamed:  # maybe it came in one piece
                self._streams = False
                continue
            if found.parameter is not None and self._endpoint.learn_quirk(found.parameter):
                self._close_circuit()
                continue
            seconds = None if self._trial else self._budget.pause(found)
            if seconds is None:
                self._record_error(found, call.seconds)
                return found
            pause(seconds)

    def _attempt(self, name: str, call: ModelCall, on_text: TextListener | None) -> tuple[CallOutcome, T | CallError]:
        """Make one call in a span of its own, and note how it ended."""
        with CallSpan(self._connection.observer, self._prompt.name, name, call) as watch:
            with use_context(watch.context):
                outcome = call_model(call, on_text)
            found = self._evaluate(outcome, call)
            with suppress(Exception):  # for an odd reply, which is used anyway
                watch.record_result(outcome.result, found)
        self._budget.attempts.append((name, found.reason.value if isinstance(found, CallError) else "ok"))
        return outcome, found

    def _circuit_error(self) -> CallError | None:
        """Return the error of an endpoint that is left alone; None if it may be called."""
        if self._trial:
            return None
        admitted = self._endpoint.admit(self._policy.clock(), self._budget.call_seconds())
        self._trial = admitted is Admission.HALF_OPEN
        if admitted is Admission.OPEN:
            return call_error(FailureReason.CIRCUIT_OPEN, "the endpoint failed recently and is not called for now")
        return None

    def _methods(self) -> dict[str, OutputMethod]:
        return self._connection.methods.for_schema(self._schema, self._endpoint.quirks)

    def _call(self, name: str, stream: bool) -> ModelCall:
        method, seconds, bounds = self._methods()[name], self._budget.call_seconds(), dict[str, Any]()
        quirks = self._endpoint.quirks
        if method.accepts_bounds:
            bounds = call_bounds(self._connection.bound, quirks, self._policy.reply_tokens, seconds)
        return ModelCall(
            method.runnable,
            self._messages(method),
            self._connection.bound.call_config(
                RunnableConfig(tags=[_HIDDEN], run_name=f"recall_loop.{self._prompt.name}")
            ),
            bounds,
            seconds,
            stream and method.accepts_bounds and self._streams and Quirk.NO_STREAM not in quirks,
        )

    def _messages(self, method: OutputMethod) -> list[BaseMessage]:
        """Return the prompt, including the schema unless the call sends it in another way."""
        system = self._prompt.system
        if method.name not in SCHEMA_METHODS and '"properties"' not in system:
            system += reply_schema(self._schema).text
        return [SystemMessage(system), HumanMessage(self._prompt.user)]

    def _evaluate(self, outcome: CallOutcome, call: ModelCall) -> T | CallError:
        """Return the value of a call's outcome, or its error, and count its tokens."""
        try:
            return self._read_outcome(outcome, call)
        except Exception as error:  # noqa: BLE001 - a reply, or an error's own text and fields, may be odd in any way
            self._budget.add_prompt()
            return unclassified_error(error)

    def _read_outcome(self, outcome: CallOutcome, call: ModelCall) -> T | CallError:
        reading = parse_reply(outcome.result) if outcome.error is None else parse_truncated_reply(outcome.error)
        if reading is not None:
            found = validate_reply(reading, self._schema)
            self._budget.add_reply(reading)
            return found
        speaks_openai = "BaseChatOpenAI" in class_names(self._connection.bound.model)
        form = "OpenAI's format" if speaks_openai else "the format of the model's provider"
        error = classify_error(outcome.error or TimeoutError(), form)
        if error.reason is FailureReason.ERROR:  # the failure's own words name no class
            log_failure(_log, "a model's call failed", outcome.error)
        if error.reason is FailureReason.TIMEOUT:
            error = self._too_late(call)
        if error.reason in _PROMPT_COUNTED_REASONS:
            self._budget.add_prompt()
        return error

    def _too_late(self, call: ModelCall) -> CallError:
        own = reply_seconds(call.bounds, call.seconds)
        if own < call.seconds:
            return call_error(FailureReason.TIMEOUT, f"no reply within {own:.3g} s")
        if call.seconds < self._policy.timeout_seconds:
            return call_error(FailureReason.TIME_LIMIT, f"no reply within the {call.seconds:.3g} s that remained")
        return call_error(FailureReason.TIMEOUT, f"no reply within {call.seconds:.3g} s")

    def _record_error(self, error: CallError, seconds: float) -> None:
        """Record the outcome of the call for the endpoint: tripped, answered, or not informative."""
        now, cooldown = self._policy.clock(), self._budget.cooldown(error)
        cut_short = error.reason is FailureReason.TIME_LIMIT
        if cut_short and seconds < _FAIR_SHARE * self._policy.timeout_seconds:
            if self._endpoint.record_short_timeout(now, cooldown, seconds):
                self._trial = False
        elif cut_short or error.reason in CIRCUIT_OPENING_REASONS or (self._trial and not error.alive):
            self._endpoint.open_circuit(now, cooldown)
            self._trial = False
        elif error.alive:
            self._close_circuit()

    def _close_circuit(self) -> None:
        self._endpoint.close_circuit()
        self._trial = False

    def _failed(self, error: CallError) -> ChatReply[T]:
        return ChatReply(None, error.failure, self._budget.usage(), None, tuple(self._budget.attempts))
