"""A written answer out of cited sentences (LOOP-10)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NOT_IN_MEMORY = "Not in memory."
# Numbers of memories belong into `cites`; some models put them into the text as well.
_OPEN = re.compile(r"\s*(?:\[[^\]]*)?$")
_NUMBERS = re.compile(r"\s*\[\s*\d+(?:\s*,\s*\d+)*\s*\]")


def cited(numbers: Iterable[int], ids: Sequence[str]) -> list[str]:
    """Return the fact ids of 1-based memory numbers, in order; numbers that no memory has are left out."""
    return list(dict.fromkeys(ids[number - 1] for number in numbers if 1 <= number <= len(ids)))


def citation(numbers: Iterable[int], ids: Sequence[str]) -> str:
    """Return the citation that ends a sentence, such as ` [m1][f2]`; empty without a valid number."""
    return "".join([" ", *(f"[{name}]" for name in found)]) if (found := cited(numbers, ids)) else ""


def clean(text: str) -> str:
    """Return a sentence on one line, without numbers of memories."""
    return _NUMBERS.sub("", " ".join(text.split())).strip()


def growing(sentences: Sequence[tuple[Sequence[int], str]], ids: Sequence[str]) -> str:
    """Return what may be shown of an answer that is still being written: a head of what `compose` will give.

    Only the last sentence is open; it is shown as far as it can't change any more.
    """
    if not sentences:
        return ""
    numbers, text = sentences[-1]
    done = compose(sentences[:-1], ids)
    done = "" if done == NOT_IN_MEMORY else done
    opened = clean(_OPEN.sub("", text)) if cited(numbers, ids) else ""
    return " ".join(filter(None, [done, opened]))


def compose(sentences: Iterable[tuple[Sequence[int], str]], ids: Sequence[str]) -> str:
    """Return the sentences with their citations; those without a valid one are dropped.

    An answer of which nothing is left is "Not in memory.".
    """
    kept = [clean(text) + citation(numbers, ids) for numbers, text in sentences if cited(numbers, ids) and clean(text)]
    return " ".join(kept) or NOT_IN_MEMORY
