"""Word-by-word translation into English, for models that only know English (OPEN-4).

"Wann ist der Zahnarzttermin meiner Tochter?" becomes "when is dentist appointment my daughter": hardly a sentence, but
enough for a sentence embedder, and near the same content in any of the languages. There is a word list for each
language, written for this project; forms that a list doesn't have are found by their stem.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache, lru_cache

from recall_loop.text.packaged_data import packaged_text
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import CHINESE, DUTCH, ENGLISH, GERMAN, JAPANESE, WITHOUT_BLANKS, stop_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import stems, text_language, words_in_order

GLOSSED_LANGUAGES = frozenset({"de", "es", "fr", "it", "ja", "nl", "pt", "ru", "zh"})
"""The languages with a word list (ISO 639-1)."""
_CYRILLIC = str.maketrans("абвгдезийклмнопрстуфыэ", "abvgdeziyklmnoprstufye") | str.maketrans(
    {"ж": "zh", "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ь": "", "ю": "yu", "я": "ya"}
)
# Languages that write compounds as one word, and letters that may join their parts; shortest part, longest compound.
_JOINTS = {GERMAN: ("", "s", "n", "es", "en"), DUTCH: ("", "s", "e", "en")}
_SHORTEST_PART, _LONGEST_COMPOUND = 3, 40
# Japanese is read by the longest forms; unknown endings and particles are left out.
_LONGEST_FORM, _HIRAGANA = 8, re.compile("[\u3041-\u309f]")


@dataclass(frozen=True)
class _Glosses:
    """English words by folded form, and by stem if that is different."""

    forms: Mapping[str, str]
    stems: Mapping[str, str]

    def of(self, word: str, language: str) -> str | None:
        """Return the English translation of a folded word, if its form or its stem is known."""
        if word in self.forms:
            return self.forms[word]
        stemmed = stem(word, language)
        return self.stems.get(stemmed) or self.forms.get(stemmed)


def in_english(text: str, languages: Set[str] = GLOSSED_LANGUAGES) -> str | None:
    """Return the English translations of a text's words, in order; None for a text of none of the languages.

    Articles and other stop words without a translation are left out. Other unknown words, mostly names, stay as they
    are; those in Cyrillic are transliterated.
    """
    language = text_language(text)
    if language not in languages:
        return None
    known, stop = _glosses(language), stop_words(language)
    if language == JAPANESE:
        return " ".join(_scanned(fold(text), known.forms)) or None
    found = [word for word in words_in_order(text) if word in known.forms or word not in stop]
    return " ".join(gloss for word in found for gloss in _english(word, language, known)) or None


@lru_cache(maxsize=8192)
def english_stems(text: str) -> frozenset[str]:
    """Return the stems of a text's English translation; none for a text of no glossed language."""
    return frozenset(stems(in_english(text) or "", ENGLISH))


@lru_cache(maxsize=4096)
def english_of(word: str, language: str) -> str | None:
    """Return the English translation of a folded word or of both parts of a compound; None if unknown."""
    if language not in GLOSSED_LANGUAGES:
        return None
    known = _glosses(language)
    return known.of(word, language) or _compound(word, language, known)


def is_listed(word: str, language: str) -> bool:
    """Tell whether a folded word is in a list as it is, or is a compound of two such words."""
    if language not in GLOSSED_LANGUAGES:
        return False
    known = _glosses(language)
    if language in WITHOUT_BLANKS:
        return known.of(word, language) is not None
    return word in known.forms or _compound(word, language, known) is not None


@cache
def english_words() -> frozenset[str]:
    """Return the English words of one of the lists: the most frequent ones, without names."""
    return frozenset(word for english in _glosses("es").forms.values() for word in english.split())


def _english(word: str, language: str, known: _Glosses) -> Iterator[str]:
    whole = known.of(word, language)
    if whole is not None:
        yield whole
    elif language == CHINESE and not word.isascii():
        yield from (known.forms.get(character, character) for character in word)
    else:
        yield _compound(word, language, known) or word.translate(_CYRILLIC)


def _scanned(text: str, forms: Mapping[str, str]) -> Iterator[str]:
    """Yield the English translations of the longest forms in a text without blanks, and the rest but for endings."""
    at = start = 0
    while at < len(text):
        known = next((end for end in range(min(at + _LONGEST_FORM, len(text)), at, -1) if text[at:end] in forms), None)
        if known is None and text[at].isalnum() and not _HIRAGANA.match(text, at):
            at += 1
            continue
        if start < at:
            yield text[start:at]
        if known is not None:
            yield forms[text[at:known]]
        at = start = known or at + 1
    if start < at:
        yield text[start:at]


def _compound(word: str, language: str, known: _Glosses) -> str | None:
    """Return the English translation of a compound of two known words, with the longest possible last one."""
    joints = _JOINTS.get(language)
    if joints is None or len(word) > _LONGEST_COMPOUND:
        return None
    for at in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
        last = known.of(word[at:], language)
        heads = (known.of(word[:at].removesuffix(joint), language) for joint in joints if word[:at].endswith(joint))
        if last is not None and (first := next(filter(None, heads), None)) is not None:
            return f"{first} {last}"
    return None


@cache
def _glosses(language: str) -> _Glosses:
    text = packaged_text(__package__, f"{language}.tsv")
    lines = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    forms, stems = dict[str, str](), dict[str, str]()
    for word, english in lines:
        form = fold(word)
        forms.setdefault(form, english)
        if (stemmed := stem(form, language)) != form:
            stems.setdefault(stemmed, english)
    return _Glosses(forms, stems)
