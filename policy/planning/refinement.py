"""Changes of a refinement besides its queries, without a language model, and their reasons (LOOP-6).

- spelling: if no record has a word of the question, but one has a word that differs by a typo, the question is searched
  again with that word, and the call's words are looked up with the same tolerance;
- threshold: while nothing found reaches `novelty_min_similarity`, facts are new from `refine_relaxation` of it on;
- inferred filters: searches within a time that the question names are repeated for all times. The caller's own filters
  always stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from recall_loop.policy.planning.query_forms import (
    PART_WEIGHT,
    content_query,
    main_query,
    make_query,
    shorten_query,
    without_times,
)
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PlannedQuery
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import QuerySource, SearchMode
from recall_loop.text.names.name_spans import ordinary_words
from recall_loop.text.words.related_terms import RelatedTerms, related_terms
from recall_loop.text.words.tokens import words

# One typo in a word. At two, a rare name that memory doesn't have would soon become another that it has.
SPELLING_LEVEL = 1
# Reasons that a misspelt question may cause; it doesn't cause fewer results or facts of low confidence.
_SPELLING_REASONS = frozenset(("no_results", "low_similarity", "nothing_new"))
_DIGITS = 6


@dataclass(frozen=True)
class Refinement:
    """The changes of one refinement.

    Attributes:
        reasons: why it is made (LOOP-5).
        corrected: the question with likely misspellings corrected, if there are any.
        min_similarity: similarity from which facts are new, in [0,1]; None = the settings' own.
        unfiltered: names of the inferred filters that are dropped.
    """

    reasons: tuple[str, ...] = ()
    corrected: str | None = None
    min_similarity: float | None = None
    unfiltered: tuple[str, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that it changes in the call."""
        values = {"fuzzy": SPELLING_LEVEL if self.corrected else None, "min_similarity": self.min_similarity}
        return {name: value for name, value in values.items() if value is not None}

    def notes(self) -> dict[str, Any]:
        """Return reasons and changes for plans, events and traces, without empty ones."""
        notes = {"reasons": list(self.reasons), "corrected": self.corrected, "dropped_filters": list(self.unfiltered)}
        return {name: value for name, value in notes.items() if value} | self.parameters()


NO_REFINEMENT = Refinement()


def may_be_misspelt(reasons: Sequence[str], settings: Settings) -> bool:
    """Tell whether a refinement should look for misspellings: not by vectors alone, and only for some reasons."""
    return settings.search_mode is not SearchMode.VECTOR and not _SPELLING_REASONS.isdisjoint(reasons)


def likely_slips(asked: str, corrected: str | None) -> str | None:
    """Return `corrected` with only the likely misspellings changed; None if there are none.

    A memory doesn't have every word of a language. So a common word is no typo; a change of the last letter alone is
    another form of the word; and typos rarely affect the first letter, in which other words differ (`Leute`, `heute`).

    Args:
        asked: the question as it was asked.
        corrected: the same question with unknown words replaced by words in memory; it has as many words.
    """
    typed, known = asked.split(), (corrected or asked).split()
    kept = [new if _is_slip(old, new) else old for old, new in zip(typed, known, strict=True)]
    return " ".join(kept) if kept != typed else None


def _is_slip(typed: str, known: str) -> bool:
    old, new = "".join(words(typed)), "".join(words(known))
    shared = min(len(old), len(new)) - 1
    is_word = old in ordinary_words() or related_terms(old) != RelatedTerms()
    return old[:1] == new[:1] and old[:shared] != new[:shared] and not is_word


def plan_refinement(
    question: AnalysedQuestion,
    reasons: Sequence[str],
    corrected: str | None,
    best_similarity: float,
    settings: Settings,
) -> Refinement:
    """Return what the next call changes.

    Args:
        question: the analysed request.
        reasons: why a refinement is made (LOOP-5).
        corrected: the question with likely misspellings corrected, or None.
        best_similarity: highest similarity of anything found so far, in [0,1].
        settings: has the thresholds.
    """
    floor = settings.novelty_min_similarity
    lowered = round(floor * settings.refine_relaxation, _DIGITS) if best_similarity < floor else floor
    return Refinement(
        reasons=tuple(reasons),
        corrected=corrected,
        min_similarity=lowered if lowered < floor else None,
        unfiltered=tuple(question.period or ()),
    )


def refined_queries(question: AnalysedQuestion, refinement: Refinement, longest: int) -> Iterator[PlannedQuery]:
    """Yield the queries for a refinement's changes, of at most `longest` characters."""
    if refinement.corrected:
        text = " ".join([*question.referents, content_query(refinement.corrected)])
        spoken = None if question.referents else refinement.corrected
        yield {**make_query(shorten_query(text, longest), QuerySource.PHRASE, PART_WEIGHT), "spoken": spoken}
    if refinement.unfiltered:
        text = without_times(main_query(question), question)
        yield make_query(shorten_query(text, longest), QuerySource.TEMPORAL)
