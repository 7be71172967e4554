"""Which property a question asks for, and of whom or what (CONF-3)."""

from __future__ import annotations

from recall_loop.policy.confidence.asked_properties import AskedProperty, asked_property, is_word_of, owner_before
from recall_loop.policy.evidence.coverage import synonym_stems
from recall_loop.policy.evidence.pool_entries import entry_terms, entry_window_terms
from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.text.names.name_spans import TITLES
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.words.languages import WITHOUT_BLANKS
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import content_words, text_language, words


def property_of(question: AnalysedQuestion) -> AskedProperty | None:
    """Return the property for which a question asks; None where it is another one."""
    return asked_property(question.text, question.language, question.asked)


def asked_of(question: AnalysedQuestion) -> frozenset[str]:
    """Return the stems of the names in a question, and of all words for the relatives in it."""
    language, known = question.language, person_words().get(question.language)
    if known is None:
        return question.name_terms
    titles = _titles_in(question)
    persons = {person_stem(word, language, known) for word in words(question.text) if word not in titles}
    groups = {known.kin[person] for person in persons if person in known.kin}
    names = question.name_terms - {stem(word, language) for word in TITLES}
    return names.union(stem(word, language) for word, group in known.kin.items() if group in groups)


def _titles_in(question: AnalysedQuestion) -> frozenset[str]:
    """Return the titles that stand before names: "Frau" Blum is nobody's wife, but "meine Frau" Anna is."""
    before = zip(["", *words(question.text)], words(question.text), strict=False)
    titles = {word for owner, word in before if word in TITLES and owner not in shared_words("possessives")}
    return frozenset(titles) if question.name_terms else frozenset()


def is_about(subject: frozenset[str], entry: PoolEntry) -> bool:
    """Tell whether a record has a word of the subject, or a pronoun that may stand for one next to it."""
    if not subject.isdisjoint(entry_terms(entry)):
        return True
    text = entry["record"]["text"]
    if text_language(text) in WITHOUT_BLANKS and any(len(term) > 1 and term in text for term in subject):
        return True  # no blanks tell its words apart, so that a rare name may be taken for part of one
    known = person_words().get(text_language(text))
    refers = known is None or not known.third.isdisjoint(words(text))
    return refers and not subject.isdisjoint(entry_window_terms(entry))


def bearer_of(question: AnalysedQuestion, wanted: AskedProperty) -> frozenset[str]:
    """Return the stems of whose property is asked for: of a name that of what has it, else that of whom is named.

    Where nobody is, it is that of a thing ("the cat").
    """
    language, named = question.language, question.name_terms
    asked = [word for word in content_words(question.text) if not is_word_of(wanted, word, language)]
    owner = owner_before(wanted, question.text, language)
    asked = [owner] if owner in asked else asked
    things = {stem(word, language) for word in asked} - named
    whose = asked_of(question)
    if things and (wanted is AskedProperty.NAME or not whose):
        return frozenset(things).union(*(synonym_stems(word, question.table, language) for word in asked))
    return whose
