"""Whether two statements may be about one person, and about that person's own thing (LIVE-4)."""

from __future__ import annotations

from itertools import product

from recall_loop.policy.facts.change_words import find_topics, shared_words
from recall_loop.policy.facts.persons.mentioned_persons import mentioned_relatives
from recall_loop.policy.facts.wording import Statement
from recall_loop.text.speech.first_person import has_first_person
from recall_loop.text.speech.person_words import may_be_same_relative
from recall_loop.text.words.tokens import words

_NEAR = 2


def same_owner(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements may be about one owner's thing, rather than the speaker's and then somebody else's.

    The later one is about somebody else's if a word such as `his` is one or two words before a shared word, and the
    statement has no word of the first person.
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


def same_person(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether two statements may be about one person, rather than one about my sister and the other about me.

    Shared words other than the question's and the topic's ("works", "lives") may name a thing that both persons have:
    "my wife drives the Volvo", "we sold the Volvo".
    """
    if _has_another_subject(older, newer, question) or _is_change_of_another(older, newer, question):
        return False
    shared = older.stems & newer.stems & older.terms - question
    if any(not _is_topic(word, older.language) for word, term in older.ordered if term in shared):
        return True
    first, second = (mentioned_relatives(each.text, each.language) for each in (older, newer))
    return not first or not second or any(_may_be_same(*pair) for pair in product(first, second))


def _may_be_same(one: str | None, other: str | None) -> bool:
    """Tell whether two relatives may be the same; None is the speaker."""
    return one == other if one is None or other is None else may_be_same_relative(one, other)


def _has_another_subject(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether the older statement is about its speaker, and the newer one has another subject of the same verb.

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


def _is_change_of_another(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether the older statement is about its speaker, and the newer one about somebody else's change.

    They share nothing but a topic: "por el piso pago 720", "Iván se ha mudado a Logroño".
    """
    beginning_words, mark = newer.ordered[: _NEAR + 2], words(newer.mark)[:1]
    if not mark or not beginning_words or mark[0] not in [word for word, _ in beginning_words[1:]]:
        return False
    _, who = beginning_words[0]
    if who not in newer.terms - older.stems - question or not older.terms & newer.terms <= older.topics:
        return False
    about_speaker = older.speaks or has_first_person(older.text, older.language)
    return about_speaker and not newer.speaks and not has_first_person(newer.text, newer.language)


def _is_topic(word: str, language: str) -> bool:
    return next(find_topics(word, language), None) is not None
