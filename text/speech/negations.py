"""Whether a text is negated, by the negations of each language: "Jonas eats no meat"."""

from __future__ import annotations

import re
from functools import lru_cache

from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.tokens import words

_NEGATIONS = word_set(
    "not no never nothing none nobody neither nor nicht kein keine keinen nie nichts no nunca nada ningun ninguna"
    " pas jamais rien aucun aucune non niente nulla nessuno nessun nessuna nao nem nenhum nenhuma ninguem"
    " niet geen nooit niets niks не нет никогда ничего 不 没 没有 无 别"
)
# In a longer text a negation may be about anything.
_MAX_WORDS = 20
_UNSPACED = ("\u4e0d", "\u6ca1", "\u65e0", "\u306a\u3044", "\u306a\u304b\u3063\u305f", "\u307e\u305b\u3093")
# `words` drops these: it reads "doesn't" as "does".
_CONTRACTED = re.compile(r"n['\u2019]t\b", re.IGNORECASE)


@lru_cache(maxsize=2048)
def is_negated(text: str) -> bool:
    """Tell whether a short text has a negation."""
    if len(words(text)) > _MAX_WORDS:
        return False
    return bool(negations(text)) or any(sign in text for sign in _UNSPACED)


def negations(text: str) -> frozenset[str]:
    """Return the negations in a text; "not" for a contracted one."""
    contracted = {"not"} if _CONTRACTED.search(text) else set()
    return _NEGATIONS.intersection(words(text)) | contracted
