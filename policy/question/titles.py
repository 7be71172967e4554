"""Titled records: references to them, and limits on records of one title (RANK-3).

A note with a title is about one thing, and whatever speaks of that thing names it: the record that answers the second
half of a question is often one that the first half's record mentions. Pieces of one text share its title; where many
of them come first, other texts have no room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from heapq import nlargest

from recall_loop.state.agent_state import PoolEntry
from recall_loop.state.types import ContentType

_REFERRING_ENTRIES = 20
"""Number of best records whose texts are searched for titles."""
_READ_CHARACTERS = 4000
_LEAST_LETTERS, _MOST_CHARACTERS = 3, 200
_PIECES = 2


def entry_title(entry: PoolEntry) -> str | None:
    """Return the label of an archival record if it is a title, else None.

    Lower-case labels are categories ("travel", "notes"), not titles; nor are those with fewer than three letters or
    more than 200 characters.
    """
    label = entry["record"].get("label")
    if entry["record"]["kind"] != ContentType.ARCHIVAL or not label or len(label) > _MOST_CHARACTERS or label.islower():
        return None
    return str(label).strip() if sum(map(str.isalpha, label)) >= _LEAST_LETTERS else None


def without_qualifier(label: str) -> str:
    """Return a label without the qualifier in brackets at its end; all of it if nothing else would be left."""
    at = label.rfind("(")
    return label[:at].rstrip() if at > 0 and label.endswith(")") else label


def title_references(pool: Collection[PoolEntry], question: str) -> dict[str, float]:
    """Return by key, for each titled entry that is referred to, the relevance of the best reference in [0,1].

    A reference in the question counts 1; other pieces of the same text don't count. A title counts where it occurs as
    written, as whole words; if several records have it, with different qualifiers, it counts for each of them.
    """
    titles = {entry["key"]: title for entry in pool if (title := entry_title(entry)) is not None}
    if not titles:
        return {}
    best = nlargest(_REFERRING_ENTRIES, pool, key=lambda entry: (entry["relevance"], entry["key"]))
    texts = [(titles.get(each["key"]), each["record"]["text"][:_READ_CHARACTERS], each["relevance"]) for each in best]
    texts.insert(0, (None, question, 1.0))
    values = {title: _reference_value(title, texts) for title in set(titles.values())}
    return {key: values[title] for key, title in titles.items() if values[title] > 0.0}


def crowded_titles(titles: Sequence[str | None]) -> list[bool]:
    """Tell for each record, best first, whether two of its title came before it."""
    seen: Counter[str] = Counter()
    crowded = []
    for title in titles:
        crowded.append(title is not None and seen[title] >= _PIECES)
        seen.update([] if title is None else [title])
    return crowded


def _reference_value(title: str, texts: Sequence[tuple[str | None, str, float]]) -> float:
    """Return the value of the first text of another title that names this one, else 0; `texts` are best first."""
    name = without_qualifier(title)
    return next((value for other, text, value in texts if other != title and _names(text, name)), 0.0)


def _names(text: str, name: str) -> bool:
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(name, at + 1)
    return False
