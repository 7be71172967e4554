"""Coverage: the share of a request that the retrieved evidence supports (STOP-5).

A request has facets: each name (weight 2), each noun phrase (1), each time (1.5) and the kind of answer it asks for
(1). Question words are not facets. A facet must be supported by one record, never by pieces of several. If the
question has names, that record's window must hold at least one of them (the anchor).

- name: all its stems occur in the window, or are the author, subject or label; a name in code in any spelling;
- phrase: two thirds of its stems, or their synonyms, occur in the window, if need be in English translations of words
  of either ("Geburtstag" for "birthday"); a synonym of several words ("belongs to" for
  "owns") word by word, and one that tells it from the other side with its preposition at some distance ("bought the
  barn from" for "sold"), so that an asked relation is covered in whatever words it is told;
- time: the record was made in that time, or its text names a time that overlaps it;
- answer: the record supports a phrase (a name if the question has no phrase), and its own text has a date (or the
  record a time), a number, or a name that isn't in the question. A bare "when?" has nothing that a record could be
  about, so nothing supports it.

`coverage` is the supported share of the weight, in [0,1]. A request without facets has coverage 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from recall_loop.policy.evidence.pool_entries import entry_text, entry_window_terms, indexed_terms
from recall_loop.policy.evidence.state_events import StateEvents
from recall_loop.policy.question.amounts import has_number
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.policy.question.periods import matches_time
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import Facet, PoolEntry
from recall_loop.text.gloss.glosses import english_of
from recall_loop.text.names.identifiers import spelt_apart
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.time.stated_times import says_when
from recall_loop.text.words.languages import ENGLISH, motion_verbs
from recall_loop.text.words.related_terms import RelatedTermsTable, related_terms, term_key
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import stem_line, stems, words
from recall_loop.text.words.verb_forms import other_forms

NAME, PHRASE, TIME, ANSWER = "name", "phrase", "time", "answer"
_WEIGHTS = {NAME: 2.0, PHRASE: 1.0, TIME: 1.5, ANSWER: 1.0}
_PHRASE_SHARE = 2 / 3
# Between a word and its preposition that tell something from the other side; and words that lie between at most.
_GAP, _MOST_BETWEEN = " * ", 7
_PREPOSITIONS = ("after", "at", "by", "for", "of", "to", "with")
# Letters that two words have in common at least, if they are of one family.
_LEAST_STEM = 3


@dataclass(frozen=True)
class Coverage:
    """Supported shares in [0,1], by all evidence and by the best single record, and the texts of the open facets."""

    score: float
    best_single: float
    uncovered: tuple[str, ...]


def extract_facets(question: AnalysedQuestion) -> list[Facet]:
    """Return the facets of a question."""
    language = question.language
    facets = [_facet(name, NAME, language) for name in question.names]
    asked = words(question.text)
    verbs = {first: f"{first} {second}" for first, second in pairwise(asked) if second in _PREPOSITIONS}
    going = motion_verbs(language)
    phrases = [phrase for phrase in question.phrases if not going.issuperset(words(phrase))] or question.phrases
    facets += [_facet(phrase, PHRASE, language, question.table, verbs) for phrase in phrases]
    facets += [_facet(time.text, TIME, language) for time in question.times]
    if question.asked:
        facets.append(_facet(question.asked.value, ANSWER, ENGLISH))
    return [facet for facet in facets if facet["terms"] or facet["kind"] == TIME]


def _facet(
    text: str,
    kind: str,
    language: str,
    table: RelatedTermsTable | None = None,
    verbs: Mapping[str, str] = MappingProxyType({}),
) -> Facet:
    """Return a facet; `verbs` are words of the question with the prepositions behind them (looks: looks after)."""
    terms = list(dict.fromkeys(stems(text, language)))
    if kind == PHRASE:
        terms = _matter(text, terms, language)
    asked = (word for word in words(text) if stem(word, language) in terms) if kind == PHRASE else ()
    synonyms = {
        term: sorted(
            {*_alternatives(word, table, verbs.get(word)), *other_forms(term, language), *_translations(word, language)}
        )
        for word, term in ((word, stem(word, language)) for word in asked)
    }
    return {
        "text": text,
        "kind": kind,
        "terms": terms,
        "alternatives": {term: alternatives for term, alternatives in synonyms.items() if alternatives},
        "weight": _WEIGHTS[kind],
    }


def _matter(phrase: str, terms: list[str], language: str) -> list[str]:
    """Return the stems of a phrase but for those of a verb of going beside another word."""
    going = {stem(word, language) for word in words(phrase) if word in motion_verbs(language)}
    return [term for term in terms if term not in going] or terms


def synonym_stems(term: str, table: RelatedTermsTable | None, language: str = ENGLISH) -> list[str]:
    """Return the stems of a term's one-word synonyms and, of another language than English, its translation."""
    single = (synonym for synonym in related_terms(term, table).synonyms if " " not in synonym)
    return sorted(
        {stem(word) for synonym in single for word in words(synonym)[:1]}.union(_translations(term, language))
    )


def _translations(word: str, language: str) -> list[str]:
    """Return the stem of a word's English translation, or of both parts as one of a compound's."""
    english = stems(english_of(word, language) or "", ENGLISH)
    return english if len(english) < 2 else [f" {' '.join(english)} "]


def _alternatives(word: str, table: RelatedTermsTable | None, verb: str | None = None) -> list[str]:
    """Return by what else a word may be told: stems, and those of several words with a space around each.

    `verb` is the word with the preposition that the question has behind it.
    """
    related = related_terms(word, table)
    told = [*related.synonyms, *related.also]
    if verb is not None:
        found = related_terms(verb, table)
        told += [*found.synonyms, *found.also]
    # By what is said of its family (owner: own, belongs to), and of itself before a preposition (employs: employed by).
    nearest = [other for other in related.also if _is_one_family(word, other)]
    nearest += [f"{word} {preposition}" for preposition in _PREPOSITIONS]
    for other in nearest:
        found = related_terms(other, table)
        told += [*found.synonyms, *found.also]
    keys = {term_key(other) for other in told} - {term_key(word)}
    apart = {key for other in related.converse for key in _apart(other, table)}
    return sorted({f" {key} " if " " in key else key for key in keys} | apart)


def _apart(converse: str, table: RelatedTermsTable | None) -> Iterator[str]:
    """Yield stems of a word, its forms and its synonyms, each with a gap and the preposition (bought … from)."""
    word, _, preposition = converse.rpartition(" ")
    related = related_terms(word, table)
    for other in (word, *related.synonyms, *related.also):
        if " " not in other:
            yield f" {term_key(other)}{_GAP}{preposition} "


def _is_one_family(word: str, other: str) -> bool:
    """Tell whether one of two words is the other with an ending, but for a letter (supply, supplier)."""
    common = max(min(len(word), len(other)) - 1, _LEAST_STEM)
    return word[:common] == other[:common]


def compute_coverage(facets: Sequence[Facet], supported_by: Iterable[frozenset[int]]) -> Coverage:
    """Return the coverage of `facets`, given for each record the indices of the facets it supports."""
    total = sum(facet["weight"] for facet in facets)
    supported: set[int] = set()
    best_single = 0.0
    for indices in supported_by:
        supported |= indices
        best_single = max(best_single, sum(facets[index]["weight"] for index in indices))
    if total <= 0.0:
        return Coverage(0.0, 0.0, ())
    weight = sum(facets[index]["weight"] for index in supported)
    uncovered = tuple(facet["text"] for index, facet in enumerate(facets) if index not in supported)
    return Coverage(_share(weight, total), _share(best_single, total), uncovered)


def _share(weight: float, total: float) -> float:
    return round(min(weight / total, 1.0), 6)


class FacetMatcher:
    """Finds the facets that a record supports; work that depends on the facets alone is done once."""

    def __init__(self, facets: Sequence[Facet], question: AnalysedQuestion) -> None:
        """`facets` are those of the question."""
        times, language = question.times, question.language
        spoken = sorted({language, ENGLISH})  # a name ends otherwise as a word of another language
        kinds = [(index, facet, facet["kind"]) for index, facet in enumerate(facets)]
        by_text = {time.text: time for time in reversed(times)}
        names = [(index, facet) for index, facet, kind in kinds if kind == NAME]
        self._names = [(index, frozenset(facet["terms"])) for index, facet in names]
        self._names += [
            (index, indexed_terms(spelt_apart(facet["text"]), each)) for index, facet in names for each in spoken
        ]
        self._phrases = [(index, facet) for index, facet, kind in kinds if kind == PHRASE]
        self._times = [(index, by_text.get(facet["text"])) for index, facet, kind in kinds if kind == TIME]
        self._answers = [(index, facet["text"]) for index, facet, kind in kinds if kind == ANSWER]
        self._question_terms = {term for _, facet, kind in kinds if kind != ANSWER for term in facet["terms"]}
        terms = {index: facet["terms"] for index, facet in self._phrases}
        who = any(text == AnswerKind.PERSON for _, text in self._answers)
        self._all_phrases = set(terms)
        self._kind = question.kind
        self._events = StateEvents(terms, language, self._question_terms, who=who)

    def __call__(self, entry: PoolEntry) -> frozenset[int]:
        """Return the indices of the facets that `entry` supports."""
        window = entry_window_terms(entry)
        supported = {index for index, terms in self._names if terms <= window}
        if self._names and not supported:
            return frozenset()
        phrases = self._worded(window, entry)
        if self._events.tells(self._all_phrases - phrases, entry["record"]["text"]):
            phrases = self._all_phrases
        supported |= phrases
        supported |= {index for index, time in self._times if time is not None and matches_time(entry, time)}
        if phrases if self._phrases else supported:
            supported |= {index for index, kind in self._answers if has_answer(kind, entry, self._question_terms)}
        return frozenset(supported)

    def misleads(self, entry: PoolEntry) -> bool:
        """Tell whether a record has an event that would tell a state that is asked for, but not in this case."""
        window = entry_window_terms(entry)
        left = {index for index, facet in self._phrases if not window.issuperset(facet["terms"])}
        return self._events.misleads(left, entry["record"]["text"])

    def _worded(self, window: frozenset[str], entry: PoolEntry) -> set[int]:
        told = self._kind.stems_if_mentioned(entry["record"]["text"])
        if self._kind.statement_pattern is not None:
            return set(self._all_phrases) if told else set()  # "I hate shopping" tells nothing to buy
        window = window | told
        return {index for index, facet in self._phrases if _has_phrase(facet, window, entry)}


def _has_phrase(facet: Facet, window: frozenset[str], entry: PoolEntry) -> bool:
    present = [term for term in facet["terms"] if term in window or _has_synonym(facet, term, window, entry)]
    return len(present) >= _PHRASE_SHARE * len(facet["terms"])


def _has_synonym(facet: Facet, term: str, window: frozenset[str], entry: PoolEntry) -> bool:
    alternatives = facet["alternatives"].get(term, ())
    if not window.isdisjoint(alternatives):
        return True
    several = [alternative for alternative in alternatives if " " in alternative]
    return bool(several) and any(_is_told(other, stem_line(part)) for part in _parts(entry) for other in several)


def _is_told(alternative: str, line: str) -> bool:
    first, gap, last = alternative.strip().partition(_GAP)
    if not gap:
        return alternative in line
    if f" {first} " not in line:
        return False
    told = line.split()
    return any(last in told[at + 1 : at + 2 + _MOST_BETWEEN] for at, term in enumerate(told) if term == first)


def _parts(entry: PoolEntry) -> tuple[str, str]:
    return entry_text(entry), entry["window"]


def has_answer(kind: str, entry: PoolEntry, question_terms: set[str]) -> bool:
    """Tell whether a record has what a question of a kind asks for: a date, a number, or a name that it doesn't say."""
    text = entry["record"]["text"]
    if kind == AnswerKind.DATE:
        return entry["record"].get("created_at") is not None or says_when(text)
    if kind == AnswerKind.NUMBER:
        return has_number(text)
    author = entry["record"].get("author") or ""
    return bool(indexed_terms(author) - question_terms) or any(
        indexed_terms(name) - question_terms for name in find_entities(text)
    )


def states_answer(kind: str, entry: PoolEntry, question_terms: set[str], *, asks_last: bool = False) -> bool:
    """Tell whether a record's own words have what a question of a kind asks for.

    When it was said is no date then, except where the last time of something is asked for.
    """
    in_words = kind == AnswerKind.DATE and not asks_last
    return says_when(entry["record"]["text"]) if in_words else has_answer(kind, entry, question_terms)
