"""What a sentence states: its subject matter, its values, and the marks that something has changed (LIVE-4).

Word lists of six languages stand in `change_markers.json`. A language is told by its script, or by its most frequent
words; in any other language only numbers, names and equal wording count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise

from recall_loop.policy.facts.change_words import (
    find_marks,
    find_topics,
    function_words,
    is_negated_at,
    past_pattern,
    shared_words,
)
from recall_loop.policy.facts.sentences import split_sentences
from recall_loop.text.words.folding import UNSPACED, fold
from recall_loop.text.words.languages import ENGLISH
from recall_loop.text.words.stemming import stem

_LANGUAGES = ("en", "de", "es", "fr", "zh", "ru")
_SPACED = ("de", "es", "fr", "en")
# Letters that are written in hardly any other of these languages.
_SIGNS = {
    "de": "\u00e4\u00f6\u00fc\u00df",
    "es": "\u00e1\u00ed\u00f3\u00fa\u00f1\u00bf\u00a1",
    "fr": "\u00e0\u00e8\u00e7\u00ea\u0153",
}
_TOKEN = re.compile(rf"\d+(?:[.:,]\d+)*|[{UNSPACED}]+|[^\W\d_{UNSPACED}]+(?:\d+[^\W_{UNSPACED}]*)?")
_HAN = re.compile(rf"[{UNSPACED}]")
_HAN_NUMBERS = "\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341\u767e\u5343\u4e07\u4e24\u96f6"
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_QUESTION = ("?", "\uff1f")
_OPENING = 3
_NEAR = 6
_LEAST_WORDS = 3
_LONGEST_TERM = 6
# A clause has a subject, a verb, and what it says of them.
_LEAST_CLAUSE = 3


@dataclass(frozen=True)
class Statement:
    """One sentence; what it states is worked out when it is asked for, since most sentences are soon ruled out."""

    text: str

    @cached_property
    def _folded(self) -> str:
        return fold(self.text)

    @cached_property
    def language(self) -> str:
        """Its language, as far as so short a text shows it."""
        return _language(self.text, self._folded)

    @cached_property
    def _likely(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.language, *_as_likely(self._folded))))

    @cached_property
    def _found(self) -> list[tuple[str, int]]:
        return list(_tokens(self._folded, self.language))

    @cached_property
    def _marks(self) -> dict[str, frozenset[int]]:
        found = [find_marks(self._folded, language) for language in self._likely]
        kinds = frozenset().union(*found)
        return {kind: frozenset().union(*(each.get(kind, frozenset()) for each in found)) for kind in kinds}

    @cached_property
    def _marked(self) -> frozenset[int]:
        return frozenset().union(*self._marks.values())

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Its words in order, folded; numbers and dates are one sign each, so that frames can be compared."""
        dates = shared_words("dates")
        return tuple("#" if token in dates or _is_number(token) else token for token, _ in self._found)

    @cached_property
    def ordered(self) -> tuple[tuple[str, str], ...]:
        """Its words in order, folded, each with its stem."""
        return tuple((token, _term(token, self.language)) for token, _ in self._found)

    @cached_property
    def unmarked(self) -> tuple[tuple[str, str], ...]:
        """The same without marks of change."""
        kept = (token for token, at in self._found if at not in self._marked)
        return tuple((token, _term(token, self.language)) for token in kept)

    @cached_property
    def changing(self) -> frozenset[str]:
        """The stems of its words that a change is said of right behind them; none in English, where it may be of less.

        What changes with "our dance moved us" is no dance school, while other languages have what matters most first.
        """
        places = self._marks.get("change", frozenset()) if self.language != ENGLISH else frozenset()
        pairs = pairwise(self._found)
        return frozenset(_term(token, self.language) for (token, _), (_, at) in pairs if at in places)

    @cached_property
    def clauses(self) -> tuple[Statement, ...]:
        """What it says on either side of "and" or the like, if the rest begins with a subject; else itself alone."""
        pieces = tuple(Statement(piece.strip()) for piece in _clause_end().split(self.text))
        own = all(len(each.tokens) >= _LEAST_CLAUSE for each in pieces)
        return pieces if own and all(each.possessive or each.speaks for each in pieces[1:]) else (self,)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all its words: whatever `terms` holds but topics, and more."""
        return frozenset(term for _, term in self.ordered)

    @cached_property
    def topics(self) -> frozenset[str]:
        """The topics that it touches, in a form that no word has."""
        return frozenset().union(*(find_topics(self._folded, language) for language in self._likely))

    @cached_property
    def _content(self) -> frozenset[str]:
        words, dates, marked = function_words(self.language), shared_words("dates"), self._marked
        return frozenset(
            _term(token, self.language)
            for token, at in self._found
            if token not in words and token not in dates and not _is_number(token) and at not in marked
        )

    @cached_property
    def terms(self) -> frozenset[str]:
        """Its topics and its content words, stemmed, without marks of change, numbers and dates."""
        return self._content | self.topics

    @cached_property
    def opening(self) -> frozenset[str]:
        """Those of its content words that are among its first words."""
        first = [(token, at) for token, at in self._found[:_OPENING] if at not in self._marked]
        return self._content.intersection(_term(token, self.language) for token, _ in first)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Its numbers."""
        return frozenset(token for token, _ in self._found if _is_number(token))

    @cached_property
    def dates(self) -> frozenset[str]:
        """Its weekdays, months and times of day."""
        return shared_words("dates").intersection(token for token, _ in self._found)

    @cached_property
    def denied(self) -> frozenset[str]:
        """Those of its numbers and dates that it denies: 20 in "on the 27th, not the 20th"."""
        values = self.numbers | self.dates
        return frozenset(
            token
            for token, at in self._found
            if token in values and any(is_negated_at(self._folded, at, language) for language in self._likely)
        )

    @cached_property
    def capitalised(self) -> frozenset[str]:
        """Its capitalised words, except at the beginning."""
        return _capitalised(self.text)

    @cached_property
    def names(self) -> frozenset[str]:
        """The same as far as they are names; none in German, where all nouns are capitalised."""
        return self.capitalised if self.language != "de" else frozenset()

    @property
    def marks(self) -> frozenset[str]:
        """The kinds of marks of change in it."""
        return frozenset(self._marks)

    @property
    def mark(self) -> str:
        """The first such mark, folded."""
        return _first_mark(self._folded, self._marked)

    @cached_property
    def acting(self) -> frozenset[str]:
        """The stems of the words before its first mark of change: who changed something, or what changed."""
        first = min(self._marked, default=0)
        return frozenset(_term(token, self.language) for token, at in self._found if at < first)

    @cached_property
    def changed(self) -> str:
        """The stem of the first content word behind that mark; empty where another clause begins with "I" or "we"."""
        first, speakers = min(self._marked, default=0), shared_words("speakers")
        function = function_words(self.language)
        behind = (token for token, at in self._found if at > first and at not in self._marked)
        word = next((token for token in behind if token not in function or token in speakers), "")
        return "" if word in speakers else _term(word, self.language)

    @cached_property
    def near(self) -> frozenset[str]:
        """The terms within a few words of such a mark."""
        return _near(self._found, self._marked, self.language)

    @cached_property
    def brief(self) -> bool:
        """Whether it has the length of a statement and isn't a question: `tells` needs that."""
        return not self.text.endswith(_QUESTION) and len(self._found) >= _LEAST_WORDS

    @cached_property
    def possessive(self) -> bool:
        """Whether it begins with a word such as `my`."""
        return bool(self._found) and self._found[0][0] in shared_words("possessives")

    @cached_property
    def speaks(self) -> bool:
        """Whether it begins with a word such as `I`."""
        return bool(self._found) and self._found[0][0] in shared_words("speakers")

    @cached_property
    def tells(self) -> bool:
        """Whether it says something: a greeting or an exclamation doesn't."""
        return self.brief and bool(self.terms or self.numbers or self.dates)


@lru_cache(maxsize=4096)
def read_statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a text: its first sentences, at most twelve."""
    return tuple(map(Statement, split_sentences(text)))


def _first_mark(folded: str, marked: frozenset[int]) -> str:
    """Return the first unbroken run of marked signs."""
    end = start = min(marked, default=0)
    while end in marked:
        end += 1
    return folded[start:end].strip()


def _near(found: list[tuple[str, int]], marked: frozenset[int], language: str) -> frozenset[str]:
    """Return the terms that stand near a mark."""
    places = [index for index, (_, at) in enumerate(found) if at in marked]
    near = (token for index, (token, _) in enumerate(found) if any(abs(index - place) <= _NEAR for place in places))
    return frozenset(_term(token, language) for token in near)


def _language(sentence: str, folded: str) -> str:
    """Return the language of a folded sentence: by script, or that of most of its words; English if none stands out."""
    if _HAN.search(folded):
        return "zh"
    if _CYRILLIC.search(folded):
        return "ru"
    tokens = _TOKEN.findall(folded)
    return max(
        _SPACED,
        key=lambda language: (
            sum(map(function_words(language).__contains__, tokens))
            + (sentence.isascii() / 2 if language == "en" else 2 * any(sign in sentence for sign in _SIGNS[language]))
        ),
    )


def _as_likely(folded: str) -> list[str]:
    """Return the languages to which equally many words of a folded sentence belong, if more than one: "he" is of two.

    A few words don't tell whether they are Spanish or English, French or Spanish.
    """
    if _HAN.search(folded) or _CYRILLIC.search(folded):
        return []
    tokens = _TOKEN.findall(folded)
    counts = {language: sum(map(function_words(language).__contains__, tokens)) for language in _SPACED}
    most = max(counts.values())
    found = [language for language in _SPACED if counts[language] == most]
    return found if most and len(found) > 1 else []


def _tokens(folded: str, language: str) -> Iterator[tuple[str, int]]:
    """Yield words and where they begin; in unspaced scripts numbers, dates and single signs."""
    for match in _TOKEN.finditer(folded):
        if language == "zh" and _HAN.match(match.group()):
            pieces = _unspaced().finditer(match.group())
            yield from ((piece.group(), match.start() + piece.start()) for piece in pieces)
        else:
            yield match.group(), match.start()


@cache
def _unspaced() -> re.Pattern[str]:
    dates = sorted((date for date in shared_words("dates") if _HAN.match(date)), key=len, reverse=True)
    return re.compile("|".join([*dates, f"[{_HAN_NUMBERS}]{{2,}}|[{_HAN_NUMBERS}](?=[\u70b9\u5143\u53f7\u6708])", "."]))


def _term(token: str, language: str) -> str:
    if language in ("en", "zh") or not token.isalpha():
        return stem(token) if language == "en" else token
    short, long = (4, 6) if language == "ru" else (5, 8)
    ending = (len(token) >= short) + (len(token) >= long)
    return token[: min(len(token) - ending, _LONGEST_TERM)]


def _is_number(token: str) -> bool:
    return (
        token[0].isdigit()
        or token in shared_words("numbers")
        or (token[0] in _HAN_NUMBERS and token[-1] in _HAN_NUMBERS)
    )


def _capitalised(sentence: str) -> frozenset[str]:
    words = [match.group() for match in _TOKEN.finditer(sentence)]
    names = (fold(word) for word in words[1:] if word[0].isupper() and word != "I")
    return frozenset(names) - shared_words("dates")


@cache
def _clause_end() -> re.Pattern[str]:
    return re.compile(rf",?\s(?:{'|'.join(sorted(shared_words('conjunctions')))})\s|，|；|;\s")


def is_in_past_tense(question: str) -> bool:
    """Tell whether a question has a frequent verb in the past: "did", "was", in five languages; Chinese has none."""
    return not shared_words("past_tense").isdisjoint(_TOKEN.findall(fold(question)))


@lru_cache(maxsize=1024)
def asks_of_the_past(question: str) -> bool:
    """Tell whether a question asks how things used to be: "before", "used to", "originally", in six languages."""
    folded = fold(question)
    language = _language(question, folded)
    return bool(past_pattern(language).search(folded))
