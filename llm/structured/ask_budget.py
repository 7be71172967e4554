"""The budget of one request to a chat model, and its use: calls, tokens, seconds and retries (LOOP-8)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from recall_loop.llm.endpoint.circuit_breaker import Limits, Usage
from recall_loop.llm.endpoint.failures import CallError, FailureReason, call_error
from recall_loop.llm.structured.reply_parsing import ParsedReply
from recall_loop.prompts.templates import RenderedPrompt
from recall_loop.text.words.snippets import estimate_tokens

# Tokens around each prompt that aren't text: roles and separators of two messages.
_FRAME_TOKENS = 12
# If a request has less time left than the timeout, a call gets this share, and at least this many seconds: the rest is
# for the search without the model.
_HURRIED_SHARE = 0.5
_MIN_SECONDS = 0.05
# Maximum seconds to wait for a server's Retry-After, and to stop calling an endpoint because of it.
_MAX_WAIT = 5.0
_MAX_COOLDOWN = 300.0


@dataclass(frozen=True)
class CallPolicy:
    """How a client treats its endpoint: seconds, tokens and tries (see `Settings.llm_*`)."""

    timeout_seconds: float
    reply_tokens: int
    retries: int
    backoff_seconds: float
    cooldown_seconds: float
    clock: Callable[[], float]


class AskBudget:
    """The budget of one ask, whose every call has `prompt`; its time runs from the moment when it is made.

    `schema_tokens` are those of the schema beside the prompt, by estimate. `attempts` has every call made: its method,
    and "ok" or the reason of its failure.
    """

    def __init__(self, policy: CallPolicy, limits: Limits, prompt: RenderedPrompt, schema_tokens: int) -> None:
        self._policy, self._limits = policy, limits
        self._started = policy.clock()
        self._tokens = 0
        self._retries = policy.retries
        self._prompt_tokens = (
            estimate_tokens(prompt.system) + estimate_tokens(prompt.user) + schema_tokens + _FRAME_TOKENS
        )
        self.attempts: list[tuple[str, str]] = []

    def limit_error(self) -> CallError | None:
        """Return which limit leaves no room for a further call; None if there is room."""
        if len(self.attempts) >= self._limits.calls:
            return call_error(FailureReason.CALL_LIMIT, f"all {self._limits.calls} calls are used")
        need = self._prompt_tokens + self._policy.reply_tokens
        if self._tokens + need > self._limits.tokens:
            left = max(0, self._limits.tokens - self._tokens)
            return call_error(FailureReason.TOKEN_LIMIT, f"about {need} tokens needed, {left} left")
        if self._seconds_left() <= 0:
            return call_error(FailureReason.TIME_LIMIT, f"all {max(0.0, self._limits.seconds):.3g} s are used")
        return None

    def add_prompt(self) -> None:
        """Count the tokens of a prompt that the server may have read, if no reply has a count."""
        self._tokens += self._prompt_tokens

    def add_reply(self, reading: ParsedReply) -> None:
        """Count the tokens of a call: as the server counts them, else by estimate."""
        if reading.tokens:
            self._tokens += reading.tokens
        else:
            written = reading.text or "".join(str(found) for found in reading.objects)
            self._tokens += self._prompt_tokens + estimate_tokens(written)

    def pause(self, error: CallError) -> float | None:
        """Return the seconds to wait before the same call again; None if it is not to be made again."""
        if not error.retry or self._retries <= 0:
            return None
        doubled = 2.0 ** (self._policy.retries - self._retries)
        pause = self._policy.backoff_seconds * doubled * random.uniform(0.5, 1.0)
        if error.retry_after is not None:
            if error.retry_after > self._max_wait:
                return None
            pause = max(pause, error.retry_after)
        if pause >= self._seconds_left() or len(self.attempts) >= self._limits.calls:
            return None
        self._retries -= 1
        return pause

    def cooldown(self, error: CallError) -> float:
        """Return how long the endpoint is left alone: as long as it says, where that is too long to wait."""
        if error.retry_after is None or error.retry_after <= self._max_wait:
            return self._policy.cooldown_seconds
        return min(error.retry_after, _MAX_COOLDOWN)

    def call_seconds(self) -> float:
        """Return the limits of the next call."""
        most = self._policy.timeout_seconds
        if self._limits.seconds < most:
            most = max(_HURRIED_SHARE * self._limits.seconds, _MIN_SECONDS)
        return min(most, self._seconds_left())

    def usage(self) -> Usage:
        """Return the usage so far."""
        return Usage(len(self.attempts), self._tokens, self._policy.clock() - self._started)

    @property
    def _max_wait(self) -> float:
        return min(self._policy.timeout_seconds, _MAX_WAIT)

    def _seconds_left(self) -> float:
        return self._limits.seconds - (self._policy.clock() - self._started)
