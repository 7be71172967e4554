"""Typo tolerance of the lexical retriever: a query's words with similar words of the vocabulary (SEARCH-2).

Numbers, words with digits, words of fewer than four letters, function words, and everything inside an
e-mail address, a path or a name with an underscore stay as typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from rapidfuzz.distance import OSA

from recall_loop.memory.search.query.lexical import TermGroup
from recall_loop.memory.search.query.spelling import MAX_LENGTH, Variant, Vocabulary, has_digit
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH, stop_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import text_language, word_forms, words
from recall_loop.text.words.verb_forms import other_forms, word_events

MAX_VARIANTS = 8
# Weights of variants at one and at two steps; an exact match has 1.
WEIGHTS = {1: 0.6, 2: 0.3}
# Weight of a character of a longer word, a mere hint of its meaning.
_PART = 0.3
# Weight of an event that may imply the state in question.
_EVENT = 0.5
SHORTEST = 4
SHORTEST_FOR_TWO = 6
_INFLECTIONS = (
    *("s", "es", "e", "ed", "d", "ing", "y", "ies", "ied"),
    *("er", "ly", "ion", "ation", "ity", "ment", "ness", "al", "ful", "ence", "ance", "able", "ive", "ous"),
)
# A digit, a character of addresses and names in code, or a path: `/` followed by another or by a dot.
_LOCKED = re.compile(r"[\d@_\\]|/.*[/.]\w")
_WORD = re.compile(r"[^\s,;:!?()\[\]{}<>\"\u201c\u201d.\-\u2013\u2014/&+=*#|~]+")


def expand_query(query: str, vocabulary: Vocabulary, level: int, language: str | None = None) -> list[TermGroup]:
    """Return one group for each distinct stem of `query`, in order (SEARCH-2).

    Level 0 gives each stem alone. Level 1 adds stems at one step from words of four letters or more
    that the vocabulary hardly knows: that no row has, or that a near stem outnumbers 50 times. Level 2 adds
    them to every such word, and stems at two steps to words of six letters or more. At most eight are
    added to a term, with weight 0.6 at one step and 0.3 at two. The language is detected unless it is given.
    """
    locked = _locked(query) if level else frozenset()
    groups: dict[str, TermGroup] = {}
    for word, forms in _query_forms(query, language):
        if forms[0] not in groups:
            near = _variants(word, vocabulary, level, locked) if level else ()
            typos = ((each.stem, WEIGHTS[each.steps]) for each in near if each.stem not in forms)
            events = _event_stems(word, forms, language or text_language(query))
            groups[forms[0]] = TermGroup(forms[0], (*((form, 1.0) for form in forms), *events, *typos))
    return list(groups.values())


def _event_stems(word: str, forms: tuple[str, ...], language: str) -> list[tuple[str, float]]:
    """Return the one-word events that begin the state named by a word, with their weight."""
    events = sorted(word_events(word, language).difference(forms))
    return [(event, _EVENT) for event in events if " " not in event]


def term_groups(query: str, language: str | None = None) -> list[TermGroup]:
    """Return one group for each distinct stem of `query`, in order, with its other forms as the only variants."""
    code = language or text_language(query)
    groups: dict[str, TermGroup] = {}
    for word, (own, *others) in _query_forms(query, language):
        forms = ((form, _PART if len(form) == 1 < len(own) else 1.0) for form in (own, *others))
        if own not in groups:
            groups[own] = TermGroup(own, (*forms, *_event_stems(word, (own, *others), code)))
    return list(groups.values())


def _query_forms(query: str, language: str | None) -> list[tuple[str, tuple[str, ...]]]:
    """Return the words of a query as `word_forms` does, with the other forms of irregular verbs."""
    code = language or text_language(query)
    return [(word, (*forms, *sorted(other_forms(forms[0], code)))) for word, forms in word_forms(query, language)]


def corrected_query(query: str, vocabulary: Vocabulary, level: int) -> str | None:
    """Return `query` with the words that are likely misspelt replaced by their best variant, else None.

    Only words that the vocabulary hardly knows are replaced, at level 2 as at level 1, so that a correct word stays.
    The vocabulary has stems; the inflected form that is nearest to the typed word is inserted, with the same capitals.
    """
    if not level:
        return None
    locked = _locked(query)

    def replaced(match: re.Match[str]) -> str:
        return _corrected(match[0], vocabulary, level, locked)

    corrected = _WORD.sub(replaced, query)
    return corrected if corrected != query else None


def _locked(query: str) -> frozenset[str]:
    """Return the words of addresses, paths and identifiers, which must not be corrected."""
    return frozenset(word for run in query.split() if _LOCKED.search(run) for word in words(run))


def _variants(word: str, vocabulary: Vocabulary, level: int, locked: frozenset[str]) -> tuple[Variant, ...]:
    if not _correctable(word, locked):
        return ()
    if level == 1:
        return vocabulary.likely_corrections(word, 1)[:MAX_VARIANTS]
    return vocabulary.variants(word, _most(word, level))[:MAX_VARIANTS]


def _correctable(word: str, locked: frozenset[str]) -> bool:
    known = word in locked or stem(word) in _function_stems()
    return SHORTEST <= len(word) <= MAX_LENGTH and not known and not has_digit(word)


def _most(word: str, level: int) -> int:
    return 2 if level == 2 and len(word) >= SHORTEST_FOR_TWO else 1


def _corrected(typed: str, vocabulary: Vocabulary, level: int, locked: frozenset[str]) -> str:
    """Return one run of the query in its correct spelling; the part after an apostrophe is kept."""
    folded, found = fold(typed), words(typed)
    if len(found) != 1 or not folded.startswith(found[0]) or len(folded) != len(typed):
        return typed
    word = found[0]
    if word in stop_words(ENGLISH) or not _correctable(word, locked):
        return typed
    likely = vocabulary.likely_corrections(word, _most(word, level))
    if not likely:
        return typed
    return _capitals(_form(likely[0].stem, word), typed[: len(word)]) + typed[len(word) :]


def _form(text: str, word: str) -> str:
    """Return the inflected form of a stem that is nearest to `word`."""
    forms = [text, *(form for form in _inflected(text) if stem(form) == text)]
    return min(forms, key=lambda form: OSA.distance(form, word))


def _inflected(text: str) -> Iterator[str]:
    if not text.isascii():
        return
    for ending in _INFLECTIONS:
        yield text + ending
        yield text[:-1] + ending
        yield text + text[-1] + ending


def _capitals(text: str, typed: str) -> str:
    if len(typed) > 1 and typed.isupper():
        return text.upper()
    return text[0].upper() + text[1:] if typed[0].isupper() else text


@cache
def _function_stems() -> frozenset[str]:
    return frozenset(map(stem, stop_words(ENGLISH)))
