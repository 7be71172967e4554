"""Irregular verbs: the stems of one verb, since no stemmer knows that "isst" is a form of "essen" (OPEN-4).

The verbs are in `verb_forms.tsv`, for languages in which notes ("Ich esse kein Fleisch") and questions ("Was
isst Jonas nicht?") seldom share a form. English ones are among the related terms (`related_terms.py`).

Stemmers don't know either that "Papa" is one's father: everyday words with the same meaning are in `same_words.tsv`.

People often state how a state began: "I moved to Oslo" says where I live. The verbs for each state are in `events.tsv`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

from recall_loop.text.packaged_data import packaged_text
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH
from recall_loop.text.words.stemming import stem


def other_forms(word_stem: str, language: str) -> frozenset[str]:
    """Return the other stems of a stem's irregular verb, or of words with the same meaning; usually none."""
    return _forms().get(language, {}).get(word_stem, frozenset()) - {word_stem}


def event_stems(word_stem: str, language: str, *, who: bool = False) -> frozenset[str]:
    """Return the events by which notes imply a stem's state: stems, with blanks between several words.

    With `who`, events without another person are left out: "I moved to Oslo" doesn't say who I live with.
    """
    found = _events(who).get(language, {}).get(word_stem, frozenset())
    return found - {word_stem}


def word_events(word: str, language: str) -> frozenset[str]:
    """Return the event stems of a folded word; for English, those of any language, since a short text may be in it."""
    codes = _events(False) if language == ENGLISH else (language,)
    return frozenset().union(*(event_stems(stem(word, code), code) for code in codes))


@cache
def _events(who: bool) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return, by language and stem of a state, the stems of its events."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for language, states, event_words, *impersonal in _lines("events.tsv"):
        # A short note may be mistaken for an English one, and is then stemmed as such.
        events = {
            " ".join(stem(part, code) for part in event.split("+"))
            for event in event_words.split()
            for code in (language, ENGLISH)
        }
        for word in states.split() if not (who and impersonal) else ():
            found[language][stem(word, language)] |= events
    return _frozen(found)


def _lines(name: str) -> Iterator[list[str]]:
    text = packaged_text(__package__, name)
    return (fold(line).split("\t") for line in text.splitlines() if line and not line.startswith("#"))


def _frozen(found: Mapping[str, Mapping[str, set[str]]]) -> Mapping[str, Mapping[str, frozenset[str]]]:
    return {code: {each: frozenset(of) for each, of in words.items()} for code, words in found.items()}


@cache
def _forms() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return, by language and stem, all stems of the verb, or of the verbs that share this form."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for language, forms in (*_lines("verb_forms.tsv"), *_lines("same_words.tsv")):
        stems = {stem(form, language) for form in forms.split()}
        for each in stems:
            found[language][each] |= stems
    return _frozen(found)
