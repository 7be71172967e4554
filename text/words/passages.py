"""The passage of a long text that is read in its place, so that no text costs more than another (GUARD-2)."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

READ_CHARACTERS = 8_000
"""Characters of a text that are read for evidence, snippets and keys; shorter texts are read whole."""
SEARCHED_CHARACTERS = 200_000
"""Characters from the beginning of a text among which the passage that is read is looked for."""


def passage(text: str, terms: Collection[str], limit: int = READ_CHARACTERS) -> str:
    """Return `limit` characters of a longer text, those with most of the terms; of equal passages the first.

    Args:
        text: any text; one of at most `limit` characters is returned as it is.
        terms: stems of the question. They are looked for at the beginning of words, and numbers as a whole, in passages
            that begin at each half of `limit`: that takes a small share of the time in which the text could be read.
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
    """Return what finds a term where a word begins: "ral" not in "several", 38 neither in 1238 nor in 380.

    The term stands ahead of what looks back behind it, so that it is found as fast as any text. What other scripts
    write without a blank before it counts.
    """
    found = re.escape(term)
    whole = r"(?!\d)" if term.isdecimal() else ""
    return re.compile(rf"{found}(?<![a-z0-9]{found}){whole}")
