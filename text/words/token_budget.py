"""Token budgets without a tokenizer, by an estimate that is rather too high than too low."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from recall_loop.text.words.tokens import UNSPACED

_TOKENS_PER_WORD = 1.3
_CHARACTERS_PER_TOKEN = 4
_WORD = re.compile(r"\w+")
_SIGN = re.compile(r"[^\w\s]")
_WIDE = re.compile(rf"[{UNSPACED}]|[^\x00-\u024f\s]")


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a common language model's tokenizer makes of `text`, rounded up.

    It is the largest of 1.3 for each word, one for each word and punctuation character, and a quarter of the number
    of characters; a character outside the Latin script counts as a token. Empty text gives 0. Long numbers and rare
    words may take up to half as much again.
    """
    narrow, wide = (text, 0) if text.isascii() else _WIDE.subn(" ", text)
    words, signs = len(_WORD.findall(narrow)), len(_SIGN.findall(narrow))
    by_length = (len(text) - wide) / _CHARACTERS_PER_TOKEN
    return math.ceil(max(words * _TOKENS_PER_WORD, words + signs, by_length)) + wide


def fit_to_budget(texts: Sequence[str], budget: int, separator: str = "\n") -> list[str]:
    """Return the longest prefix of `texts` whose joined estimate is within `budget` tokens.

    Nothing is cut or skipped: the order is a ranking. A budget below the first text's estimate gives an empty list.
    """
    used = 0
    between = estimate_tokens(separator)
    for at, text in enumerate(texts):
        used += estimate_tokens(text) + (between if at else 0)
        if used > budget:
            return list(texts[:at])
    return list(texts)
