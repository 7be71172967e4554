"""Whether a record that mentions a kind of thing says which one it is: "which car do I have?" (CONF-3).

"The car needs a service" shares the question's word but doesn't say which car. A mention answers such a question if it
has a modifier, a name nearby, or something after it that identifies the thing ("a bike. It's a Brompton").
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from recall_loop.policy.confidence.asked_properties import articles, auxiliaries
from recall_loop.policy.confidence.told_properties import clauses_of, sentences_of
from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.question.amounts import has_number
from recall_loop.policy.question.asked_kinds import asked_noun
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.speech.first_person import has_first_person
from recall_loop.text.time.stated_times import without_times
from recall_loop.text.words.languages import GERMAN, WITHOUT_BLANKS, stop_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import stems, text_language, words

# A clause of no more words behind the noun adds what it is: "una bici, la roja".
_ADDED = 2
# An article and its noun open a clause: what follows them is rather a verb ("the school called").
_OPENING = 2


def leaves_open_which(question: AnalysedQuestion, text: str) -> bool:
    """Tell whether a text mentions the thing that a question asks about ("which school?") and not which it is.

    Chinese and Japanese, which have neither articles nor capitals, are never taken to.
    """
    language = question.language
    noun = asked_noun(question.text, language) if question.asked is None and language not in WITHOUT_BLANKS else None
    if noun is None or text_language(text) != language or question.kind.stems_if_mentioned(text):
        return False
    wanted, told = stem(noun, language), sentences_of(without_times(text))
    places = [at for at, part in enumerate(told) if wanted in stems(part, language)]
    return bool(places) and not any(_says_which(told[at], told[at + 1 : at + 2], wanted, question) for at in places)


def _says_which(sentence: str, following: Sequence[str], wanted: str, question: AnalysedQuestion) -> bool:
    language, asked = question.language, {*words(question.text)}
    if any(not asked.issuperset(words(name)) for part in (sentence, *following) for name in find_entities(part)):
        return True
    clauses = [words(clause) for part in (sentence, *following) for clause in clauses_of(part)]
    with_noun = [at for at, clause in enumerate(clauses) if any(stem(word, language) == wanted for word in clause)]
    if any(_adds_which(clause, question, asked) for clause in clauses[min(with_noun, default=len(clauses)) + 1 :]):
        return True
    found = ["", *words(sentence), ""]
    places = [at for at, word in enumerate(found) if word and stem(word, language) == wanted]
    if any(_is_modified(found, at, question, asked) for at in places):
        return True
    return language != GERMAN and any(_is_described(clauses[at], wanted, question, asked) for at in with_noun)


def _adds_which(clause: Sequence[str], question: AnalysedQuestion, asked: set[str]) -> bool:
    told = {*clause} - asked - stop_words(question.language)
    return len(clause) <= _ADDED and len(told) == 1 and not has_first_person(" ".join(clause), question.language)


def _is_described(clause: Sequence[str], wanted: str, question: AnalysedQuestion, asked: set[str]) -> bool:
    """Tell whether a word right behind a noun that doesn't open its clause says which one: "tengo un coche rojo".

    In German that may be a verb.
    """
    neutral = asked | stop_words(question.language)
    behind = list(pairwise(clause))[_OPENING:]
    return any(stem(word, question.language) == wanted and after not in neutral for word, after in behind)


def _is_modified(found: Sequence[str], at: int, question: AnalysedQuestion, asked: set[str]) -> bool:
    """Tell whether a word before or behind a noun says which one is meant; its owner does, unless the owner asks."""
    language, before, after = question.language, found[at - 1], found[at + 1]
    stop = stop_words(language)
    if before in shared_words("possessives"):
        own = has_first_person(before, language) and has_first_person(question.text, language)
        if not own and before not in asked:
            return True
    elif before and before not in stop and before not in asked:
        return True
    return has_number(after) or (after in stop and after not in articles() and after not in auxiliaries())
