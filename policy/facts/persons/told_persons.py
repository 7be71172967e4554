"""Whether somebody tells of a person by name, rather than addresses that person (CONF-4).

"Lena is allergic to nuts" tells of Lena, whoever says it; "Hey Lena, that's great!" and "Thanks Lena" don't. Behind an
address stands a mark, and so it does behind some other names; or its sentence is to the listener.
"""

from __future__ import annotations

import re
from collections.abc import Set

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.text.words.tokens import stems, words

_SENTENCES = re.compile(r"(?<=[.!?…])\s+|[。！？\n]+")
_WORDS = re.compile(r"\w+")
_LONGEST = 2000


def tells_of(text: str, names: Set[str]) -> bool:
    """Tell whether a text tells of somebody; `names` are the stems of their names."""
    if not names:
        return False
    return any(_tells_of(sentence, names) for sentence in _SENTENCES.split(text[:_LONGEST]))


def _tells_of(sentence: str, names: Set[str]) -> bool:
    found = [match for match in _WORDS.finditer(sentence) if not names.isdisjoint(stems(match[0]))]
    if not found or not shared_words("addressed").isdisjoint(words(sentence)):
        return False
    return any(len(stems(match[0])) > 1 or _goes_on(sentence[match.end() :]) for match in found)


def _goes_on(after: str) -> bool:
    """Tell whether a word, or an ending of the name, stands right behind it."""
    return after.lstrip(" ")[:1].isalnum() or after[:1] in {"'", "’"}
