"""Problems of single lines or items on stderr: the first ones, and how many more there were."""

from __future__ import annotations

import sys

from recall_loop.cli.core.safe_text import sanitize
from recall_loop.state.display import format_count

_SHOWN_PROBLEMS = 20


class ProblemReport:
    """Writes the first 20 problems, one a line, and counts all of them."""

    def __init__(self, noun: str = "problem") -> None:
        self.count = 0
        self._noun = noun

    def add(self, where: str, verdict: str, reason: str) -> None:
        """Write "WHERE: VERDICT: REASON", such as "notes.jsonl:3: rejected: text: …"."""
        self.count += 1
        if self.count <= _SHOWN_PROBLEMS:
            sys.stderr.write(f"{sanitize(where)}: {verdict}: {sanitize(reason)}\n")

    def close(self) -> None:
        """Write how many problems weren't shown."""
        if self.count > _SHOWN_PROBLEMS:
            sys.stderr.write(f"… and {format_count(self.count - _SHOWN_PROBLEMS, f'more {self._noun}')}\n")
