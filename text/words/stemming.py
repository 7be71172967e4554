"""Snowball stems of words, by language in Latin letters and by script in others (OPEN-4)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import lru_cache

import Stemmer

from recall_loop.text.words.languages import ENGLISH

_LONGEST_STEMMED = 64
# Stemmers of languages in Latin letters, and of scripts; the latter apply in any text.
LATIN_STEMMERS = {
    **{ENGLISH: "english", "de": "german", "es": "spanish", "fr": "french"},
    **{"it": "italian", "nl": "dutch", "pt": "portuguese"},
}
_SCRIPT_STEMMERS = (
    (re.compile("[\u0370-\u03ff]"), "greek"),
    (re.compile("[\u0400-\u04ff]"), "russian"),
    (re.compile("[\u0530-\u058f]"), "armenian"),
    (re.compile("[\u0600-\u06ff]"), "arabic"),
    (re.compile("[\u0900-\u097f]"), "hindi"),
    (re.compile("[\u0b80-\u0bff]"), "tamil"),
)
_local = threading.local()


@lru_cache(maxsize=65_536)
def _stem(word: str, algorithm: str) -> str:
    # A PyStemmer object has a buffer and must not be shared between threads.
    stemmers = _local.__dict__
    if algorithm not in stemmers:
        stemmers[algorithm] = Stemmer.Stemmer(algorithm, 0)
    return str(stemmers[algorithm].stemWord(word))


def stem(word: str, language: str = ENGLISH) -> str:
    """Return the Snowball stem of one folded word; words over 64 characters stay whole.

    `language` is that of the text, and counts for Latin letters only: other scripts have a stemmer of their own, or
    none. A language without a stemmer is taken for English.
    """
    if len(word) > _LONGEST_STEMMED:
        return word
    algorithm = LATIN_STEMMERS.get(language, "english")
    if not word.isascii():
        algorithm = next((name for pattern, name in _SCRIPT_STEMMERS if pattern.match(word)), algorithm)
    return _stem(word, algorithm)


def stemmed(words: Iterable[str], language: str) -> list[str]:
    """Return the stem of each word, as `stem` says."""
    algorithm = LATIN_STEMMERS.get(language, "english")
    return [
        _stem(word, algorithm) if word.isascii() and len(word) <= _LONGEST_STEMMED else stem(word, language)
        for word in words
    ]
