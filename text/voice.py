"""Whom a text speaks of, by its first- and second-person words: its author, or the one who is spoken to.

English only. A text in another language, or in the third person, has neither and speaks of nobody.
"""

from __future__ import annotations

from functools import lru_cache

from recall_loop.text.stop_words import word_set
from recall_loop.text.tokens import words

_READ_CHARACTERS = 20_000
FIRST_PERSON = word_set("i im ive me my mine myself we weve us our ours ourselves")
SECOND_PERSON = word_set("you youre youve youll youd your yours yourself yourselves u ur")


@lru_cache(maxsize=4096)
def voice(text: str) -> float:
    """Return from 1 (first person only: it tells of its author) to -1 (second person only); 0 with neither.

    The first 20,000 characters count.
    """
    found = words(text[:_READ_CHARACTERS])
    first, second = (sum(word in known for word in found) for known in (FIRST_PERSON, SECOND_PERSON))
    return (first - second) / (first + second) if first + second else 0.0
