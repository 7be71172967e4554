"""The passage that is read instead of a long text, so that no text takes much longer than another (GUARD-2)."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

READ_CHARACTERS = 8_000
"""Characters of a text that are read for evidence, snippets and keys; shorter texts are read whole."""
SEARCHED_CHARACTERS = 200_000
"""The passage is chosen among so many characters from the start of a text."""


def passage(text: str, terms: Collection[str], limit: int = READ_CHARACTERS) -> str:
    """Return the `limit` characters of a longer text with most of the terms; of equal passages, the first.

    Args:
        text: any text; one of at most `limit` characters is returned unchanged.
        terms: stems of the question. They are matched at the start of words, and numbers as whole words, in passages
            that begin at multiples of half the limit: much faster than reading the whole text.
        limit: characters of the result, at least 2.
    """
    if len(text) <= limit:
        return text
    folded = text[: max(SEARCHED_CHARACTERS, limit)].lower()
    wanted = [pattern for pattern in map(_beginning, terms) if pattern.search(folded)]
    best, most = 0, 0
    for start in range(0, len(folded), limit // 2):
        found = sum(pattern.search(folded, start, start + limit) is not None for pattern in wanted)
        if found > most:
            best, most = start, found
        if most == len(wanted):
            break
    best = min(best, len(text) - limit)
    return text[best : best + limit]


@lru_cache(maxsize=1024)
def _beginning(term: str) -> re.Pattern[str]:
    """Return a pattern for a term at the start of a word: not "ral" in "several", nor 38 in 1238 or 380.

    The term precedes the lookbehind, so that it is found as fast as plain text. In scripts without blanks any position
    counts.
    """
    found = re.escape(term)
    whole = r"(?!\d)" if term.isdecimal() else ""
    return re.compile(rf"{found}(?<![a-z0-9]{found}){whole}")
