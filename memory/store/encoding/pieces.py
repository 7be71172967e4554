"""Pieces of a long record, each with a vector of its own (GUARD-8). Pure functions.

An embedder reads some two hundred words, so that one vector stands for the beginning of a long run only. Its text is
cut at its lines, one of which is the task, a message of a user, the tools or an error.
"""

from __future__ import annotations

from recall_loop.state.types import ContentType

PIECE_CHARACTERS = 900
"""Characters that an embedder surely reads to their end."""
# Short lines are joined into one piece until it has this many characters.
_SHORT = 300
MAX_PIECES = 24
"""Pieces of one record; of a longer text so many are taken, at equal distances."""


def pieces_of(kind: str, text: str) -> list[str]:
    """Return the pieces of a record's index text; none of a kind, or of a text, that one vector is enough for."""
    if kind != ContentType.TRAJECTORY or len(text) <= PIECE_CHARACTERS:
        return []
    found = list[str]()
    for line in text.split("\n"):
        for part in _cut(line):
            if found and len(found[-1]) < _SHORT and len(found[-1]) + len(part) < PIECE_CHARACTERS:
                found[-1] += "\n" + part
            elif part:
                found.append(part)
    most = min(len(found), MAX_PIECES)
    return [found[at * len(found) // most] for at in range(most)]


def _cut(line: str) -> list[str]:
    """Cut a line into parts that are short enough, at blanks where there are any."""
    parts, start = list[str](), 0
    while len(line) - start > PIECE_CHARACTERS:
        blank = line.rfind(" ", start + PIECE_CHARACTERS // 2, start + PIECE_CHARACTERS)
        end = start + PIECE_CHARACTERS if blank < 0 else blank
        parts.append(line[start:end].strip())
        start = end
    return [*parts, line[start:].strip()]
