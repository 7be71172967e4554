"""The best facts of a run and its question as the signals of confidence read them (CONF-4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from recall_loop.policy.evidence.coverage import synonym_stems
from recall_loop.policy.evidence.pool_entries import entry_terms, entry_window_terms
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.facts.persons.told_persons import tells_of
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType, QuerySource
from recall_loop.text.words.stop_words import first_person_balance
from recall_loop.text.words.tokens import content_words, stems

BEST_DEPTH = 10
_SOURCE_FIELDS = ("author", "subject", "label")


@dataclass(frozen=True)
class SignalInputs:
    """The best facts and the question, as sets of stems."""

    ranked: Sequence[RankedEntry]
    question: AnalysedQuestion

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The records of the best ten facts."""
        return [item.entry["record"] for item in self.ranked[:BEST_DEPTH]]

    @cached_property
    def scores(self) -> list[float]:
        """The facts' scores, best first."""
        return [item.score for item in self.ranked]

    @cached_property
    def similarities(self) -> list[float]:
        """How similar each of the best ten is to the question."""
        return [_similarity(item.entry) for item in self.ranked[:BEST_DEPTH]]

    @cached_property
    def question_terms(self) -> list[str]:
        """The stems of the question's words, without names."""
        found = stems(" ".join(content_words(self.question.text)), self.question.stated_language)
        return sorted(set(found) - self.question.name_terms)

    @cached_property
    def question_groups(self) -> list[frozenset[str]]:
        """The question's words, each with its one-word synonyms, as stems."""
        table, language = self.question.table, self.question.language
        return [frozenset({term, *synonym_stems(term, table, language)}) for term in self.question_terms]

    @cached_property
    def own_terms(self) -> list[frozenset[str]]:
        """The stems of each fact's own text, and of the asked kind where it names something of it."""
        kind = self.question.kind
        return [entry_terms(item.entry) | kind.stems_if_mentioned(item.entry["record"]["text"]) for item in self.ranked]

    @cached_property
    def window_terms(self) -> list[frozenset[str]]:
        """The stems of the windows of the best ten facts."""
        return [entry_window_terms(item.entry) for item in self.ranked[:BEST_DEPTH]]

    @cached_property
    def from_named(self) -> list[bool]:
        """Whether each of the best ten comes from, or is about, somebody that the question names.

        What somebody says of another speaker is about that one: "Lena is allergic to nuts".
        """
        sources = (" ".join(str(record.get(key) or "") for key in _SOURCE_FIELDS) for record in self.records)
        return [
            bool(self.question.name_terms & set(stems(source)))
            or tells_of(record["text"], self.named_speakers, {*self.question_terms})
            for record, source in zip(self.records, sources, strict=True)
        ]

    @cached_property
    def named_speakers(self) -> frozenset[str]:
        """The stems of the authors of the best ten messages that the question names."""
        authors = (record.get("author") for record in self.records if record["kind"] == ContentType.MESSAGE)
        known = (stems(author) for author in authors if author)
        return frozenset().union(*(self.question.name_terms.intersection(author) for author in known))

    @cached_property
    def rarity(self) -> dict[str, float]:
        """The weight of each question word: higher if few of the facts have it."""
        count = len(self.own_terms)
        return {
            term: math.log(1 + count / (0.5 + sum(term in terms for terms in self.own_terms)))
            for term in self.question_terms
        }

    @cached_property
    def self_reference(self) -> list[float]:
        """How far each of the best ten is about its own author or subject, from 0 to 1.

        Only a message speaks to somebody; any other record is about whom it names as its subject.
        """
        return [
            (1.0 + first_person_balance(record["text"])) / 2.0 if record["kind"] == ContentType.MESSAGE else 1.0
            for record in self.records
        ]

    @cached_property
    def has_speaker(self) -> list[bool]:
        """Whether each of the best ten has an author or a subject; a passage without either is nobody's."""
        return [bool(record.get("author") or record.get("subject")) for record in self.records]

    def share(self, terms: frozenset[str]) -> float:
        """Return the share of the question's words that are in `terms`."""
        return mean_of([float(term in terms) for term in self.question_terms])

    def share_with_synonyms(self, terms: frozenset[str]) -> float:
        """Return the share of the question's words that are in `terms`, themselves or as a one-word synonym."""
        return mean_of([float(not terms.isdisjoint(group)) for group in self.question_groups])

    def rare_share(self, terms: frozenset[str]) -> float:
        """Return the same share, with each word weighted by its rarity."""
        total = math.fsum(self.rarity.values())
        return math.fsum(weight for term, weight in self.rarity.items() if term in terms) / total if total else 0.0


def _similarity(entry: PoolEntry) -> float:
    """Return a fact's similarity to the question, leaving out matches of a language model's queries."""
    own = [match["similarity"] for match in entry["matches"] if match["source"] != QuerySource.LLM]
    return entry["similarity"] if len(own) == len(entry["matches"]) else max(own, default=0.0)


def mean_of(values: Sequence[float]) -> float:
    """Return the mean, 0 of nothing."""
    return fmean(values) if values else 0.0
