"""Answers of PostgreSQL that hold for a moment: a request asks for versions dozens of times."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")
_MAX_ANSWERS = 10_000


class RecentAnswers(Generic[Answer]):
    """Answers by name, each good for some seconds, and none from before this process's last write.

    Args:
        seconds: how long an answer is good.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._writes = 0
        self._known: dict[str, tuple[float, Answer]] = {}

    def get(self, name: str, ask: Callable[[], Answer]) -> Answer:
        """Return the known answer, or the result of `ask`."""
        now, writes = time.monotonic(), self._writes
        found = self._known.get(name)
        if found is not None and now < found[0]:
            return found[1]
        answer = ask()
        if len(self._known) >= _MAX_ANSWERS:
            self._known.clear()
        if writes == self._writes:  # otherwise, it may be from before that write
            self._known[name] = (now + self._seconds, answer)
        return answer

    def forget(self) -> None:
        """Ask again from now on, as this process has written or has taken a lock."""
        self._writes += 1
        self._known.clear()
