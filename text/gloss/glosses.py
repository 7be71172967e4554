"""Word-by-word translation into English, for models that only know English (OPEN-4).

"Wann ist der Zahnarzttermin meiner Tochter?" becomes "when is dentist appointment my daughter": hardly a sentence, but
enough for a sentence embedder, and near the same content in any of the languages. There is a word list for each
language, written for this project; forms that a list doesn't have are found by their stem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import CHINESE, ENGLISH, GERMAN, stop_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import stems, text_language, words_in_order

GLOSSED_LANGUAGES = frozenset({"de", "es", "fr", "ru", "zh"})
"""The languages with a word list (ISO 639-1)."""
_CYRILLIC = str.maketrans("абвгдезийклмнопрстуфыэ", "abvgdeziyklmnoprstufye") | str.maketrans(
    {"ж": "zh", "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ь": "", "ю": "yu", "я": "ya"}
)
# Shortest part of a German compound, the letters that may join parts, and the longest word that may be a compound.
_SHORTEST_PART, _JOINTS, _LONGEST_COMPOUND = 3, ("", "s", "n", "es", "en"), 40


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


def in_english(text: str) -> str | None:
    """Return the English translations of a text's words, in order; None for a text of no glossed language.

    Articles and other stop words without a translation are left out. Other unknown words, mostly names, stay as they
    are; those in Cyrillic are transliterated.
    """
    language = text_language(text)
    if language not in GLOSSED_LANGUAGES:
        return None
    known, stop = _glosses(language), stop_words(language)
    found = [word for word in words_in_order(text) if word in known.forms or word not in stop]
    return " ".join(gloss for word in found for gloss in _english(word, language, known)) or None


@lru_cache(maxsize=8192)
def english_stems(text: str) -> frozenset[str]:
    """Return the stems of a text's English translation; none for a text of no glossed language."""
    return frozenset(stems(in_english(text) or "", ENGLISH))


@lru_cache(maxsize=4096)
def english_of(word: str, language: str) -> str | None:
    """Return the English translation of a folded word or of both parts of a German compound; None if unknown."""
    if language not in GLOSSED_LANGUAGES:
        return None
    known = _glosses(language)
    return known.of(word, language) or (_compound(word, known) if language == GERMAN else None)


def is_listed(word: str, language: str) -> bool:
    """Tell whether a folded word is in a list as it is, or is a German compound of two such words."""
    if language not in GLOSSED_LANGUAGES:
        return False
    known = _glosses(language)
    if language == CHINESE:
        return known.of(word, language) is not None
    return word in known.forms or (language == GERMAN and _compound(word, known) is not None)


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
        parts = _compound(word, known) if language == GERMAN else None
        yield parts or word.translate(_CYRILLIC)


def _compound(word: str, known: _Glosses) -> str | None:
    """Return the English translation of a German compound of two known words, with the longest possible last one."""
    if len(word) > _LONGEST_COMPOUND:
        return None
    for at in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
        last = known.of(word[at:], GERMAN)
        heads = (known.of(word[:at].removesuffix(joint), GERMAN) for joint in _JOINTS if word[:at].endswith(joint))
        if last is not None and (first := next(filter(None, heads), None)) is not None:
            return f"{first} {last}"
    return None


@cache
def _glosses(language: str) -> _Glosses:
    text = files("recall_loop.text.gloss").joinpath(f"{language}.tsv").read_text(encoding="utf-8")
    lines = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    forms, stems = dict[str, str](), dict[str, str]()
    for word, english in lines:
        form = fold(word)
        forms.setdefault(form, english)
        if (stemmed := stem(form, language)) != form:
            stems.setdefault(stemmed, english)
    return _Glosses(forms, stems)
