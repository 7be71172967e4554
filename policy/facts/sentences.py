"""The sentences of a text, their language and their words, for comparing what they state.

A sentence ends at a full stop, except after initials and ordinals. A language is recognised by its script, its most
frequent words, or its letter groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from recall_loop.policy.facts.change_words import function_words, shared_words
from recall_loop.text.words.folding import UNSPACED, UNSPACED_CHARACTER
from recall_loop.text.words.languages import CHINESE, ENGLISH, JAPANESE, WITHOUT_BLANKS
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import text_language

_MAX_SENTENCES = 12
_READ_CHARACTERS = 2000
# A month may follow the full stop of an ordinal, as in German: "am 3. Mai".
_MONTH = r"(?<=\d\.)\s+(?i:jan|feb|m[a\u00e4]r|apr|ma[ijy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])"
_SENTENCE_END = re.compile(
    rf"(?<=[.!?\u2026])(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\b[A-Z][a-z]{{2}}\.)(?!{_MONTH})\s+"
    r"|(?<=[\u3002\uff01\uff1f])|\n+"
)
# A German sentence goes on after the ordinal of a day: "am 9. um zehn", "vom 11. bis 25. Juli".
_DAY = re.compile(r"\b(?:am|vom|bis|zum|ab|der|den|dem)\s\d{1,2}\.$", re.IGNORECASE)

_SPACED = ("de", "es", "fr", "nl", "en")
# Their most frequent words are Spanish, French or English too: letter groups tell them.
_SPELT = frozenset({"it", "pt"})
# Letters that hardly occur in the other languages.
_SIGNS = {
    "de": "\u00e4\u00f6\u00fc\u00df",
    "es": "\u00e1\u00ed\u00f3\u00fa\u00f1\u00bf\u00a1",
    "fr": "\u00e0\u00e8\u00e7\u00ea\u0153",
    "nl": "\u0133",
}
WORD = re.compile(rf"\d+(?:[.:,]\d+)*|[{UNSPACED}]+|[^\W\d_{UNSPACED}]+(?:\d+[^\W_{UNSPACED}]*)?")
_HAN_NUMBERS = "\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341\u767e\u5343\u4e07\u4e24\u96f6"
_KANA = re.compile("[\u3041-\u30ff]")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_LONGEST_TERM = 6


def split_sentences(text: str) -> list[str]:
    """Return the sentences in the first 2,000 characters of a text, at most twelve."""
    found: list[str] = []
    for piece in map(str.strip, _SENTENCE_END.split(text[:_READ_CHARACTERS])):
        if found and piece[:1].islower() and _DAY.search(found[-1]):
            found[-1] += f" {piece}"
        elif piece:
            found.append(piece)
    return found[:_MAX_SENTENCES]


def language_of(sentence: str, folded: str) -> str:
    """Return the language of a folded sentence: by its script, or that of most of its words; by default English."""
    if UNSPACED_CHARACTER.search(folded):
        return JAPANESE if _KANA.search(folded) else CHINESE
    if _CYRILLIC.search(folded):
        return "ru"
    spelt = text_language(sentence)
    if spelt in _SPELT:
        return spelt
    tokens = WORD.findall(folded)
    return max(
        _SPACED,
        key=lambda language: (
            sum(map(function_words(language).__contains__, tokens))
            + (sentence.isascii() / 2 if language == "en" else 2 * any(sign in sentence for sign in _SIGNS[language]))
            # A word of it may be English or German ("met", "dank").
            - (language == "nl" and spelt != "nl")
        ),
    )


def equally_likely_languages(sentence: str, folded: str) -> list[str]:
    """Return the languages that are equally likely by the words of a folded sentence; empty if one is likelier.

    A few words may be Spanish or English ("he"), French or Spanish.
    """
    if UNSPACED_CHARACTER.search(folded) or _CYRILLIC.search(folded) or text_language(sentence) in _SPELT:
        return []
    tokens = WORD.findall(folded)
    counts = {language: sum(map(function_words(language).__contains__, tokens)) for language in _SPACED}
    most = max(counts.values())
    found = [language for language in _SPACED if counts[language] == most]
    return found if most and len(found) > 1 else []


def find_words(folded: str, language: str) -> Iterator[tuple[str, int]]:
    """Yield words and their offsets; in unspaced scripts numbers, dates and single characters."""
    for match in WORD.finditer(folded):
        if language in WITHOUT_BLANKS and UNSPACED_CHARACTER.match(match.group()):
            pieces = _unspaced().finditer(match.group())
            yield from ((piece.group(), match.start() + piece.start()) for piece in pieces)
        else:
            yield match.group(), match.start()


@cache
def _unspaced() -> re.Pattern[str]:
    dates = sorted((date for date in shared_words("dates") if UNSPACED_CHARACTER.match(date)), key=len, reverse=True)
    return re.compile(
        "|".join(
            [
                *dates,
                f"[{_HAN_NUMBERS}]{{2,}}|[{_HAN_NUMBERS}](?=[\u70b9\u5143\u53f7\u6708\u6642\u5186\u6b73])",
                "[\u30a1-\u30ff]+",
                ".",
            ]
        )
    )


def term_of(token: str, language: str) -> str:
    """Return the stem of a folded word; in languages with many endings, its first letters."""
    if language in (ENGLISH, *WITHOUT_BLANKS) or not token.isalpha():
        return stem(token) if language == ENGLISH else token
    short, long = (4, 6) if language == "ru" else (5, 8)
    ending = (len(token) >= short) + (len(token) >= long)
    return token[: min(len(token) - ending, _LONGEST_TERM)]


def is_number(token: str) -> bool:
    """Tell whether a word is a number, in digits or in letters."""
    return (
        token[0].isdigit()
        or token in shared_words("numbers")
        or (token[0] in _HAN_NUMBERS and token[-1] in _HAN_NUMBERS)
    )
