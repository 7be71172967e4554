"""What the process remembers of an endpoint: which form of asking works there, and whether it is well.

Doors for the same endpoint share one memory, so that a fault found out by one request isn't paid for by the next.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from enum import StrEnum

PROMPT_METHOD = "prompt"
# Endpoints that are remembered: callers may name any number of models and addresses.
MAX_ENDPOINTS = 256
# Calls in a row that were cut short without an answer, after which the endpoint is taken to hang.
_MAX_SHORT_TIMEOUTS = 2
# How much longer than those a call must have, to be made all the same.
_LONGER_CALL_FACTOR = 2.0


class Admission(StrEnum):
    """What the circuit breaker says to a call: go, go as the one trial, or don't."""

    CLOSED = "closed"
    HALF_OPEN = "trial"
    OPEN = "open"


class Quirk(StrEnum):
    """A parameter that an endpoint wants otherwise."""

    NO_TEMPERATURE = "no_temperature"
    OTHER_TOKEN_LIMIT = "other_tokens"  # the other spelling of max_tokens / max_completion_tokens


class _ExhaustionCause(StrEnum):
    """Why no form of asking worked the last time."""

    NONSENSE = "nonsense"
    REFUSED = "refused"


class EndpointHealth:
    """The memory of one endpoint. Every method holds its lock for an instant only, and does no I/O."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: frozenset[str] = frozenset()
        self._working: str | None = None
        self._exhausted: _ExhaustionCause | None = None
        self._quirks: frozenset[Quirk] = frozenset()
        self._open_until: float | None = None
        self._trying = False
        self._cut_short = 0
        self._hung_for = 0.0  # seconds that calls had which got no answer

    @property
    def quirks(self) -> frozenset[Quirk]:
        """What is known of its parameters."""
        with self._lock:
            return self._quirks

    def methods_to_try(self, ladder: Sequence[str]) -> tuple[str, ...]:
        """Return the rungs to try: the one that worked, then the others; refused ones are left out.

        After an ask in which no rung gave anything usable it is only the last, the one that demands least.
        """
        with self._lock:
            open_to = [rung for rung in ladder if rung not in self._refused]
            if self._exhausted is not None:
                return tuple(open_to[-1:])
            return tuple(sorted(open_to, key=lambda rung: rung != self._working))

    def record_success(self, rung: str) -> None:
        """Remember that a rung gave a value."""
        with self._lock:
            # Where everything was refused it may have been the prompt's fault: the best rung gets its chance again.
            self._working = None if self._exhausted is _ExhaustionCause.REFUSED else rung
            self._exhausted = None

    def record_refusal(self, rung: str) -> None:
        """Remember that a rung was refused as a bad request. The plain prompt always stays."""
        if rung != PROMPT_METHOD:
            with self._lock:
                self._refused |= {rung}

    def record_failure(self, refused: frozenset[str], tried: frozenset[str]) -> None:
        """Remember that all of `tried` gave nothing; `refused` are those refused in this ask.

        When all were refused, the request was the fault and not its form: they are not held against the rungs.
        """
        with self._lock:
            if tried <= refused:
                self._refused -= refused
                self._exhausted = self._exhausted or _ExhaustionCause.REFUSED
            else:
                self._exhausted = _ExhaustionCause.NONSENSE

    def learn_quirk(self, parameter: str) -> bool:
        """Remember a parameter that the endpoint refuses; False if that is known already, or nothing can be done."""
        quirk = {"temperature": Quirk.NO_TEMPERATURE}.get(parameter)
        if parameter in ("max_tokens", "max_completion_tokens"):
            quirk = Quirk.OTHER_TOKEN_LIMIT
        if quirk is None:
            return False
        with self._lock:
            known = quirk in self._quirks
            self._quirks |= {quirk}
            return not known

    def admit(self, now: float, seconds: float) -> Admission:
        """Say whether a call of at most `seconds` may be made; after the cooldown one caller gets the trial call."""
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


_endpoints: OrderedDict[str, EndpointHealth] = OrderedDict()
_endpoints_lock = threading.Lock()


def shared_endpoint_health(name: str) -> EndpointHealth:
    """Return the one memory of the endpoint `name` in this process; the one not asked for longest is let go of.

    Doors that exist keep what they hold.
    """
    with _endpoints_lock:
        found = _endpoints.setdefault(name, EndpointHealth())
        _endpoints.move_to_end(name)
        while len(_endpoints) > MAX_ENDPOINTS:
            _endpoints.popitem(last=False)
        return found


def clear_endpoint_health() -> None:
    """Forget all endpoints; doors that exist keep what they hold. For tests and long-lived processes."""
    with _endpoints_lock:
        _endpoints.clear()
