"""Whom a text speaks of, by its first- and second-person words: its author, or the one who is spoken to.

English only. A text in another language, or in the third person, has neither and speaks of nobody.
"""

from __future__ import annotations

import re
from functools import lru_cache

from recall_loop.text.words.stop_words import word_set

_READ_CHARACTERS = 20_000
# What stands before an apostrophe is a word by itself: "I'm" is of the first person, "you're" of the second.
_WORD = re.compile(r"[^\W\d_]+")
_FIRST = word_set("i im ive me my mine myself we weve us our ours ourselves")
_SECOND = word_set("you youre youve youll youd your yours yourself yourselves u ur")


@lru_cache(maxsize=4096)
def first_person_balance(text: str) -> float:
    """Return from 1 (first person only: it tells of its author) to -1 (second person only); 0 with neither.

    The first 20,000 characters count.
    """
    found = _WORD.findall(text[:_READ_CHARACTERS].lower())
    first, second = (sum(map(known.__contains__, found)) for known in (_FIRST, _SECOND))
    return (first - second) / (first + second) if first + second else 0.0
