"""How an endpoint fares: limits of calls, and when it is left alone for a while."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cachetools import LRUCache, cached

from recall_loop.state.settings.settings import Settings

PROMPT_METHOD = "prompt"
# Number of remembered endpoints: callers may name any number of models and addresses.
MAX_ENDPOINTS = 256
# Consecutive calls that timed out without an answer, after which the endpoint is assumed to hang.
_MAX_SHORT_TIMEOUTS = 2
# A call is made anyway if it has this many times as long as those.
_LONGER_CALL_FACTOR = 2.0


class Admission(StrEnum):
    """The circuit breaker's answer to a call: go, go as the one trial, or don't."""

    CLOSED = "closed"
    HALF_OPEN = "trial"
    OPEN = "open"


class Quirk(StrEnum):
    """A parameter that an endpoint wants otherwise."""

    NO_TEMPERATURE = "no_temperature"
    NO_STREAM = "no_stream"  # sends one response, even if streaming is requested
    OTHER_TOKEN_LIMIT = "other_tokens"  # the alternative spelling of max_tokens / max_completion_tokens


class _ExhaustionCause(StrEnum):
    """Why no output method worked the last time."""

    NONSENSE = "nonsense"
    REFUSED = "refused"


class EndpointHealth:
    """The record of one endpoint. Every method holds its lock for an instant only, and does no I/O."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: frozenset[str] = frozenset()
        self._working: str | None = None
        self._exhausted: _ExhaustionCause | None = None
        self._quirks: frozenset[Quirk] = frozenset()
        self._open_until: float | None = None
        self._trying = False
        self._cut_short = 0
        self._hung_for = 0.0  # time limits of the calls that got no answer

    @property
    def quirks(self) -> frozenset[Quirk]:
        """The parameters that the endpoint wants otherwise."""
        with self._lock:
            return self._quirks

    def methods_to_try(self, methods: Sequence[str]) -> tuple[str, ...]:
        """Return the methods to try: the one that worked, then the others; refused ones are left out.

        After an ask in which no method gave anything usable it is only the last, the one that demands least.
        """
        with self._lock:
            remaining = [method for method in methods if method not in self._refused]
            if self._exhausted is not None:
                return tuple(remaining[-1:])
            return tuple(sorted(remaining, key=lambda method: method != self._working))

    def record_success(self, method: str) -> None:
        """Remember that a method gave a value."""
        with self._lock:
            # If every method was rejected, the prompt may be to blame: the best method gets another chance.
            self._working = None if self._exhausted is _ExhaustionCause.REFUSED else method
            self._exhausted = None

    def record_refusal(self, method: str) -> None:
        """Remember that a method was refused as a bad request. The plain prompt always stays."""
        if method != PROMPT_METHOD:
            with self._lock:
                self._refused |= {method}

    def record_failure(self, refused: frozenset[str], tried: frozenset[str]) -> None:
        """Remember that all of `tried` gave nothing; `refused` are those refused in this ask.

        When all were refused, the request was the fault and not its form: it is not held against the methods.
        """
        with self._lock:
            if tried <= refused:
                self._refused -= refused
                self._exhausted = self._exhausted or _ExhaustionCause.REFUSED
            else:
                self._exhausted = _ExhaustionCause.NONSENSE

    def learn_quirk(self, parameter: str) -> bool:
        """Remember a parameter that the endpoint refuses; False if that is known already, or nothing can be done."""
        quirk = {"temperature": Quirk.NO_TEMPERATURE, "stream": Quirk.NO_STREAM}.get(parameter)
        if parameter in ("max_tokens", "max_completion_tokens"):
            quirk = Quirk.OTHER_TOKEN_LIMIT
        if quirk is None:
            return False
        with self._lock:
            known = quirk in self._quirks
            self._quirks |= {quirk}
            return not known

    def admit(self, now: float, seconds: float) -> Admission:
        """Return whether a call of at most `seconds` may be made; after the cooldown one caller gets the trial call."""
        with self._lock:
            if self._open_until is None or seconds > _LONGER_CALL_FACTOR * self._hung_for:
                return Admission.CLOSED
            if self._trying or now < self._open_until:
                return Admission.OPEN
            self._trying = True
            return Admission.HALF_OPEN

    def close_circuit(self) -> None:
        """Close the circuit: the endpoint did answer."""
        with self._lock:
            self._open_until, self._trying = None, False
            self._cut_short, self._hung_for = 0, 0.0

    def open_circuit(self, now: float, cooldown: float) -> None:
        """Open the circuit for `cooldown` seconds."""
        with self._lock:
            self._open_until, self._trying = now + cooldown, False
            self._hung_for = math.inf

    def record_short_timeout(self, now: float, cooldown: float, seconds: float) -> bool:
        """Note a call that got no answer within `seconds`, fewer than a fair share; True if the circuit opens.

        A request in a hurry must not close the way for others: the circuit stays closed for calls that have more than
        twice the time.
        """
        with self._lock:
            self._cut_short += 1
            self._hung_for = max(self._hung_for, seconds)
            if self._cut_short < _MAX_SHORT_TIMEOUTS:
                return False
            self._open_until, self._trying = now + cooldown, False
            return True

    def release_trial(self) -> None:
        """Return the trial call unused: the next caller gets it."""
        with self._lock:
            self._trying = False


@cached(LRUCache(MAX_ENDPOINTS), lock=threading.Lock())
def shared_endpoint_health(name: str) -> EndpointHealth:
    """Return the one record of the endpoint `name` in this process; the one not asked for longest is dropped.

    Clients keep the one that they have.
    """
    return EndpointHealth()


@dataclass(frozen=True)
class Limits:
    """The budget that a request has left: calls, tokens read and written, and seconds."""

    calls: int
    tokens: int
    seconds: float

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """Return the limits of a request that has spent nothing yet."""
        return cls(settings.llm_max_calls, settings.llm_max_tokens, settings.llm_total_seconds)

    def less(self, used: Usage) -> Limits:
        """Return the budget left after `used`, never below zero."""
        return Limits(
            max(0, self.calls - used.calls), max(0, self.tokens - used.tokens), max(0.0, self.seconds - used.seconds)
        )


@dataclass(frozen=True)
class Usage:
    """The usage of a request: calls with retries, tokens (the server's count, else an estimate), seconds of waiting."""

    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.calls + other.calls, self.tokens + other.tokens, self.seconds + other.seconds)
