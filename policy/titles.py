"""Titled records: which the question or other found records refer to, and how many of one title come first (RANK-3).

A note with a title is about one thing, and what speaks of that thing names it: the record that answers the second half
of a question is often one that the first half's record mentions. Pieces of one text share its title; where many of them
come first, other texts have no room.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from heapq import nlargest

from recall_loop.state.agent_state import PoolEntry

_REFERRING = 20
"""So many of the best records are read for titles."""
_READ_CHARACTERS = 4000
_LEAST_LETTERS = 3
_PIECES = 2
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")


def title_of(entry: PoolEntry) -> str | None:
    """Return what an archival record is about: its label without what is in brackets at the end.

    Labels in small letters are categories ("travel", "notes") and no titles; nor are labels of one or two letters.
    """
    label = entry["record"].get("label")
    if entry["record"]["kind"] != "archival" or not label:
        return None
    title = _QUALIFIER.sub("", str(label)).strip()
    return title if len(title) >= _LEAST_LETTERS and not title.islower() else None


def references(pool: Collection[PoolEntry], question: str) -> dict[str, float]:
    """Return for each titled entry that is referred to the relevance of the best that does, by key, in [0,1].

    The question counts 1. A title counts where it stands as it is written, as whole words.
    """
    titled = [(entry["key"], title) for entry in pool if (title := title_of(entry)) is not None]
    if not titled:
        return {}
    best = nlargest(_REFERRING, pool, key=lambda entry: (entry["relevance"], entry["key"]))
    texts = [("", question, 1.0), *((each["key"], each["record"]["text"], each["relevance"]) for each in best)]
    found = {}
    for key, title in titled:
        value = _best(title, key, texts)
        if value > 0.0:
            found[key] = value
    return found


def crowding(titles: Sequence[str | None]) -> list[int]:
    """Return for each record, best first, how many more than two of its title there are so far; 0 without one."""
    seen: Counter[str] = Counter()
    found = []
    for title in titles:
        if title is not None:
            seen[title] += 1
        found.append(max(seen[title] - _PIECES, 0) if title is not None else 0)
    return found


def _best(title: str, key: str, texts: Sequence[tuple[str, str, float]]) -> float:
    """Return the value of the first text, best first, that names a title, other than the record's own; 0 = none."""
    for other, text, value in texts:
        if other != key and _names(text[:_READ_CHARACTERS], title):
            return value
    return 0.0


def _names(text: str, title: str) -> bool:
    at = text.find(title)
    while at >= 0:
        end = at + len(title)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(title, at + 1)
    return False
