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
from recall_loop.llm.endpoint.circuit_breaker import Admission, Endpoint
from recall_loop.llm.endpoint.failures import TRIPPING, Failure, FailureReason, Trouble, classify, odd, trouble_of
from recall_loop.llm.structured.drivers import Call, Outcome, Pause, Say, Step, Steps
from recall_loop.llm.structured.llm_tracing import CallWatch, Observer
from recall_loop.llm.structured.output_methods import SENDS_SCHEMA, Rung, Rungs, bounds
from recall_loop.llm.structured.output_schemas import shape_of, shape_tokens
from recall_loop.llm.structured.reply_parsing import Reading, read, read_cut_off, validated
from recall_loop.prompts.templates import Prompt
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
_LEAST_SECONDS = 0.05
# Seconds that a server's Retry-After is waited out at most, and that it keeps the endpoint alone at most.
_LONGEST_WAIT = 5.0
_LONGEST_COOLDOWN = 300.0
# Failures before which the server has read the prompt, and may count it.
_READ_FIRST = frozenset({FailureReason.TIMEOUT, FailureReason.TIME_LIMIT, FailureReason.ERROR})


@dataclass(frozen=True)
class Conduct:
    """How a door treats its endpoint: seconds, tokens and tries (see `Settings.llm_*`)."""

    timeout_seconds: float
    reply_tokens: int
    retries: int
    backoff_seconds: float
    cooldown_seconds: float
    clock: Callable[[], float]


@dataclass(frozen=True)
class Answered(Generic[T]):
    """What an ask came to: a value and the rung that gave it, or a failure; and what it cost."""

    value: T | None
    failure: Failure | None
    usage: Usage
    rung: str | None
    attempts: tuple[tuple[str, str], ...]


class Ladder(Generic[T]):
    """One ask: a prompt, a schema, and what may be spent on it."""

    def __init__(
        self,
        model: BaseChatModel,
        rungs: Rungs,
        endpoint: Endpoint,
        conduct: Conduct,
        prompt: Prompt,
        schema: type[T],
        limits: Limits,
        *,
        observer: Observer,
    ) -> None:
        self._model = model
        self._observer = observer
        self._rungs = rungs
        self._endpoint = endpoint
        self._conduct = conduct
        self._prompt = prompt
        self._schema = schema
        self._limits = limits
        self._started = conduct.clock()
        self._tokens = 0
        self._retries = conduct.retries
        self._trial = False
        self._attempts: list[tuple[str, str]] = []
        self._read = (
            estimate_tokens(prompt.system) + estimate_tokens(prompt.user) + shape_tokens(schema) + _FRAME_TOKENS
        )

    def steps(self, stream: bool) -> Steps[Answered[T]]:
        """Climb: yield the calls and pauses, and return what came of them. It raises nothing."""
        try:
            return (yield from self._climb(stream))
        except Exception as error:  # noqa: BLE001 - a handed-in model may fail anywhere, not in its calls only
            return self._failed(odd(error))

    def _climb(self, stream: bool) -> Steps[Answered[T]]:
        barred = self._spent()
        if barred is not None:
            return self._failed(barred)
        ladder = self._rungs.of(self._schema, self._endpoint.quirks)
        refused: set[str] = set()
        plan = self._endpoint.plan(tuple(ladder))
        last = trouble_of(FailureReason.UNSUPPORTED, "the model can't be asked in any way")
        try:
            for name in plan:
                found = yield from self._rung(name, stream)
                if not isinstance(found, Trouble):
                    self._endpoint.works(name)
                    return Answered(found, None, self._usage(), name, tuple(self._attempts))
                last = found
                if not found.next_rung:
                    return self._failed(found)
                if found.reason in (FailureReason.BAD_REQUEST, FailureReason.UNSUPPORTED):
                    self._endpoint.refuses(name)
                    refused.add(name)
            self._endpoint.fails(frozenset(refused), frozenset(plan))
            return self._failed(last)
        finally:
            if self._trial:
                self._endpoint.give_back()

    def _rung(self, name: str, stream: bool) -> Generator[Step, Outcome, T | Trouble]:
        """Ask on one rung, with retries; return the value, or the trouble that ends the rung."""
        while True:
            barred = self._spent() or self._closed()
            if barred is not None:
                return barred
            call = self._call(name, stream)
            with self._watch(call, name) as watch:
                outcome = yield replace(call, context=watch.context)
                found = self._judged(outcome, call)
                watch.told(outcome.result, found)
            self._attempts.append((name, found.reason.value if isinstance(found, Trouble) else "ok"))
            if not isinstance(found, Trouble):
                self._settle_alive()
                if stream and not outcome.streamed:
                    yield Say(found.model_dump_json())
                return found
            if found.parameter is not None and self._endpoint.adapt(found.parameter):
                self._settle_alive()
                continue
            pause = self._pause(found)
            if pause is None:
                self._settle(found, call.seconds)
                return found
            yield Pause(pause)

    def _spent(self) -> Trouble | None:
        """Return which limit leaves no room for a further call; None if there is room."""
        if len(self._attempts) >= self._limits.calls:
            return trouble_of(FailureReason.CALL_LIMIT, f"no call left of {self._limits.calls}")
        need = self._read + self._conduct.reply_tokens
        if self._tokens + need > self._limits.tokens:
            left = max(0, self._limits.tokens - self._tokens)
            return trouble_of(FailureReason.TOKEN_LIMIT, f"about {need} tokens needed, {left} left")
        if self._seconds_left() <= 0:
            return trouble_of(FailureReason.TIME_LIMIT, f"no time left of {max(0.0, self._limits.seconds):.3g} s")
        return None

    def _closed(self) -> Trouble | None:
        """Return the trouble of an endpoint that is left alone; None if it may be called."""
        if self._trial:
            return None
        admitted = self._endpoint.admit(self._conduct.clock(), self._seconds())
        self._trial = admitted is Admission.TRIAL
        if admitted is Admission.OPEN:
            return trouble_of(FailureReason.CIRCUIT_OPEN, "the endpoint failed a moment ago and is left alone")
        return None

    def _call(self, name: str, stream: bool) -> Call:
        quirks = self._endpoint.quirks
        rung = self._rungs.of(self._schema, quirks)[name]
        seconds = self._seconds()
        held = bounds(self._model, quirks, self._conduct.reply_tokens, seconds) if rung.takes_bounds else {}
        config = RunnableConfig(tags=[_HIDDEN], run_name=f"recall_loop.{self._prompt.name}")
        streams = stream and rung.takes_bounds
        return Call(rung.runnable, self._messages(rung), config, held, seconds, streams, self._rungs.threaded(streams))

    def _watch(self, call: Call, rung: str) -> CallWatch:
        return self._observer.call(
            step=self._prompt.name, rung=rung, messages=call.messages, bounds=call.bounds, stream=call.stream
        )

    def _messages(self, rung: Rung) -> list[BaseMessage]:
        """Return the prompt, with the schema in it where the call doesn't send it in another way."""
        system = self._prompt.system
        if rung.name not in SENDS_SCHEMA and '"properties"' not in system:
            system += shape_of(self._schema).text
        return [SystemMessage(system), HumanMessage(self._prompt.user)]

    def _judged(self, outcome: Outcome, call: Call) -> T | Trouble:
        """Return the value of a call's outcome, or its trouble, and count its tokens."""
        try:
            return self._told(outcome, call)
        except Exception as error:  # noqa: BLE001 - a reply, or an error's own text and fields, may be odd in any way
            self._tokens += self._read
            return odd(error)

    def _told(self, outcome: Outcome, call: Call) -> T | Trouble:
        reading = read(outcome.result) if outcome.error is None else read_cut_off(outcome.error)
        if reading is not None:
            found, cost = validated(reading, self._schema), self._cost(reading)
            self._tokens += cost
            return found
        trouble = classify(outcome.error or TimeoutError())
        if trouble.reason is FailureReason.TIMEOUT:
            trouble = self._too_late(call)
        if trouble.reason in _READ_FIRST:
            self._tokens += self._read
        return trouble

    def _too_late(self, call: Call) -> Trouble:
        if call.seconds < self._conduct.timeout_seconds:
            return trouble_of(FailureReason.TIME_LIMIT, f"no reply within the {call.seconds:.3g} s that there were")
        return trouble_of(FailureReason.TIMEOUT, f"no reply within {call.seconds:.3g} s")

    def _cost(self, reading: Reading) -> int:
        """Return the server's count of tokens, else an estimate."""
        if reading.tokens:
            return reading.tokens
        written = reading.text or "".join(str(found) for found in reading.objects)
        return self._read + estimate_tokens(written)

    def _pause(self, trouble: Trouble) -> float | None:
        """Return the seconds to wait before the same call again; None if it is not to be made again."""
        if not trouble.retry or self._trial or self._retries <= 0:
            return None
        doubled = 2.0 ** (self._conduct.retries - self._retries)
        pause = self._conduct.backoff_seconds * doubled * random.uniform(0.5, 1.0)
        if trouble.retry_after is not None:
            if trouble.retry_after > self._patience:
                return None
            pause = max(pause, trouble.retry_after)
        if pause >= self._seconds_left() or len(self._attempts) >= self._limits.calls:
            return None
        self._retries -= 1
        return pause

    def _settle(self, trouble: Trouble, seconds: float) -> None:
        """Tell the endpoint's memory how the call went: tripped, answered, or nothing to be learnt."""
        now, cooldown = self._conduct.clock(), self._cooldown(trouble)
        cut_short = trouble.reason is FailureReason.TIME_LIMIT
        if cut_short and seconds < _FAIR_SHARE * self._conduct.timeout_seconds:
            if self._endpoint.cut_short(now, cooldown, seconds):
                self._trial = False
        elif cut_short or trouble.reason in TRIPPING or (self._trial and not trouble.alive):
            self._endpoint.trip(now, cooldown)
            self._trial = False
        elif trouble.alive:
            self._settle_alive()

    def _settle_alive(self) -> None:
        self._endpoint.answered()
        self._trial = False

    @property
    def _patience(self) -> float:
        return min(self._conduct.timeout_seconds, _LONGEST_WAIT)

    def _cooldown(self, trouble: Trouble) -> float:
        """Return how long the endpoint is left alone: as long as it says, where that is too long to wait."""
        if trouble.retry_after is None or trouble.retry_after <= self._patience:
            return self._conduct.cooldown_seconds
        return min(trouble.retry_after, _LONGEST_COOLDOWN)

    def _seconds(self) -> float:
        """Return what the next call may take."""
        most = self._conduct.timeout_seconds
        if self._limits.seconds < most:
            most = max(_HURRIED_SHARE * self._limits.seconds, _LEAST_SECONDS)
        return min(most, self._seconds_left())

    def _seconds_left(self) -> float:
        return self._limits.seconds - (self._conduct.clock() - self._started)

    def _usage(self) -> Usage:
        return Usage(len(self._attempts), self._tokens, self._conduct.clock() - self._started)

    def _failed(self, trouble: Trouble) -> Answered[T]:
        return Answered(None, trouble.failure, self._usage(), None, tuple(self._attempts))
