"""Snowball stems of words, by language in Latin letters and by script in others (OPEN-4)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import lru_cache

import Stemmer

from recall_loop.text.words.languages import ENGLISH

_LONGEST_STEMMED = 64
# Stemmers of languages in Latin letters. Those after the first line are only for texts that state their language.
_LATIN_STEMMERS = {
    **{ENGLISH: "english", "de": "german", "es": "spanish", "fr": "french"},
    **{"it": "italian", "nl": "dutch", "pt": "portuguese"},
    **{"da": "danish", "nb": "norwegian", "nn": "norwegian", "no": "norwegian", "sv": "swedish"},
    **{"et": "estonian", "fi": "finnish", "hu": "hungarian", "lt": "lithuanian", "tr": "turkish"},
    **{"ca": "catalan", "cs": "czech", "pl": "polish", "ro": "romanian", "sr": "serbian"},
    **{"eo": "esperanto", "eu": "basque", "ga": "irish", "id": "indonesian", "st": "sesotho"},
}
# Stemmers of scripts, by language: they apply in a text of any language; `""` is for languages not listed here.
_SCRIPT_STEMMERS = (
    (re.compile("[\u0370-\u03ff]"), {"": "greek"}),
    (re.compile("[\u0400-\u04ff]"), {"": "russian", "sr": "serbian"}),
    (re.compile("[\u0530-\u058f]"), {"": "armenian"}),
    (re.compile("[\u0590-\u05ff]"), {"yi": "yiddish"}),
    (re.compile("[\u0600-\u06ff]"), {"": "arabic", "fa": "persian"}),
    (re.compile("[\u0900-\u097f]"), {"": "hindi", "ne": "nepali"}),
    (re.compile("[\u0b80-\u0bff]"), {"": "tamil"}),
)
STEMMED_APART = frozenset({*_LATIN_STEMMERS, "fa", "ne", "yi"} - {ENGLISH})
"""Languages in which some words have another stem than in a text of unknown language."""

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

    `language` is that of the text. Words in scripts other than Latin are stemmed by their script's stemmer, if any,
    unless the language has its own for that script. A language without a stemmer is treated as English.
    """
    if len(word) > _LONGEST_STEMMED:
        return word
    algorithm = _LATIN_STEMMERS.get(language, "english")
    if not word.isascii():
        script = _script_stemmers(word[0])
        algorithm = script.get(language) or script.get("") or algorithm
    return _stem(word, algorithm)


@lru_cache(maxsize=8192)
def _script_stemmers(character: str) -> dict[str, str]:
    return next((names for pattern, names in _SCRIPT_STEMMERS if pattern.match(character)), {})


def stemmed(words: Iterable[str], language: str) -> list[str]:
    """Return the stem of each word, as `stem` says."""
    algorithm = _LATIN_STEMMERS.get(language, "english")
    return [
        _stem(word, algorithm) if word.isascii() and len(word) <= _LONGEST_STEMMED else stem(word, language)
        for word in words
    ]
