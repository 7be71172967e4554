"""The passage of a long text that is read in its place, so that no text costs more than another (GUARD-2)."""

from __future__ import annotations

from collections.abc import Collection

READ_CHARACTERS = 8_000
"""Characters of a text that are read for evidence, snippets and keys; shorter texts are read whole."""
SEARCHED_CHARACTERS = 200_000
"""Characters from the beginning of a text among which the passage that is read is looked for."""


def passage(text: str, terms: Collection[str], limit: int = READ_CHARACTERS) -> str:
    """Return `limit` characters of a longer text, those with most of the terms; of equal passages the first.

    Args:
        text: any text; one of at most `limit` characters is returned as it is.
        terms: stems of the question. They are looked for as parts of words, in passages that begin at each half of
            `limit`: that takes a small share of the time in which the text could be read.
        limit: characters of the result, at least 2.
    """
    if len(text) <= limit:
        return text
    folded = text[: max(SEARCHED_CHARACTERS, limit)].lower()
    wanted = [term for term in terms if term in folded]
    best, most = 0, 0
    for start in range(0, len(folded), limit // 2):
        found = sum(folded.find(term, start, start + limit) >= 0 for term in wanted)
        if found > most:
            best, most = start, found
        if most == len(wanted):
            break
    best = min(best, len(text) - limit)
    return text[best : best + limit]
