"""Whom a question asks about, and whether a statement tells of somebody else (CONF-3, LIVE-2, LIVE-3).

"My wife works at Siemens" tells nothing of where I work, "I live in Oslo" nothing of where my sister lives, and "my
sister lives in Bergen" nothing of where my brother does. Nothing in the words says so but whose they are. Where it
isn't plain whom a question or a statement is about, nothing is told apart: a question that names somebody, or asks for
a person, and a statement that speaks of its teller too ("my wife and I").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from recall_loop.policy.facts.change_words import place_words, shared_words
from recall_loop.policy.facts.persons.told_persons import (
    AFTER_NAME,
    BEING,
    BESIDE_THING,
    ToldPersons,
    opening_name,
    person_beside,
)
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.text.names.introductions import asked_own_name, tells_own_name
from recall_loop.text.speech.first_person import has_first_person
from recall_loop.text.speech.person_words import PersonWords, person_stem, person_words
from recall_loop.text.speech.wishes import asks_for_wishes, only_wishes
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import CHINESE, ENGLISH
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.tokens import stems, text_language, words

# Longer texts tell of many things.
_LONGEST = 400
_ARTICLES = word_set("the a an")
# So many letters a short name and the whole one mostly have in common.
_SHORT_NAME = 2
NO_RELATIVE = -1
_GENITIVE = re.compile(r"(\w+)['\u2019]s\b")


@dataclass(frozen=True)
class AskedPerson:
    """Whom a question is about: the one who asks, or one relative of theirs.

    Attributes:
        language: the language of the question.
        kin: the group of the relative; None = the one who asks; `NO_RELATIVE` = somebody whose name alone is known.
        owns: whether it is only about something of the one who asks ("my favourite colour").
        stems: the stems of the question.
        seeks: whether it asks where the one who asks has put something, which somebody else may have.
        wishes: whether it asks for a wish; what is only wished for answers no other question about oneself.
        name: the stem of the name where the question has one; a statement that has it, too, is theirs.
        is_other: whether somebody speaks of them by that name, so that who tells of themselves is somebody else.
        own_name: which of their own names somebody asks for, "" = the one by which they are called; None = no name.
        author: the name of the one who asks, "" where it isn't given or memory has nothing by them.
    """

    language: str
    kin: int | None
    owns: bool
    stems: frozenset[str]
    seeks: bool = False
    wishes: bool = False
    name: str = ""
    is_other: bool = False
    own_name: str | None = None
    author: str = ""

    def said(self, entry: PoolEntry) -> bool:
        """Tell whether a record is by the one whose name the question has, is theirs, or has them as its subject."""
        record = entry["record"]
        return self.has_name(" ".join(str(record.get(field) or "") for field in ("author", "subject", "user_id")))

    def has_name(self, text: str) -> bool:
        """Tell whether a text has the name that the question has."""
        return bool(self.name) and self.name in stems(text, self.language)

    def is_told_name(self, text: str) -> bool:
        """Tell whether a text tells the name of the one who asks for it."""
        return self.own_name == "" and tells_own_name(text)

    def is_by_another(self, author: str | None, text: str) -> bool:
        """Tell whether somebody else than the one who asks says it, and of themselves alone: "my phone is 4522"."""
        if self.kin is not None or not self.author or not author or _is_same_author(self.author, author):
            return False
        return _tells_of_teller_alone(text)

    def is_line_by_another(self, line: str) -> bool:
        """Tell the same of a line of a window in which each begins with its author."""
        author, colon, text = line.partition(": ")
        return bool(colon) and self.is_by_another(author, text)

    def is_not_of(self, text: str) -> bool:
        """Tell whether a statement is about somebody else, or about nothing but a wish."""
        if self.kin is None and not (self.owns or self.seeks or self.wishes) and only_wishes(text):
            return True
        if self.own_name:
            return tells_own_name(text) and self.own_name not in fold(text)
        if self.own_name is not None:
            return len(text) <= _LONGEST and not tells_own_name(text) and _tells_of_somebody(text)
        return len(text) <= _LONGEST and _is_of_another(text, self)


def asked_person(question: str, language: str, *, counts: bool = False) -> AskedPerson | None:
    """Return whom a question without names, which asks for no person, is about; None where that isn't plain.

    `counts` says that it asks how many there are: who asks for the number of their children asks about themselves.
    """
    known = person_words().get(language)
    if known is None:
        return None
    said = ToldPersons.of(question, language, known)
    asked = frozenset(stems(question, language))
    if said.third or not shared_words("addressed").isdisjoint(said.words):
        return None
    if not said.persons or (counts and said.asker):
        own_name = asked_own_name(question)
        seeks = not known.where.isdisjoint(said.words) and any(word.startswith(known.putting) for word in said.words)
        wishes, plain = asks_for_wishes(question), said.asker or said.owns
        person = AskedPerson(language, None, not said.asker, asked, seeks, wishes, own_name=own_name)
        return person if plain or own_name is not None else None
    relatives = {known.kin.get(person) for person in said.persons}
    if said.asker or len(relatives) > 1 or None in relatives:
        return None
    return AskedPerson(language, next(iter(relatives)), False, asked)


def known_author(author: str | None, entries: Iterable[PoolEntry]) -> str:
    """Return the name of the one who asks if one of the entries is by them, else ""; a first name may be the whole."""
    authors = (entry["record"].get("author") or "" for entry in entries)
    return author if author and any(_is_same_author(author, other) for other in authors) else ""


def _is_same_author(first: str, second: str) -> bool:
    return not set(words(first)).isdisjoint(words(second))


@lru_cache(maxsize=4096)
def _tells_of_teller_alone(text: str) -> bool:
    """Tell whether a text speaks of who says it, and not of others with them: what "we" do, the one who asks may do."""
    language = text_language(text)
    known = person_words().get(language)
    if known is None or len(text) > _LONGEST:
        return False
    said = ToldPersons.of(text, language, known)
    return bool(said.teller or said.things) and known.together.isdisjoint(said.words)


@lru_cache(maxsize=4096)
def _tells_of_somebody(text: str) -> bool:
    """Tell whether a text speaks of who says it, of something of theirs or of somebody else."""
    language = text_language(text)
    known = person_words().get(language)
    said = ToldPersons.of(text, language, known) if known else None
    return said is not None and bool(said.teller or said.third or said.things or said.persons)


def asked_by_name(question: str, language: str, name: str, told: Iterable[str]) -> AskedPerson | None:
    """Return whom a question is about that names one person; None where that isn't plain.

    "My sister Ruth is vegan" says that Ruth is a sister: what one tells of oneself answers no question about her. Of
    whose relative nobody is said to be, what is told of one's relatives is no answer: "my wife's birthday is in June".
    A name behind such a word as "in" may be a place's.
    """
    known, called = person_words().get(language), words(name)
    if known is None or len(called) != 1:
        return None
    root = stem(called[0], language)
    asked = frozenset(stems(question, language))
    is_other = False
    for text in told:
        found = words(text) if len(text) <= _LONGEST and root in stems(text, language) else []
        for at in (at for at, word in enumerate(found) if stem(word, language) == root):
            kin = known.kin.get(person_beside(found, at, language, known))
            if kin is not None:
                return AskedPerson(language, kin, False, asked, name=root)
            is_other = is_other or not ToldPersons.of(text, language, known).teller
    said = ToldPersons.of(question, language, known)
    before = said.words[: said.words.index(called[0])] if called[0] in said.words else ()
    if not before or before[-1] in place_words(language) or said.persons or said.asker or said.owns:
        return None
    return AskedPerson(language, NO_RELATIVE, False, asked, name=root, is_other=is_other)


@lru_cache(maxsize=4096)
def _is_of_another(text: str, asked: AskedPerson) -> bool:
    if asked.has_name(text):
        return False
    languages = dict.fromkeys((asked.language, text_language(text)))  # that of a short text may not show
    return any(_tells_of_another(text, asked, language) for language in languages if language in person_words())


def _tells_of_another(text: str, asked: AskedPerson, language: str) -> bool:
    known = person_words()[language]
    said = ToldPersons.of(text, language, known)
    if asked.kin is not None:
        return _is_of_no_such_relative(text, said, asked, known)
    if said.teller or said.things:
        return False
    if asked.owns or asked.seeks:
        genitive = asked.owns and _has_genitive(text, language, known)
        return genitive or any(_has_another(said.words, at, asked, known) for at in range(len(said.words)))
    opening = set(said.words[:1])
    told = {stem(person, language) for person in said.told}
    return bool(told - asked.stems or opening & known.single) or _begins_with_name(text, said, asked, language)


def _is_of_no_such_relative(text: str, said: ToldPersons, asked: AskedPerson, known: PersonWords) -> bool:
    """Tell whether a text tells of its teller alone, or of other relatives only; a name may be anybody's.

    It tells of its teller, too, where what is asked for is the teller's: "my birthday is in May".
    """
    language, name = text_language(text), opening_name(text)
    if asked.name and name and not _is_alike(name, asked) and _begins_with_name(text, said, asked, language):
        return True
    if said.third:
        return False
    named = not said.persons.union(asked.stems).issuperset(stems(name, language))
    if named and not has_first_person(text, language):
        return False
    relatives = {known.kin.get(person) for person in said.persons}
    if relatives:
        return not relatives.intersection((asked.kin, None))
    may_be_teller = asked.kin == NO_RELATIVE and not asked.is_other
    return not may_be_teller and (said.teller or not said.things.isdisjoint(asked.stems))


def _is_alike(name: str, asked: AskedPerson) -> bool:
    """Tell whether a name may be short for the one asked for, or that for it: "Gus", "Gustav"."""
    return fold(name)[:_SHORT_NAME] == asked.name[:_SHORT_NAME]


def _has_another(found: Sequence[str], at: int, asked: AskedPerson, known: PersonWords) -> bool:
    """Tell whether a word is asked for, and is told to be another's: "his birthday", "anniversaire de ma sœur"."""
    if stem(found[at], asked.language) not in asked.stems:
        return False
    before, behind = found[max(at - BESIDE_THING, 0) : at], list(found[at + 1 :])
    if not known.whose.isdisjoint(before):
        return True
    if asked.language == CHINESE:
        return any(person_stem(word, CHINESE, known) for word in before if word not in known.of)
    if known.of and behind[:1] and behind.pop(0) not in known.of:
        return False
    return any(person_stem(word, asked.language, known) for word in behind[: BESIDE_THING if known.of else 1])


def _has_genitive(text: str, language: str, known: PersonWords) -> bool:
    """Tell whether something is said to be somebody else's; in English, where a word shows it."""
    if language != ENGLISH:
        return False
    owners = _GENITIVE.findall(text)
    return any(stem(fold(owner), language) in known.persons or owner == opening_name(text) for owner in owners)


def _begins_with_name(text: str, said: ToldPersons, asked: AskedPerson, language: str) -> bool:
    """Tell whether a text tells what is asked for of a name with which it begins; in English only.

    In other languages any word that begins a text, or any noun, may look like a name.
    """
    name = opening_name(text) if language == ENGLISH else ""
    if not name:
        return False
    if name in _GENITIVE.findall(text):
        return True
    verb, *told = [*said.words[len(words(name)) :], ""][:AFTER_NAME]
    if stem(verb, language) in asked.stems:
        return True
    # "Kakoune is the editor" says what a thing is.
    is_told = verb in BEING and _ARTICLES.isdisjoint(told[:1])
    return is_told and not asked.stems.isdisjoint(stem(word, language) for word in told)
