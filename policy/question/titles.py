"""Titled records: which the question or other found records refer to, and how many of one title come first (RANK-3).

A note with a title is about one thing, and what speaks of that thing names it: the record that answers the second half
of a question is often one that the first half's record mentions. Pieces of one text share its title; where many of them
come first, other texts have no room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from heapq import nlargest

from recall_loop.state.agent_state import PoolEntry
from recall_loop.state.types import ContentType

_REFERRING = 20
"""So many of the best records are read for titles."""
_READ_CHARACTERS = 4000
_LEAST_LETTERS, _MOST_CHARACTERS = 3, 200
_PIECES = 2


def entry_title(entry: PoolEntry) -> str | None:
    """Return the label of an archival record that is a title; None where it has none.

    Labels in small letters are categories ("travel", "notes") and no titles; nor are those with fewer than three
    letters or of more than 200 characters.
    """
    label = entry["record"].get("label")
    if entry["record"]["kind"] != ContentType.ARCHIVAL or not label or len(label) > _MOST_CHARACTERS or label.islower():
        return None
    return str(label).strip() if sum(map(str.isalpha, label)) >= _LEAST_LETTERS else None


def without_qualifier(label: str) -> str:
    """Return a label without what stands in brackets at its end; whole if nothing else would be left."""
    at = label.rfind("(")
    return label[:at].rstrip() if at > 0 and label.endswith(")") else label


def title_references(pool: Collection[PoolEntry], question: str) -> dict[str, float]:
    """Return for each titled entry that is referred to the relevance of the best that does, by key, in [0,1].

    The question counts 1; other pieces of the same text don't count. A title counts where it stands as it is written,
    as whole words; where several records have it, with something else in brackets, it counts for each of them.
    """
    labels = {entry["key"]: label for entry in pool if (label := entry_title(entry)) is not None}
    if not labels:
        return {}
    best = nlargest(_REFERRING, pool, key=lambda entry: (entry["relevance"], entry["key"]))
    texts = [(labels.get(each["key"]), each["record"]["text"][:_READ_CHARACTERS], each["relevance"]) for each in best]
    texts.insert(0, (None, question, 1.0))
    values = {label: _best(without_qualifier(label), label, texts) for label in set(labels.values())}
    return {key: values[label] for key, label in labels.items() if values[label] > 0.0}


def crowded_titles(labels: Sequence[str | None]) -> list[bool]:
    """Tell for each record, best first, whether two of its title came before it."""
    seen: Counter[str] = Counter()
    found = []
    for label in labels:
        found.append(label is not None and seen[label] >= _PIECES)
        seen.update([] if label is None else [label])
    return found


def _best(title: str, label: str, texts: Sequence[tuple[str | None, str, float]]) -> float:
    """Return the value of the first text of another label that names a title; 0 = none. Texts are best first."""
    return next((value for other, text, value in texts if other != label and _names(text, title)), 0.0)


def _names(text: str, title: str) -> bool:
    at = text.find(title)
    while at >= 0:
        end = at + len(title)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(title, at + 1)
    return False
