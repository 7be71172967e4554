"""Limits of a request on the chat model, and the usage that counts against them."""

from __future__ import annotations

from dataclasses import dataclass

from recall_loop.state.settings.settings import Settings


@dataclass(frozen=True)
class Limits:
    """What the request has left: calls, tokens read and written, and seconds."""

    calls: int
    tokens: int
    seconds: float

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """Return the limits of a request that has spent nothing yet."""
        return cls(settings.llm_max_calls, settings.llm_max_tokens, settings.llm_total_seconds)

    def less(self, used: Usage) -> Limits:
        """Return what is left after `used`, never below nothing."""
        return Limits(
            max(0, self.calls - used.calls), max(0, self.tokens - used.tokens), max(0.0, self.seconds - used.seconds)
        )


@dataclass(frozen=True)
class Usage:
    """What was used: calls with their retries, tokens (the server's count, else an estimate), seconds of waiting."""

    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.calls + other.calls, self.tokens + other.tokens, self.seconds + other.seconds)
