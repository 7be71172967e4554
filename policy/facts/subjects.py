"""Whether two statements are about the same subject: the same owner's thing, and the same aspect of it (LIVE-4).

"My neighbour sold his Volvo" changes nothing about the Volvo that I drive, "Our router has changed colour" nothing
about who made it, and "My brother lives in Paris now" nothing about where my sister lives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import pairwise

from recall_loop.policy.facts.change_words import find_topics, function_words, shared_words
from recall_loop.policy.facts.rarity import start_event_stems
from recall_loop.policy.facts.statement_similarity import beginning, has_other_kind, is_same_word
from recall_loop.policy.facts.wording import Statement
from recall_loop.text.speech.first_person import opens_in_first_person
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.words.languages import ENGLISH, WITHOUT_BLANKS
from recall_loop.text.words.tokens import words

# A more specific kind of a thing is written as so many words.
_SEVERAL = 2
_ONLY_NOW, _ONLY_CHANGE = {"now"}, {"change"}
_VERB_LAST = "de"
_NAME, _NAMING = "=name", ("en", "es", "fr", "it", "pt", "ru")
# Units after numbers in Chinese and Japanese.
_UNITS = frozenset("年月日号时点分元块个次岁曜時円歳回")
# Pairs of these are mostly endings.
_HIRAGANA = re.compile("[\u3041-\u309f]+")
# Words that precede an owner, and words that follow one.
_BEFORE_OWNER = tuple([word] for word in ("of", "von", "de", "del", "du", "d", "di", "\u0443"))
_AFTER_OWNER = (["s"], ["\u7684"], ["\u306e"])


def denies_value(older: Statement, newer: Statement) -> bool:
    """Tell whether a statement denies the older one's value and gives another: "it is on the 27th, not the 20th".

    It begins with the common subject, and needn't say that anything has changed.
    """
    if not newer.denied or older.terms.isdisjoint(newer.opening):
        return False
    pairs = ((older.numbers, newer.numbers), (older.dates, newer.dates))
    return any(old & new & newer.denied and new - old - newer.denied for old, new in pairs)


def same_subject_matter(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a change may affect what was stated, rather than something else about the same person.

    "Carla's swimming was moved to Tuesday" changes nothing about Carla's age: the shared word only names the owner. Nor
    does "Tom works from home now" change anything about Tom's diet: it states something new on another topic.
    """
    if any(differ(older, newer) for differ in _DIFFERENCES):
        return False
    persons = _person_terms(older)
    topics = (older.topics & newer.topics) - _topics_of(persons, older)
    shared = (
        _shared_words(older, newer) if older.language in WITHOUT_BLANKS else (older.terms & newer.terms) - older.topics
    )
    if older.language in WITHOUT_BLANKS and not (topics or shared):
        return False
    if _asks_about_other_part(older, topics, shared, question):
        return False
    if not topics and newer.topics - older.topics - question:
        if newer.marks == _ONLY_NOW:
            return bool(shared & question - {beginning(older)[0], beginning(newer)[0]} - persons)
        if _marks_on(older, newer) == _ONLY_CHANGE and shared <= persons | _named_terms(older) | _named_terms(newer):
            return False
    return not (_is_owner_alone(older.terms & newer.terms, newer) and _is_about_new_thing(older, newer, question))


def _marks_on(older: Statement, newer: Statement) -> frozenset[str]:
    """Return the marks of change in the clauses of a statement that share a term with the older one."""
    marks = [clause.marks for clause in newer.clauses if clause.terms & older.terms]
    return frozenset().union(*marks) if marks else newer.marks


def _asks_about_other_part(older: Statement, topics: Set[str], shared: Set[str], question: frozenset[str]) -> bool:
    """Tell whether a change is on one topic, and the question asks only about another part of the older statement.

    "We moved to Rome" changes where I live, but not the cat's name in "I live in Kiel with my cat Mimi". Without blanks
    equal terms may be one character of different words, so the answer is always no.
    """
    asked = question & older.terms
    if not topics or not asked or older.language in WITHOUT_BLANKS or not topics.isdisjoint(question):
        return False
    touching = (_topics_of(frozenset({term}), older) for term in asked)
    return all(map(topics.isdisjoint, touching)) and all(_topics_of(frozenset({term}), older) for term in shared)


def _is_about_another_time(older: Statement, newer: Statement) -> bool:
    """Tell whether a statement only says that something is later, and the older one gives no time."""
    return newer.only_later and not (older.numbers or older.dates)


def _is_about_another_price(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements share nothing but being about payments, of different kinds: a rent, a salary."""
    differ = older.prices and newer.prices and older.prices.isdisjoint(newer.prices)
    return bool(differ) and older.terms & newer.terms <= older.topics


def _has_no_name(older: Statement, newer: Statement) -> bool:
    """Tell whether only the older statement names something; not in German, where any noun may be a name."""
    only_older = _NAME in older.topics and _NAME not in newer.topics
    return only_older and newer.language in _NAMING and not (newer.names - older.names or older.marks)


_DIFFERENCES = (_is_about_another_time, _is_about_another_price, _has_no_name, has_other_kind)


def _named_terms(statement: Statement) -> frozenset[str]:
    return frozenset(term for word, term in statement.ordered if word in statement.names)


def _shared_words(older: Statement, newer: Statement) -> frozenset[str]:
    """Return the words that two statements without blanks share: a shared character alone may mean nothing."""
    first, second = ({*words(each.text)} - function_words(each.language) - _UNITS for each in (older, newer))
    return frozenset(
        word for word in first & second if not (word.isdigit() or word in newer.mark or _HIRAGANA.fullmatch(word))
    )


def _person_terms(statement: Statement) -> frozenset[str]:
    """Return the stems of the words for persons in a statement; without blanks, the words themselves."""
    known = person_words().get(statement.language)
    if known is None:
        return frozenset()
    if statement.language in WITHOUT_BLANKS:
        return frozenset(word for word in words(statement.text) if person_stem(word, statement.language, known))
    return frozenset(term for word, term in statement.ordered if person_stem(word, statement.language, known))


def _topics_of(terms: frozenset[str], statement: Statement) -> frozenset[str]:
    """Return the topics that some words of a statement have by themselves ("husband")."""
    found = (
        terms if statement.language in WITHOUT_BLANKS else {word for word, term in statement.ordered if term in terms}
    )
    return frozenset(topic for word in found for topic in find_topics(word, statement.language))


def _is_owner_alone(shared: frozenset[str], newer: Statement) -> bool:
    """Tell whether all words that a statement shares with another one name an owner."""
    found = [word for word, _ in newer.ordered]
    places = [at for at, (_, term) in enumerate(newer.ordered) if term in shared]
    return bool(places) and all(_names_owner(found, at, set(places)) for at in places)


def _names_owner(found: Sequence[str], at: int, places: Set[int]) -> bool:
    """Tell whether a word, or the name of several characters that it is part of, follows "of" or precedes "s"."""
    end = next(place for place in range(at + 1, len(found) + 1) if place not in places)
    return found[at - 1 : at] in _BEFORE_OWNER or found[end : end + 1] in _AFTER_OWNER


def _is_about_new_thing(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a statement is about a thing not mentioned before, and doesn't replace the older one's value."""
    if (older.numbers and newer.numbers) or (older.dates and newer.dates):
        return False
    return bool(newer.terms - newer.topics - older.stems - question)


def changes_another(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a change affects another thing, although both statements share a word.

    It does if the older statement only mentions whoever made the change, but not what they changed: "rented the flat
    from Pugh", "Pugh sold the building". It also does if a more specific kind of the thing changes: "milk comes at
    six", "oat milk: switched to another brand".
    """
    known, shared = older.stems | question, older.terms & newer.terms
    # In German the object of the speaker's change may precede the verb, too: "haben den Passat verkauft".
    own = newer.language == _VERB_LAST and (newer.speaks or opens_in_first_person(newer.text, _VERB_LAST))
    mentioned = not own and shared <= newer.acting and shared.isdisjoint(older.opening | question)
    if mentioned and newer.changed not in {"", *known}:
        return True
    content = [at for at, (_, term) in enumerate(newer.ordered) if term in newer.terms][:_SEVERAL]
    if newer.language != ENGLISH or len(content) < _SEVERAL or content[1] != content[0] + 1:
        return False  # other languages write a more specific kind as one word, or after the thing
    (word, kind), (_, head) = newer.ordered[content[0]], newer.ordered[content[1]]
    return head == beginning(older)[0] and kind not in known and word not in shared_words("new")


def same_thing(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether two statements may be about the thing that the question asks about, rather than one in its place.

    Asked where my sister lives, "My brother lives in Paris now" changes nothing: of two neighbouring words of the older
    statement, both in the question, it keeps one and replaces the other by a new word. Single letters are skipped, and
    so are texts without blanks between words. A word for a change replaces another verb, not another thing: "das Büro
    liegt in Köln", "das Büro zieht nach Bonn".
    """
    asked_for = question & older.terms
    own = [pair for pair in _adjacent_stems(older) if asked_for.issuperset(pair)] if len(asked_for) > 1 else []
    if not own:
        return True
    other, known = _adjacent_stems(newer), older.stems | question
    if not _before_values(older).isdisjoint(asked_for):
        known |= _before_values(newer)  # "charges 15", "wants 18": another verb for the same
    return not any(
        _is_replaced(kept, left, at, other, newer, known)
        for first, second in own
        for kept, left, at in ((first, second, 0), (second, first, 1))
    )


def _before_values(statement: Statement) -> frozenset[str]:
    """Return the stems of the words right before a number or a date."""
    values = statement.numbers | statement.dates
    return frozenset(term for (_, term), (word, _) in pairwise(statement.ordered) if word in values)


def _is_replaced(
    kept: str, left: str, at: int, pairs: list[tuple[str, str]], newer: Statement, known: frozenset[str]
) -> bool:
    """Tell whether `kept` has a new neighbour in the newer statement instead of `left`; `at` is its place in a pair."""
    if kept not in newer.terms or any(is_same_word(left, term) for term in newer.stems):
        return False
    known = known.union(term for word, term in newer.ordered if word in shared_words("reporting"))
    if (at == 0 and kept in newer.changing) or newer.stems & start_event_stems(left, newer.language):
        return False
    neighbours = {pair[1 - at] for pair in pairs if pair[at] == kept}
    return bool(neighbours) and neighbours <= newer.terms - known


def _adjacent_stems(statement: Statement) -> list[tuple[str, str]]:
    """Return the stems of neighbouring words in each clause; words that join nouns and single letters are skipped."""
    joining = shared_words("joining")
    kept = ([term for word, term in run if len(word) > 1 and word not in joining] for run in statement.runs)
    return [pair for run in kept for pair in pairwise(run)]
