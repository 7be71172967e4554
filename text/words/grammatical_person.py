"""Whether a text is about its author or its addressee, by its first- and second-person words.

English only: a text in another language, or in the third person, has neither.
"""

from __future__ import annotations

import re
from functools import lru_cache

from recall_loop.text.words.stop_words import word_set

_READ_CHARACTERS = 20_000
# The part before an apostrophe is a word: "I'm" is first person, "you're" second.
_WORD = re.compile(r"[^\W\d_]+")
_FIRST = word_set("i im ive me my mine myself we weve us our ours ourselves")
_SECOND = word_set("you youre youve youll youd your yours yourself yourselves u ur")


@lru_cache(maxsize=4096)
def first_person_balance(text: str) -> float:
    """Return a balance from 1 (first person only: about its author) to -1 (second person only); 0 with neither.

    Only the first 20,000 characters count.
    """
    words = _WORD.findall(text[:_READ_CHARACTERS].lower())
    first, second = (sum(map(known.__contains__, words)) for known in (_FIRST, _SECOND))
    return (first - second) / (first + second) if first + second else 0.0
