"""The language of a text, recognised by script, stop words and letter groups, and the function words of each (OPEN-4).

A text in Latin letters is classified by its stop words and names of months and weekdays, and by its letter groups with
naive Bayes (Lui & Baldwin 2012). It is English unless another language is clearly more likely. Only the text counts, so
that the same text always has the same language.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

from recall_loop.text.packaged_data import packaged_table, packaged_text
from recall_loop.text.words.folding import fold
from recall_loop.text.words.stop_words import ASKING_WORDS, STOP_WORDS

ENGLISH, CHINESE, DUTCH, GERMAN, JAPANESE = "en", "zh", "nl", "de", "ja"
WITHOUT_BLANKS = frozenset({CHINESE, JAPANESE})
"""Languages with words here that no blanks separate."""
# Scripts that are assigned to one language: its words can't be mistaken for another's.
_SCRIPTS = (
    ("zh", re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")),
    ("ja", re.compile("[\u3041-\u30ff\u31f0-\u31ff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
)
_UNMISTAKABLE = ("zh", "ru")
# Further words change nothing.
_READ_WORDS = 200
# A stop word that English doesn't have counts as much as two that it has.
_SURE, _LOAN = 2, 1
# The languages in language-ngrams.tsv, the step of its figures, and its character for 0.
NGRAM_LANGUAGES = ("en", "de", "es", "fr", "it", "nl", "pt")
NGRAM_STEP = 0.125
_ZERO = ord("P")
_READ_CHARACTERS = 400
_LONGEST_GROUP = 5
_LOWER_WORD = re.compile(r"(?<![^\W_])[a-z\u00df-\u00f6\u00f8-\u00ff]")
# Weight of a sign by stop words relative to letter groups; the prior for English, and a further one divided by the
# number of words. With so many more signs for English, letter groups aren't compared.
_SIGN_WEIGHT, _ENGLISH_BONUS, _SHORT_BONUS, _ENGLISH_SIGNS = 0.6, 0.8, 1.5, 8
# Only Spanish has them.
_INVERTED = frozenset("\u00a1\u00bf")
# Most characters of a question that may ask for a name.
_NAMING_CHARACTERS = 300
_VALUE_KINDS = ("date", "number")
_WORD = re.compile(r"[^\W_]+")
_HIRAGANA = re.compile("[\u3041-\u309f]{2,}")


@dataclass(frozen=True)
class LanguageWords:
    """The words of one language, folded; see `languages.toml`.

    Attributes:
        stop: its stop words, question words included.
        question: its question words.
        asking: verbs of asking and reporting.
        going: verbs of going.
        pronouns: pronouns of the third person.
        numbers: numbers in words.
        amounts: words for how much, many or often without a number.
        naming: pattern of questions for a name; its group is the word that asks for it. Empty = none.
        answers: patterns of questions by the kind of answer that they ask for, as written.
        who_is: pattern of a whole question who a person is whom it names, `{name}`. Empty = none.
        lists: pattern of questions for a list; its first non-empty group is the kind. Empty = none.
        things: pattern of questions for a thing of a kind; its group is the kind. Empty = none.
        loans: its stop words that English text has too.
        months: patterns of the names of months, as written, from January; empty = none.
        weekdays: the same for weekdays, from Monday.
    """

    stop: frozenset[str]
    question: frozenset[str]
    asking: frozenset[str]
    going: frozenset[str]
    pronouns: frozenset[str]
    numbers: frozenset[str]
    amounts: frozenset[str]
    answers: Mapping[str, str]
    naming: str
    who_is: str
    lists: str
    things: str
    loans: frozenset[str]
    months: tuple[str, ...]
    weekdays: tuple[str, ...]

    @classmethod
    def from_lists(cls, lists: Mapping[str, Any]) -> LanguageWords:
        """Return the words of one table of `languages.toml`."""
        names = ("question", "asking", "going", "pronouns", "numbers", "amounts", "loans")
        found: dict[str, Any] = {name: _indexed(lists.get(name, "")) for name in names}
        stop = _indexed(lists["stop"]) | found["question"]
        answers = MappingProxyType(lists.get("answers", {}))
        patterns = {name: lists.get(name, "") for name in ("naming", "who_is", "lists", "things")}
        months, weekdays = (tuple(lists.get(name, "").split()) for name in ("months", "weekdays"))
        return cls(stop=stop, answers=answers, months=months, weekdays=weekdays, **patterns, **found)

    @property
    def calendar(self) -> frozenset[str]:
        """The names of its months and weekdays, folded, if they are plain words."""
        named = (form for names in (*self.months, *self.weekdays) for form in names.split("|"))
        return frozenset(fold(name) for name in named if name.isalpha())


def _indexed(listed: str) -> frozenset[str]:
    """Return listed words, folded, with the pairs of characters that stand for those in hiragana in an index."""
    found = fold(listed).split()
    pairs = (word[at : at + 2] for word in found if _HIRAGANA.fullmatch(word) for at in range(len(word) - 1))
    return frozenset((*found, *pairs))


@cache
def language_words() -> Mapping[str, LanguageWords]:
    """Return the words of each language except English, by its code (ISO 639-1)."""
    tables = packaged_table(__package__, "languages.toml").items()
    return {code: LanguageWords.from_lists(lists) for code, lists in tables}


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language, always with those of English, Chinese and Russian."""
    return STOP_WORDS.union(*(known.stop for known in _applying(language)))


@cache
def asking_words(language: str) -> frozenset[str]:
    """Return the verbs of asking and reporting of a language, and of the languages that `stop_words` always has."""
    return ASKING_WORDS.union(*(known.asking for known in _applying(language)))


@cache
def motion_verbs(language: str) -> frozenset[str]:
    """Return a language's verbs of motion: with another word they add nothing to the content ("go running")."""
    known = language_words().get(language)
    return frozenset(["go", "goes", "going", "went", "gone"]) if known is None else known.going


_ENGLISH_NAMING = r"what\b.*\b(called|named)\b|what\b.*\bthe\s+(names?)\s+of\b|what\b.*['\u2019]s\s+(names?)\b"


@lru_cache(maxsize=1024)
def naming_words(question: str, language: str) -> frozenset[str]:
    """Return the words by which a question asks for a name, a date or a number, folded; usually none.

    "Called" in "what is my dog called?", "день" in "в какой день хор?": the subjects are the dog and the choir. A cat
    that "is called" something is no better an answer than "my dog is Rex".
    """
    known = language_words().get(language)
    pattern = known.naming if known else _ENGLISH_NAMING if language == ENGLISH else ""
    found = re.search(rf"\b(?:{pattern})", question[:_NAMING_CHARACTERS], re.IGNORECASE) if pattern else None
    named = frozenset(fold(group) for group in found.groups() if group) if found else frozenset()
    return named | (_kind_words(question[:_NAMING_CHARACTERS], known) if known else frozenset())


def _kind_words(question: str, known: LanguageWords) -> frozenset[str]:
    """Return the words for the kind of answer that a question asks for; stop words don't matter."""
    patterns = (known.answers[kind] for kind in _VALUE_KINDS if kind in known.answers)
    matches = (match for pattern in patterns for match in re.finditer(pattern, question, re.IGNORECASE))
    return frozenset(word for match in matches for word in _WORD.findall(fold(match.group())))


def _applying(language: str) -> list[LanguageWords]:
    known = language_words()
    always = () if language == JAPANESE else _UNMISTAKABLE  # Chinese stop words may be content words in Japanese
    return [known[code] for code in dict.fromkeys((*always, language)) if code in known]


def language_of(text: str, words: Sequence[str]) -> str:
    """Return the language of a text: a code of ISO 639-1, `en` if nothing indicates another.

    Args:
        text: the text as written; in Latin letters the first 400 characters are read.
        words: its words, folded; the first 200 are read.
    """
    sample = frozenset(words[:_READ_WORDS])
    foreign = [word for word in sample if not word.isascii()]
    if foreign:
        scripts = Counter(filter(None, (_script(word[0]) for word in foreign)))
        if scripts[JAPANESE]:  # written in both
            scripts[JAPANESE] += scripts.pop(CHINESE, 0)
        code, count = max(scripts.items(), key=lambda item: item[1], default=(ENGLISH, 0))
        if 2 * count >= len(sample):
            return code
    return _latin_language(text, sample)


@lru_cache(maxsize=8192)
def _script(character: str) -> str | None:
    return next((code for code, pattern in _SCRIPTS if pattern.match(character)), None)


def _latin_language(text: str, sample: Set[str]) -> str:
    head = text[:_READ_CHARACTERS]
    signs = _signs(head, sample)
    if signs[ENGLISH] - max(signs[code] for code in NGRAM_LANGUAGES if code != ENGLISH) >= _ENGLISH_SIGNS:
        return ENGLISH
    # A single word, or words that are all capitalised, may be a name, which doesn't indicate the text's language.
    is_text = len(sample) > 1 and _LOWER_WORD.search(head)
    spelt = _letter_scores(head) if is_text else [0.0] * len(NGRAM_LANGUAGES)
    scores = {code: score + _SIGN_WEIGHT * signs[code] for code, score in zip(NGRAM_LANGUAGES, spelt, strict=True)}
    scores[ENGLISH] += _ENGLISH_BONUS + _SHORT_BONUS / max(len(sample), 1)
    return max(scores, key=scores.__getitem__)


def _signs(text: str, sample: Set[str]) -> Counter[str]:
    """Return the number of signs, by words and punctuation, for each language in Latin letters."""
    signs, markers = Counter({ENGLISH: _SURE * len(sample & STOP_WORDS)}), _markers()
    for word in sample & markers.keys():
        for code, weight in markers[word]:
            signs[code] += weight
    if not _INVERTED.isdisjoint(text):
        signs["es"] += 2 * _SURE
    return signs


@cache
def _markers() -> Mapping[str, tuple[tuple[str, int], ...]]:
    """Return for each stop word the languages in Latin letters that it indicates, and its weight."""
    found: dict[str, list[tuple[str, int]]] = {}
    for code, known in language_words().items():
        if code not in _UNMISTAKABLE:
            for word in known.stop | known.calendar:
                loan = len(word) == 1 or word not in known.stop or word in known.loans or word in STOP_WORDS
                found.setdefault(word, []).append((code, _LOAN if loan else _SURE))
    return {word: tuple(languages) for word, languages in found.items()}


def _letter_scores(text: str) -> list[float]:
    """Return the log-likelihoods of a text's letter groups for each of `NGRAM_LANGUAGES`, relative to their mean.

    At each position the longest group that ends there counts. The sums are divided by the square root of the text's
    length, so that they stay comparable.
    """
    known, spelt = _ngrams(), unicodedata.normalize("NFC", text.lower())
    counts: dict[str, int] = {}
    for end in range(1, len(spelt) + 1):
        for start in range(max(0, end - _LONGEST_GROUP), end):
            if (group := spelt[start:end]) in known:
                counts[group] = counts.get(group, 0) + 1
                break
    scores = [0.0] * len(NGRAM_LANGUAGES)
    for group, count in counts.items():
        weight = math.log1p(count)
        for at, step in enumerate(known[group]):
            scores[at] += weight * (step - _ZERO)
    scale = NGRAM_STEP / math.sqrt(max(len(spelt.encode("utf-8", "replace")), 1))
    return [score * scale for score in scores]


@cache
def _ngrams() -> Mapping[str, bytes]:
    """Return for each letter group its figures for `NGRAM_LANGUAGES`, in steps, as in the file."""
    lines = packaged_text(__package__, "language-ngrams.tsv").split("\n")
    pairs = (line.split("\t") for line in lines if line and not line.startswith("# "))
    return {group: steps.encode("ascii") for group, steps in pairs}
