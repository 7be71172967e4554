"""The ladder: from the strictest way of asking to the most lenient, within limits, with retries (LOOP-8).

A generator without I/O. It yields calls and pauses and is sent their outcomes, so that one implementation serves
threads and event loops alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from recall_loop.llm.endpoint.call_limits import Limits, Usage
from recall_loop.llm.endpoint.circuit_breaker import Admission, EndpointHealth
from recall_loop.llm.endpoint.failures import (
    CIRCUIT_OPENING_REASONS,
    CallError,
    Failure,
    FailureReason,
    call_error,
    classify_error,
    unclassified_error,
)
from recall_loop.llm.structured.drivers import DriverStep, ModelCall, RetryPause, StepGenerator, StepOutcome, TextOutput
from recall_loop.llm.structured.llm_tracing import CallObserver, CallSpan
from recall_loop.llm.structured.output_methods import SCHEMA_METHODS, OutputMethod, OutputMethods, call_bounds
from recall_loop.llm.structured.output_schemas import reply_schema, reply_schema_tokens
from recall_loop.llm.structured.reply_parsing import ParsedReply, parse_reply, parse_truncated_reply, validate_reply
from recall_loop.prompts.templates import RenderedPrompt
from recall_loop.text.words.token_budget import estimate_tokens

T = TypeVar("T", bound=BaseModel)

# LangGraph hides the tokens of runs with this tag: half an object of JSON is nothing for a chat window.
_HIDDEN = "nostream"
# Tokens around each prompt that belong to no text: roles and separators of two messages.
_FRAME_TOKENS = 12
# A call that was given less than this share of the timeout says nothing about the endpoint's health.
_FAIR_SHARE = 0.5
# Where a request has less time than the timeout, a call gets this share, and at least so many seconds: the rest is
# for the search without the model.
_HURRIED_SHARE = 0.5
_MIN_SECONDS = 0.05
# Seconds that a server's Retry-After is waited out at most, and that it keeps the endpoint alone at most.
_MAX_WAIT = 5.0
_MAX_COOLDOWN = 300.0
# Failures before which the server has read the prompt, and may count it.
_PROMPT_COUNTED_REASONS = frozenset({FailureReason.TIMEOUT, FailureReason.TIME_LIMIT, FailureReason.ERROR})


@dataclass(frozen=True)
class CallPolicy:
    """How a door treats its endpoint: seconds, tokens and tries (see `Settings.llm_*`)."""

    timeout_seconds: float
    reply_tokens: int
    retries: int
    backoff_seconds: float
    cooldown_seconds: float
    clock: Callable[[], float]


@dataclass(frozen=True)
class ChainResult(Generic[T]):
    """What an ask came to: a value and the rung that gave it, or a failure; and what it cost."""

    value: T | None
    failure: Failure | None
    usage: Usage
    rung: str | None
    attempts: tuple[tuple[str, str], ...]


class FallbackChain(Generic[T]):
    """One ask: a prompt, a schema, and what may be spent on it."""

    def __init__(
        self,
        model: BaseChatModel,
        rungs: OutputMethods,
        endpoint: EndpointHealth,
        conduct: CallPolicy,
        prompt: RenderedPrompt,
        schema: type[T],
        limits: Limits,
        *,
        observer: CallObserver,
    ) -> None:
        self._model = model
        self._observer = observer
        self._methods = rungs
        self._endpoint = endpoint
        self._call_policy = conduct
        self._prompt = prompt
        self._schema = schema
        self._limits = limits
        self._started = conduct.clock()
        self._tokens = 0
        self._retries = conduct.retries
        self._trial = False
        self._attempts: list[tuple[str, str]] = []
        self._read = (
            estimate_tokens(prompt.system) + estimate_tokens(prompt.user) + reply_schema_tokens(schema) + _FRAME_TOKENS
        )

    def steps(self, stream: bool) -> StepGenerator[ChainResult[T]]:
        """Climb: yield the calls and pauses, and return what came of them. It raises nothing."""
        try:
            return (yield from self._try_methods(stream))
        except Exception as error:  # noqa: BLE001 - a handed-in model may fail anywhere, not in its calls only
            return self._failed(unclassified_error(error))

    def _try_methods(self, stream: bool) -> StepGenerator[ChainResult[T]]:
        barred = self._limit_error()
        if barred is not None:
            return self._failed(barred)
        ladder = self._methods.for_schema(self._schema, self._endpoint.quirks)
        refused: set[str] = set()
        plan = self._endpoint.methods_to_try(tuple(ladder))
        last = call_error(FailureReason.UNSUPPORTED, "the model can't be asked in any way")
        try:
            for name in plan:
                found = yield from self._try_method(name, stream)
                if not isinstance(found, CallError):
                    self._endpoint.record_success(name)
                    return ChainResult(found, None, self._usage(), name, tuple(self._attempts))
                last = found
                if not found.try_next_method:
                    return self._failed(found)
                if found.reason in (FailureReason.BAD_REQUEST, FailureReason.UNSUPPORTED):
                    self._endpoint.record_refusal(name)
                    refused.add(name)
            self._endpoint.record_failure(frozenset(refused), frozenset(plan))
            return self._failed(last)
        finally:
            if self._trial:
                self._endpoint.release_trial()

    def _try_method(self, name: str, stream: bool) -> Generator[DriverStep, StepOutcome, T | CallError]:
        """Ask on one rung, with retries; return the value, or the trouble that ends the rung."""
        while True:
            barred = self._limit_error() or self._circuit_error()
            if barred is not None:
                return barred
            call = self._call(name, stream)
            with self._watch(call, name) as watch:
                outcome = yield replace(call, context=watch.context)
                found = self._evaluate(outcome, call)
                watch.record_result(outcome.result, found)
            self._attempts.append((name, found.reason.value if isinstance(found, CallError) else "ok"))
            if not isinstance(found, CallError):
                self._close_circuit()
                if stream and not outcome.streamed:
                    yield TextOutput(found.model_dump_json())
                return found
            if found.parameter is not None and self._endpoint.learn_quirk(found.parameter):
                self._close_circuit()
                continue
            pause = self._pause(found)
            if pause is None:
                self._record_error(found, call.seconds)
                return found
            yield RetryPause(pause)

    def _limit_error(self) -> CallError | None:
        """Return which limit leaves no room for a further call; None if there is room."""
        if len(self._attempts) >= self._limits.calls:
            return call_error(FailureReason.CALL_LIMIT, f"no call left of {self._limits.calls}")
        need = self._read + self._call_policy.reply_tokens
        if self._tokens + need > self._limits.tokens:
            left = max(0, self._limits.tokens - self._tokens)
            return call_error(FailureReason.TOKEN_LIMIT, f"about {need} tokens needed, {left} left")
        if self._seconds_left() <= 0:
            return call_error(FailureReason.TIME_LIMIT, f"no time left of {max(0.0, self._limits.seconds):.3g} s")
        return None

    def _circuit_error(self) -> CallError | None:
        """Return the trouble of an endpoint that is left alone; None if it may be called."""
        if self._trial:
            return None
        admitted = self._endpoint.admit(self._call_policy.clock(), self._seconds())
        self._trial = admitted is Admission.HALF_OPEN
        if admitted is Admission.OPEN:
            return call_error(FailureReason.CIRCUIT_OPEN, "the endpoint failed a moment ago and is left alone")
        return None

    def _call(self, name: str, stream: bool) -> ModelCall:
        quirks = self._endpoint.quirks
        rung = self._methods.for_schema(self._schema, quirks)[name]
        seconds = self._seconds()
        held = call_bounds(self._model, quirks, self._call_policy.reply_tokens, seconds) if rung.accepts_bounds else {}
        config = RunnableConfig(tags=[_HIDDEN], run_name=f"recall_loop.{self._prompt.name}")
        streams = stream and rung.accepts_bounds
        return ModelCall(
            rung.runnable, self._messages(rung), config, held, seconds, streams, self._methods.threaded(streams)
        )

    def _watch(self, call: ModelCall, rung: str) -> CallSpan:
        return self._observer.call(
            step=self._prompt.name, rung=rung, messages=call.messages, bounds=call.bounds, stream=call.stream
        )

    def _messages(self, rung: OutputMethod) -> list[BaseMessage]:
        """Return the prompt, with the schema in it where the call doesn't send it in another way."""
        system = self._prompt.system
        if rung.name not in SCHEMA_METHODS and '"properties"' not in system:
            system += reply_schema(self._schema).text
        return [SystemMessage(system), HumanMessage(self._prompt.user)]

    def _evaluate(self, outcome: StepOutcome, call: ModelCall) -> T | CallError:
        """Return the value of a call's outcome, or its trouble, and count its tokens."""
        try:
            return self._read_outcome(outcome, call)
        except Exception as error:  # noqa: BLE001 - a reply, or an error's own text and fields, may be odd in any way
            self._tokens += self._read
            return unclassified_error(error)

    def _read_outcome(self, outcome: StepOutcome, call: ModelCall) -> T | CallError:
        reading = parse_reply(outcome.result) if outcome.error is None else parse_truncated_reply(outcome.error)
        if reading is not None:
            found, cost = validate_reply(reading, self._schema), self._cost(reading)
            self._tokens += cost
            return found
        trouble = classify_error(outcome.error or TimeoutError())
        if trouble.reason is FailureReason.TIMEOUT:
            trouble = self._too_late(call)
        if trouble.reason in _PROMPT_COUNTED_REASONS:
            self._tokens += self._read
        return trouble

    def _too_late(self, call: ModelCall) -> CallError:
        if call.seconds < self._call_policy.timeout_seconds:
            return call_error(FailureReason.TIME_LIMIT, f"no reply within the {call.seconds:.3g} s that there were")
        return call_error(FailureReason.TIMEOUT, f"no reply within {call.seconds:.3g} s")

    def _cost(self, reading: ParsedReply) -> int:
        """Return the server's count of tokens, else an estimate."""
        if reading.tokens:
            return reading.tokens
        written = reading.text or "".join(str(found) for found in reading.objects)
        return self._read + estimate_tokens(written)

    def _pause(self, trouble: CallError) -> float | None:
        """Return the seconds to wait before the same call again; None if it is not to be made again."""
        if not trouble.retry or self._trial or self._retries <= 0:
            return None
        doubled = 2.0 ** (self._call_policy.retries - self._retries)
        pause = self._call_policy.backoff_seconds * doubled * random.uniform(0.5, 1.0)
        if trouble.retry_after is not None:
            if trouble.retry_after > self._max_wait:
                return None
            pause = max(pause, trouble.retry_after)
        if pause >= self._seconds_left() or len(self._attempts) >= self._limits.calls:
            return None
        self._retries -= 1
        return pause

    def _record_error(self, trouble: CallError, seconds: float) -> None:
        """Tell the endpoint's memory how the call went: tripped, answered, or nothing to be learnt."""
        now, cooldown = self._call_policy.clock(), self._cooldown(trouble)
        cut_short = trouble.reason is FailureReason.TIME_LIMIT
        if cut_short and seconds < _FAIR_SHARE * self._call_policy.timeout_seconds:
            if self._endpoint.record_short_timeout(now, cooldown, seconds):
                self._trial = False
        elif cut_short or trouble.reason in CIRCUIT_OPENING_REASONS or (self._trial and not trouble.alive):
            self._endpoint.open_circuit(now, cooldown)
            self._trial = False
        elif trouble.alive:
            self._close_circuit()

    def _close_circuit(self) -> None:
        self._endpoint.close_circuit()
        self._trial = False

    @property
    def _max_wait(self) -> float:
        return min(self._call_policy.timeout_seconds, _MAX_WAIT)

    def _cooldown(self, trouble: CallError) -> float:
        """Return how long the endpoint is left alone: as long as it says, where that is too long to wait."""
        if trouble.retry_after is None or trouble.retry_after <= self._max_wait:
            return self._call_policy.cooldown_seconds
        return min(trouble.retry_after, _MAX_COOLDOWN)

    def _seconds(self) -> float:
        """Return what the next call may take."""
        most = self._call_policy.timeout_seconds
        if self._limits.seconds < most:
            most = max(_HURRIED_SHARE * self._limits.seconds, _MIN_SECONDS)
        return min(most, self._seconds_left())

    def _seconds_left(self) -> float:
        return self._limits.seconds - (self._call_policy.clock() - self._started)

    def _usage(self) -> Usage:
        return Usage(len(self._attempts), self._tokens, self._call_policy.clock() - self._started)

    def _failed(self, trouble: CallError) -> ChainResult[T]:
        return ChainResult(None, trouble.failure, self._usage(), None, tuple(self._attempts))
