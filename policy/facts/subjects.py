"""Whether two statements are about the same: a change is one of the same owner's thing, and of the thing itself.

"My neighbour sold his Volvo" changes nothing about the Volvo that I drive, "Our router has changed colour" nothing
about who made it, and "My brother lives in Paris now" nothing about where my sister lives (LIVE-4).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from recall_loop.policy.facts.change_words import find_topics, function_words, shared_words
from recall_loop.policy.facts.likeness import beginning, has_other_kind, is_one_word
from recall_loop.policy.facts.persons.told_persons import told_relatives
from recall_loop.policy.facts.rarity import begun_by
from recall_loop.policy.facts.wording import Statement
from recall_loop.text.speech.first_person import has_first_person, opens_in_first_person
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.words.languages import CHINESE, ENGLISH
from recall_loop.text.words.tokens import words

_NEAR = 2
# A closer kind of a thing is written as so many words.
_SEVERAL = 2
_ONLY_NOW, _ONLY_CHANGE = {"now"}, {"change"}
_VERB_LAST = "de"
_NAME, _NAMING = "=name", ("en", "es", "fr", "ru")
# Behind numbers in Chinese.
_UNITS = frozenset("年月日号时点分元块个次岁")
# Words behind which, and before which, stands whose something is.
_OWNERS_BEHIND = tuple([word] for word in ("of", "von", "de", "del", "du", "d", "di", "\u0443"))
_OWNERS_AHEAD = (["s"], ["\u7684"])


def same_owner(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements may be about one owner's thing: not where I tell of mine, and then of another's.

    The later one is about another's where a word such as `his` stands up to two words before what both share, and
    nothing in it speaks of me or us.
    """
    speakers = shared_words("speakers")
    if speakers.isdisjoint(older.tokens) or not speakers.isdisjoint(newer.tokens):
        return True
    owners, shared = shared_words("owners"), older.terms & newer.terms
    if not owners.isdisjoint(older.tokens):
        return True
    found = [word for word, _ in newer.ordered]
    places = (at for at, (_, term) in enumerate(newer.ordered) if term in shared)
    return all(owners.isdisjoint(found[max(at - _NEAR, 0) : at]) for at in places)


def denies_value(older: Statement, newer: Statement) -> bool:
    """Tell whether a statement denies the older one's value and has another: "it is on the 27th, not the 20th".

    It begins with what both are about, and needn't say that anything has changed.
    """
    if not newer.denied or older.terms.isdisjoint(newer.opening):
        return False
    pairs = ((older.numbers, newer.numbers), (older.dates, newer.dates))
    return any(old & new & newer.denied and new - old - newer.denied for old, new in pairs)


def same_person(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether two statements may be about one person: not where one tells of my sister, and the other of me.

    What they share beside what is asked for and what they are about ("works", "lives") may be one thing of both: "my
    wife drives the Volvo", "we sold the Volvo".
    """
    if _is_of_another_subject(older, newer, question) or _is_anothers_change(older, newer, question):
        return False
    shared = older.stems & newer.stems & older.terms - question
    if any(not _is_topic(word, older.language) for word, term in older.ordered if term in shared):
        return True
    first, second = (told_relatives(each.text, each.language) for each in (older, newer))
    return not first or not second or not first.isdisjoint(second)


def _is_of_another_subject(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether the older statement is its teller's, and the newer one begins with whom else the same verb is of.

    The verb has another form there: "ich arbeite bei der Post", "Henning arbeitet bei Siemens".
    """
    opening = newer.runs[0][:_NEAR]
    if len(opening) < _NEAR or not older.speaks or newer.speaks:
        return False
    (_, who), (verb, form) = opening
    if who not in newer.terms - older.stems - question or verb in older.tokens:
        return False
    languages = (older.language, newer.language)
    same = form in older.terms or any(older.topics.intersection(find_topics(verb, each)) for each in languages)
    return same and not has_first_person(newer.text, newer.language)


def _is_anothers_change(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether the older statement is its teller's, and the newer one begins with whose change it tells.

    Both have no more than a topic in common: "por el piso pago 720", "Iván se ha mudado a Logroño".
    """
    beginning_words, mark = newer.ordered[: _NEAR + 2], words(newer.mark)[:1]
    if not mark or not beginning_words or mark[0] not in [word for word, _ in beginning_words[1:]]:
        return False
    _, who = beginning_words[0]
    if who not in newer.terms - older.stems - question or not older.terms & newer.terms <= older.topics:
        return False
    tells_own = older.speaks or has_first_person(older.text, older.language)
    return tells_own and not newer.speaks and not has_first_person(newer.text, newer.language)


def _is_topic(word: str, language: str) -> bool:
    return next(find_topics(word, language), None) is not None


def same_subject_matter(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a change may be one of what was stated, and not only of somebody of whom both tell.

    "Carla's swimming was moved to Tuesday" changes nothing about how old Carla is: what both share only says whose the
    thing is. Nor does "Tom works from home now" about what Tom eats: "now" says that something holds, of another topic.
    """
    if any(differ(older, newer) for differ in _DIFFERENCES):
        return False
    persons = _person_terms(older)
    topics = (older.topics & newer.topics) - _topics_of(persons, older)
    shared = _shared_words(older, newer) if older.language == CHINESE else (older.terms & newer.terms) - older.topics
    if older.language == CHINESE and not (topics or shared):
        return False
    if _is_asked_beside(older, topics, shared, question):
        return False
    if not topics and newer.topics - older.topics - question:
        if newer.marks == _ONLY_NOW:
            return bool(shared & question - {beginning(older)[0], beginning(newer)[0]} - persons)
        if _marks_on(older, newer) == _ONLY_CHANGE and shared <= persons | _named_terms(older) | _named_terms(newer):
            return False
    return not (_is_owner_alone(older.terms & newer.terms, newer) and _has_own_thing(older, newer, question))


def _marks_on(older: Statement, newer: Statement) -> frozenset[str]:
    """Return the marks of change of those clauses of a statement that have something in common with the older one."""
    told = [clause.marks for clause in newer.clauses if clause.terms & older.terms]
    return frozenset().union(*told) if told else newer.marks


def _is_asked_beside(older: Statement, topics: Set[str], shared: Set[str], question: frozenset[str]) -> bool:
    """Tell whether a change is of one topic, and only something else of the older statement is asked for.

    "We moved to Rome" changes where I live, and not what the cat is called, though "I live in Kiel with my cat Mimi".
    In Chinese two terms that are the same may be one sign of different words, so that it can't be told.
    """
    asked = question & older.terms
    if not topics or not asked or older.language == CHINESE or not topics.isdisjoint(question):
        return False
    touching = (_topics_of(frozenset({term}), older) for term in asked)
    return all(map(topics.isdisjoint, touching)) and all(_topics_of(frozenset({term}), older) for term in shared)


def _is_of_another_time(older: Statement, newer: Statement) -> bool:
    """Tell whether a statement only says that something is later, and the older one told no time."""
    return newer.only_later and not (older.numbers or older.dates)


def _is_of_another_price(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements have no more in common than that both tell what is paid: a rent, a salary."""
    differ = older.prices and newer.prices and older.prices.isdisjoint(newer.prices)
    return bool(differ) and older.terms & newer.terms <= older.topics


def _has_no_name(older: Statement, newer: Statement) -> bool:
    """Tell whether only the older statement says what something is called; a German noun may be a name."""
    telling = _NAME in older.topics and _NAME not in newer.topics
    return telling and newer.language in _NAMING and not (newer.names - older.names or older.marks)


_DIFFERENCES = (_is_of_another_time, _is_of_another_price, _has_no_name, has_other_kind)


def _named_terms(statement: Statement) -> frozenset[str]:
    return frozenset(term for word, term in statement.ordered if word in statement.names)


def _shared_words(older: Statement, newer: Statement) -> frozenset[str]:
    """Return the words that two Chinese statements share: two that have one sign may have nothing in common."""
    first, second = ({*words(each.text)} - function_words(CHINESE) - _UNITS for each in (older, newer))
    return frozenset(word for word in first & second if not word.isdigit() and word not in newer.mark)


def _person_terms(statement: Statement) -> frozenset[str]:
    """Return the stems of the words for persons in a statement; in Chinese the words."""
    known = person_words().get(statement.language)
    if known is None:
        return frozenset()
    if statement.language == CHINESE:
        return frozenset(word for word in words(statement.text) if person_stem(word, CHINESE, known))
    return frozenset(term for word, term in statement.ordered if person_stem(word, statement.language, known))


def _topics_of(terms: frozenset[str], statement: Statement) -> frozenset[str]:
    """Return the topics that some words of a statement touch by themselves ("husband")."""
    found = terms if statement.language == CHINESE else {word for word, term in statement.ordered if term in terms}
    return frozenset(topic for word in found for topic in find_topics(word, statement.language))


def _is_owner_alone(shared: frozenset[str], newer: Statement) -> bool:
    """Tell whether all words that a statement shares with another one stand where it says whose something is."""
    found = [word for word, _ in newer.ordered]
    places = [at for at, (_, term) in enumerate(newer.ordered) if term in shared]
    return bool(places) and all(_says_whose(found, at, set(places)) for at in places)


def _says_whose(found: Sequence[str], at: int, places: Set[int]) -> bool:
    """Tell whether a word stands behind "of" or before "s", or so do those of a name of several signs."""
    end = next(place for place in range(at + 1, len(found) + 1) if place not in places)
    return found[at - 1 : at] in _OWNERS_BEHIND or found[end : end + 1] in _OWNERS_AHEAD


def _has_own_thing(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a statement is about a thing that nobody mentioned, and has no value in place of the older one."""
    if (older.numbers and newer.numbers) or (older.dates and newer.dates):
        return False
    return bool(newer.terms - newer.topics - older.stems - question)


def changes_another(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether a change is one of another thing, though both statements share a word.

    It is where the one who changed it is only mentioned in the older statement, and what was changed isn't: "rented the
    flat from Pugh", "Pugh sold the building". And where a closer kind of the thing changes: "milk comes at six", "oat
    milk: switched to another brand".
    """
    known, shared = older.stems | question, older.terms & newer.terms
    # In German what the teller changed may stand before the verb, too: "haben den Passat verkauft".
    own = newer.language == _VERB_LAST and (newer.speaks or opens_in_first_person(newer.text, _VERB_LAST))
    mentioned = not own and shared <= newer.acting and shared.isdisjoint(older.opening | question)
    if mentioned and newer.changed not in {"", *known}:
        return True
    content = [at for at, (_, term) in enumerate(newer.ordered) if term in newer.terms][:_SEVERAL]
    if newer.language != ENGLISH or len(content) < _SEVERAL or content[1] != content[0] + 1:
        return False  # other languages write a closer kind as one word, or behind the thing
    (word, kind), (_, head) = newer.ordered[content[0]], newer.ordered[content[1]]
    return head == beginning(older)[0] and kind not in known and word not in shared_words("new")


def same_thing(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether two statements may be about the thing that is asked for: not where another stands in its place.

    Asked where my sister lives, "My brother lives in Paris now" changes nothing: of two neighbouring words of the older
    statement, both of which are asked for, it has one, and beside that a word that nobody mentioned instead of the
    other. Single letters are passed over, and with them texts without blanks between words. A word that tells of a
    change stands for another verb, not for another thing: "das Büro liegt in Köln", "das Büro zieht nach Bonn".
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
    """Return the stems of the words right behind which a number or a date stands."""
    values = statement.numbers | statement.dates
    return frozenset(term for (_, term), (word, _) in pairwise(statement.ordered) if word in values)


def _is_replaced(
    kept: str, left: str, at: int, pairs: list[tuple[str, str]], newer: Statement, known: frozenset[str]
) -> bool:
    """Tell whether `kept` has a new neighbour in the newer statement, which hasn't `left`; `at` is its place."""
    if kept not in newer.terms or any(is_one_word(left, term) for term in newer.stems):
        return False
    known = known.union(term for word, term in newer.ordered if word in shared_words("reporting"))
    if (at == 0 and kept in newer.changing) or newer.stems & begun_by(left, newer.language):
        return False
    beside = {pair[1 - at] for pair in pairs if pair[at] == kept}
    return bool(beside) and beside <= newer.terms - known


def _adjacent_stems(statement: Statement) -> list[tuple[str, str]]:
    """Return the stems of each two neighbours of a clause; what joins two nouns, and single letters, don't count."""
    joining = shared_words("joining")
    kept = ([term for word, term in run if len(word) > 1 and word not in joining] for run in statement.runs)
    return [pair for run in kept for pair in pairwise(run)]
