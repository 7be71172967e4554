"""The content of a sentence: its terms, its values, and the marks of a change (LIVE-4).

Word lists of each known language are in `change_markers.json`. A language is recognised by its script, its most
frequent words or its letter groups; in any other language only numbers, names and equal wording count.
"""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise

from recall_loop.policy.facts.change_words import (
    date_words,
    find_marks,
    find_topics,
    function_words,
    is_negated_at,
    past_pattern,
    prices_in,
    shared_words,
)
from recall_loop.policy.facts.sentences import (
    WORD,
    equally_likely_languages,
    find_words,
    is_number,
    language_of,
    split_sentences,
    term_of,
)
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH

# Separators of clauses; not the comma or the colon of a number.
_BREAK = re.compile(r"[,;:](?!\d)|\s[-\u2013\u2014]\s|[\uff0c\uff1b]")
_LATER = "later"
_QUESTION = ("?", "\uff1f")
_OPENING = 3
_NEAR = 6
_MIN_WORDS = 3
# A clause has a subject, a verb and an object.
_MIN_CLAUSE = 3


@dataclass(frozen=True)
class Statement:
    """One sentence; its properties are computed on demand, since most sentences are soon ruled out."""

    text: str

    @cached_property
    def _folded(self) -> str:
        return fold(self.text)

    @cached_property
    def language(self) -> str:
        """Its language, as far as so short a text shows it."""
        return language_of(self.text, self._folded)

    @cached_property
    def _likely(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.language, *equally_likely_languages(self.text, self._folded))))

    @cached_property
    def _found(self) -> list[tuple[str, int]]:
        return list(find_words(self._folded, self.language))

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
        """Its words in order, folded; numbers and dates are replaced by "#", so that frames can be compared."""
        dates = date_words(self.language)
        return tuple("#" if token in dates or is_number(token) else token for token, _ in self._found)

    @cached_property
    def ordered(self) -> tuple[tuple[str, str], ...]:
        """Its words in order, folded, each with its stem."""
        return tuple((token, term_of(token, self.language)) for token, _ in self._found)

    @cached_property
    def runs(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The same without marks of change, in pieces separated by commas and the like."""
        pieces: list[list[tuple[str, str]]] = [[] for _ in range(len(self._breaks) + 1)]
        for token, at in self._found:
            if at not in self._marked:
                pieces[bisect(self._breaks, at)].append((token, term_of(token, self.language)))
        return tuple(map(tuple, pieces))

    @cached_property
    def _breaks(self) -> tuple[int, ...]:
        return tuple(match.start() for match in _BREAK.finditer(self._folded))

    @cached_property
    def changing(self) -> frozenset[str]:
        """The stems of the words right before a mark of change; none in English, where they may not be what changes.

        "Our dance moved us" is no change of a dance school; other languages put the main word first.
        """
        places = self._marks.get("change", frozenset()) if self.language != ENGLISH else frozenset()
        pairs = pairwise(self._found)
        return frozenset(term_of(token, self.language) for (token, _), (_, at) in pairs if at in places)

    @cached_property
    def clauses(self) -> tuple[Statement, ...]:
        """Its parts around "and" or the like, if each further one begins with a subject; else the whole sentence."""
        pieces = tuple(Statement(piece.strip()) for piece in _clause_end().split(self.text))
        own = all(len(each.tokens) >= _MIN_CLAUSE for each in pieces)
        return pieces if own and all(each.possessive or each.speaks for each in pieces[1:]) else (self,)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all its words: a superset of `terms` without topics."""
        return frozenset(term for _, term in self.ordered)

    @cached_property
    def topics(self) -> frozenset[str]:
        """Its topics, in a form that no word has."""
        return frozenset().union(*(find_topics(self._folded, language) for language in self._likely))

    @cached_property
    def _content(self) -> frozenset[str]:
        words, dates, marked = function_words(self.language), date_words(self.language), self._marked
        return frozenset(
            term_of(token, self.language)
            for token, at in self._found
            if token not in words and token not in dates and not is_number(token) and at not in marked
        )

    @cached_property
    def terms(self) -> frozenset[str]:
        """Its topics and its content words, stemmed, without marks of change, numbers and dates."""
        return self._content | self.topics

    @cached_property
    def opening(self) -> frozenset[str]:
        """Those of its content words that are among its first words."""
        first = [(token, at) for token, at in self._found[:_OPENING] if at not in self._marked]
        return self._content.intersection(term_of(token, self.language) for token, _ in first)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Its numbers."""
        return frozenset(token for token, _ in self._found if is_number(token))

    @cached_property
    def dates(self) -> frozenset[str]:
        """Its weekdays, months and times of day."""
        return date_words(self.language).intersection(token for token, _ in self._found)

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
        """Its capitalised words, as names; none in German, where all nouns are capitalised."""
        return self.capitalised if self.language != "de" else frozenset()

    @property
    def marks(self) -> frozenset[str]:
        """The kinds of marks of change in it; a mark that something is only later counts as a change."""
        return frozenset("change" if kind == _LATER else kind for kind in self._marks)

    @property
    def only_later(self) -> bool:
        """Whether it only says that something is later: a change if a time was stated before."""
        return self._marks.keys() == {_LATER}

    @cached_property
    def prices(self) -> frozenset[str]:
        """The kinds of payment that it mentions: rent, pay, dues."""
        return frozenset().union(*(prices_in(self._folded, language) for language in self._likely))

    @property
    def mark(self) -> str:
        """Its first mark of change, folded."""
        return _first_mark(self._folded, self._marked)

    @cached_property
    def acting(self) -> frozenset[str]:
        """The stems of the words before its first mark of change: who changed something, or what changed."""
        first = min(self._marked, default=0)
        return frozenset(term_of(token, self.language) for token, at in self._found if at < first)

    @cached_property
    def changed(self) -> str:
        """The stem of the first content word after that mark, up to a comma; empty for a value, "I" and "we"."""
        first, speakers = min(self._marked, default=0), shared_words("speakers")
        function = function_words(self.language)
        end = next((at for at in self._breaks if at > first), len(self._folded))
        after = (token for token, at in self._found if first < at < end and at not in self._marked)
        word = next((token for token in after if token not in function or token in speakers), "")
        is_value = word in self.numbers | self.dates
        return "" if is_value or word in speakers else term_of(word, self.language)

    @cached_property
    def near(self) -> frozenset[str]:
        """The terms within a few words of a mark of change."""
        return _near(self._found, self._marked, self.language)

    @cached_property
    def brief(self) -> bool:
        """Whether it is long enough for a statement and isn't a question; `is_informative` requires it."""
        return not self.asks and len(self._found) >= _MIN_WORDS

    @property
    def asks(self) -> bool:
        """Whether it ends as a question."""
        return self.text.endswith(_QUESTION)

    @cached_property
    def possessive(self) -> bool:
        """Whether it begins with a word such as `my`."""
        return bool(self._found) and self._found[0][0] in shared_words("possessives")

    @cached_property
    def speaks(self) -> bool:
        """Whether it begins with a word such as `I`."""
        return bool(self._found) and self._found[0][0] in shared_words("speakers")

    @cached_property
    def is_informative(self) -> bool:
        """Whether it states something: a greeting or an exclamation doesn't."""
        return self.brief and bool(self.terms or self.numbers or self.dates)


@lru_cache(maxsize=4096)
def read_statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a text: its first sentences, at most twelve."""
    return tuple(map(Statement, split_sentences(text)))


def _first_mark(folded: str, marked: frozenset[int]) -> str:
    """Return the first unbroken run of marked characters."""
    end = start = min(marked, default=0)
    while end in marked:
        end += 1
    return folded[start:end].strip()


def _near(found: list[tuple[str, int]], marked: frozenset[int], language: str) -> frozenset[str]:
    """Return the terms near a mark."""
    places = [index for index, (_, at) in enumerate(found) if at in marked]
    near = (token for index, (token, _) in enumerate(found) if any(abs(index - place) <= _NEAR for place in places))
    return frozenset(term_of(token, language) for token in near)


def _capitalised(sentence: str) -> frozenset[str]:
    words = [match.group() for match in WORD.finditer(sentence)]
    names = (fold(word) for word in words[1:] if word[0].isupper() and word != "I")
    return frozenset(names) - shared_words("dates") - shared_words("continuing")


@cache
def _clause_end() -> re.Pattern[str]:
    return re.compile(rf",?\s(?:{'|'.join(sorted(shared_words('conjunctions')))})\s|，|；|;\s")


def is_in_past_tense(question: str) -> bool:
    """Tell whether a question has a frequent past-tense verb ("did", "was"), where verbs have one; Chinese has none."""
    return not shared_words("past_tense").isdisjoint(WORD.findall(fold(question)))


def asks_about_past(question: str) -> bool:
    """Tell whether a question asks how things used to be ("before", "used to", "originally")."""
    return bool(past_words(question))


@lru_cache(maxsize=1024)
def past_words(question: str) -> frozenset[str]:
    """Return the stems of the words by which a question asks how things used to be; none where it doesn't."""
    folded = fold(question)
    language = language_of(question, folded)
    found = past_pattern(language).finditer(folded)
    return frozenset(term_of(word, language) for match in found for word in WORD.findall(match[0]) or [match[0]])
