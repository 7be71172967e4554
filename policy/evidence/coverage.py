"""Coverage: which parts of a request the retrieved evidence supports (STOP-5).

A request has facets: each name (weight 2), each noun phrase (1), each time (1.5) and the kind of answer that
is asked for (1). Question words are no facets. A facet is supported by ONE record, never by pieces of
several, and only by one whose window also holds a name of the question (the anchor):

- name: all its stems stand in the window, or are the author, subject or label;
- phrase: two thirds of its stems, or their synonyms, stand in the window;
- time: the record was made in that time, or its text names a time that overlaps it;
- answer: the record supports a phrase (where the question has none: a name), and its own text has a date (or
  the record a time), a number, or a name that the question doesn't have. A bare "when?" has nothing that a
  record could be about, so nothing supports it.

`coverage` is the supported share of the weight, in [0,1]. A request without facets has coverage 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from recall_loop.policy.question.periods import READ_CHARACTERS, matches_time
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.agent_state import Facet, PoolEntry
from recall_loop.text.names.phrases import find_entities
from recall_loop.text.time.time_expressions import TimeExpression, has_date
from recall_loop.text.words.related_terms import RelatedTermsTable, related_terms
from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.tokens import stem, stems, words

NAME, PHRASE, TIME, ANSWER = "name", "phrase", "time", "answer"
_WEIGHTS = {NAME: 2.0, PHRASE: 1.0, TIME: 1.5, ANSWER: 1.0}
_PHRASE_SHARE = 2 / 3
_NUMBER_WORDS = word_set(
    """one two three four five six seven eight nine ten eleven twelve dozen twenty thirty forty fifty hundred
    thousand million once twice first second third couple"""
)
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Coverage:
    """Supported share of the request, of all evidence and of the best single record; open facets by name."""

    score: float
    best_single: float
    uncovered: tuple[str, ...]


def extract_facets(question: AnalysedQuestion) -> list[Facet]:
    """Return the facets of a question."""
    facets = [_facet(name, NAME) for name in question.names]
    facets += [_facet(phrase, PHRASE, question.table) for phrase in question.phrases]
    facets += [_facet(time.text, TIME) for time in question.times]
    if question.asked:
        facets.append(_facet(question.asked, ANSWER))
    return [facet for facet in facets if facet["terms"] or facet["kind"] == TIME]


def _facet(text: str, kind: str, table: RelatedTermsTable | None = None) -> Facet:
    terms = list(dict.fromkeys(stems(text)))
    other = {term: _synonyms(term, table) for term in terms} if kind == PHRASE else {}
    return {
        "text": text,
        "kind": kind,
        "terms": terms,
        "alternatives": {term: found for term, found in other.items() if found},
        "weight": _WEIGHTS[kind],
    }


def _synonyms(term: str, table: RelatedTermsTable | None) -> list[str]:
    """Return the stems of a term's one-word synonyms."""
    single = (synonym for synonym in related_terms(term, table).synonyms if " " not in synonym)
    return sorted({stem(word) for synonym in single for word in words(synonym)[:1]})


def measure_coverage(
    facets: Sequence[Facet], entries: Iterable[PoolEntry], times: Sequence[TimeExpression]
) -> Coverage:
    """Return what `entries` support of `facets`; `times` are the question's own."""
    return compute_coverage(facets, map(FacetMatcher(facets, times), entries))


def compute_coverage(facets: Sequence[Facet], supported_by: Iterable[frozenset[int]]) -> Coverage:
    """Return the coverage, given the indices of the facets that each record supports."""
    total = sum(facet["weight"] for facet in facets)
    supported: set[int] = set()
    single = 0.0
    for mine in supported_by:
        supported |= mine
        single = max(single, sum(facets[index]["weight"] for index in mine))
    if total <= 0.0:
        return Coverage(0.0, 0.0, ())
    weight = sum(facets[index]["weight"] for index in supported)
    open_facets = tuple(facet["text"] for index, facet in enumerate(facets) if index not in supported)
    return Coverage(_share(weight, total), _share(single, total), open_facets)


def supported_facets(facets: Sequence[Facet], entry: PoolEntry, times: Sequence[TimeExpression]) -> frozenset[int]:
    """Return the indices of the facets that one record supports; `FacetMatcher` is quicker for many."""
    return FacetMatcher(facets, times)(entry)


class FacetMatcher:
    """Tells which facets a record supports; what only the facets decide is worked out once."""

    def __init__(self, facets: Sequence[Facet], times: Sequence[TimeExpression]) -> None:
        """`times` are the question's own."""
        kinds = [(index, facet, facet["kind"]) for index, facet in enumerate(facets)]
        self._names = [(index, frozenset(facet["terms"])) for index, facet, kind in kinds if kind == NAME]
        self._phrases = [(index, facet) for index, facet, kind in kinds if kind == PHRASE]
        self._times = [(index, _named_time(facet["text"], times)) for index, facet, kind in kinds if kind == TIME]
        self._answers = [(index, facet["text"]) for index, facet, kind in kinds if kind == ANSWER]
        self._asked = {term for _, facet, kind in kinds if kind != ANSWER for term in facet["terms"]}

    def __call__(self, entry: PoolEntry) -> frozenset[int]:
        """Return the indices of the facets that `entry` supports."""
        window = entry_window_terms(entry)
        found = {index for index, terms in self._names if terms <= window}
        if self._names and not found:
            return frozenset()
        phrases = {index for index, facet in self._phrases if _has_phrase(facet, window)}
        found |= phrases
        found |= {index for index, wanted in self._times if wanted is not None and matches_time(entry, wanted)}
        if phrases if self._phrases else found:
            found |= {index for index, kind in self._answers if _has_answer(kind, entry, self._asked)}
        return frozenset(found)


def entry_text(entry: PoolEntry) -> str:
    """Return the text of a record with its author, subject and label."""
    record = entry["record"]
    parts = [
        record.get("author"),
        record.get("subject"),
        record.get("label"),
        record["text"][:READ_CHARACTERS],
    ]
    return " ".join(part for part in parts if part)


def entry_terms(entry: PoolEntry) -> frozenset[str]:
    """Return the stems of a record's own text."""
    return _terms(entry_text(entry))


def entry_window_terms(entry: PoolEntry) -> frozenset[str]:
    """Return the stems of a record's window, its own included."""
    return entry_terms(entry) | _terms(entry["window"][: 3 * READ_CHARACTERS])


@lru_cache(maxsize=8192)
def _terms(text: str) -> frozenset[str]:
    return frozenset(stems(text))


def _share(part: float, total: float) -> float:
    return round(min(part / total, 1.0), 6)


def _has_phrase(facet: Facet, window: frozenset[str]) -> bool:
    found = [
        term for term in facet["terms"] if term in window or window.intersection(facet["alternatives"].get(term, ()))
    ]
    return len(found) >= _PHRASE_SHARE * len(facet["terms"])


def _named_time(text: str, times: Sequence[TimeExpression]) -> TimeExpression | None:
    return next((time for time in times if time.text == text), None)


@lru_cache(maxsize=4096)
def _dated(text: str) -> bool:
    return has_date(text)


@lru_cache(maxsize=4096)
def _numbered(text: str) -> bool:
    return bool(_DIGIT.search(text)) or bool(_NUMBER_WORDS & set(words(text)))


def _has_answer(kind: str, entry: PoolEntry, asked: set[str]) -> bool:
    text = entry["record"]["text"][:READ_CHARACTERS]
    if kind == "date":
        return entry["record"].get("created_at") is not None or _dated(text)
    if kind == "number":
        return _numbered(text)
    author = entry["record"].get("author") or ""
    return bool(_terms(author) - asked) or any(_terms(name) - asked for name in _entities(text))


@lru_cache(maxsize=4096)
def _entities(text: str) -> tuple[str, ...]:
    return tuple(find_entities(text))


def entry_entities(entry: PoolEntry) -> tuple[str, ...]:
    """Return what a record names: its label or title first, then the entities of its text."""
    label = entry["record"].get("label")
    return tuple(dict.fromkeys([*([label] if label else []), *_entities(entry["record"]["text"][:READ_CHARACTERS])]))
