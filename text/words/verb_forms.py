"""Irregular verbs: which stems are of one verb, since no stemmer tells that "isst" is a form of "essen" (OPEN-4).

The verbs stand in `verb_forms.tsv`, of languages in which notes ("Ich esse kein Fleisch") and questions ("Was
isst Jonas nicht?") seldom share a form. English ones are among the related terms (`related_terms.py`).

Neither does one tell that "Papa" is one's father: everyday words that mean the same stand in `same_words.tsv`.

A state is told as often by how it began: "I moved to Oslo" tells where I live. Which verbs tell of which state stands
in `events.tsv`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH
from recall_loop.text.words.stemming import stem


def other_forms(word_stem: str, language: str) -> frozenset[str]:
    """Return the other stems of the irregular verb that a stem is of, or of words for the same; mostly none."""
    return _forms().get(language, {}).get(word_stem, frozenset()) - {word_stem}


def event_stems(word_stem: str, language: str, *, who: bool = False) -> frozenset[str]:
    """Return by what events notes tell of the state that a stem is of: stems, of several words with blanks between.

    With `who` those are left out that tell of no person: asked whom I live with, "I moved to Oslo" is no answer.
    """
    found = _events(who).get(language, {}).get(word_stem, frozenset())
    return found - {word_stem}


def word_events(word: str, language: str) -> frozenset[str]:
    """Return the event stems of a folded word; of any language where a text of too few words is taken for English."""
    codes = _events(False) if language == ENGLISH else (language,)
    return frozenset().union(*(event_stems(stem(word, code), code) for code in codes))


@cache
def _events(who: bool) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return by language and stem of a state the stems of its events."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for language, asked, told, *answers in _lines("events.tsv"):
        # A short note may be taken for an English one, and its words are stemmed so.
        events = {
            " ".join(stem(part, code) for part in event.split("+"))
            for event in told.split()
            for code in (language, ENGLISH)
        }
        for word in asked.split() if not (who and answers) else ():
            found[language][stem(word, language)] |= events
    return _frozen(found)


def _lines(name: str) -> Iterator[list[str]]:
    text = files("recall_loop.text.words").joinpath(name).read_text(encoding="utf-8")
    return (fold(line).split("\t") for line in text.splitlines() if line and not line.startswith("#"))


def _frozen(found: Mapping[str, Mapping[str, set[str]]]) -> Mapping[str, Mapping[str, frozenset[str]]]:
    return {code: {each: frozenset(of) for each, of in words.items()} for code, words in found.items()}


@cache
def _forms() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return by language and stem all stems of the verb, or of the verbs that share this form."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for language, forms in (*_lines("verb_forms.tsv"), *_lines("same_words.tsv")):
        stems = {stem(form, language) for form in forms.split()}
        for each in stems:
            found[language][each] |= stems
    return _frozen(found)
