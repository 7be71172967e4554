"""The person that a question is about, and whether a statement is about somebody else (CONF-3, LIVE-2, LIVE-3).

"My wife works at Siemens" says nothing about where I work, "I live in Oslo" nothing about where my sister lives, and
"my sister lives in Bergen" nothing about where my brother does. Only the words for persons show that. Nothing is ruled
out if the person isn't clear: a question that names somebody or asks for a person, or a statement that is about its
speaker too ("my wife and I").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from recall_loop.policy.facts.change_words import place_words, shared_words
from recall_loop.policy.facts.persons.mentioned_persons import (
    AFTER_NAME,
    BEING,
    OWNER_DISTANCE,
    MentionedPersons,
    opening_name,
    relation_of_name,
)
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.text.names.introductions import asked_own_name, tells_own_name
from recall_loop.text.speech.first_person import has_first_person
from recall_loop.text.speech.person_words import PersonWords, may_be_same_relative, person_stem, person_words
from recall_loop.text.speech.wishes import asks_for_wishes, only_wishes
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH, WITHOUT_BLANKS
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.tokens import stems, text_language, words

# Longer texts are about many things.
_LONGEST = 400
_ARTICLES = word_set("the a an")
# Letters that a short name and the full one mostly have in common.
_SHORT_NAME = 2
NO_RELATIVE = ""
_GENITIVE = re.compile(r"(\w+)['\u2019]s\b")


@dataclass(frozen=True)
class AskedPerson:
    """The person that a question is about: the asker, or one of their relatives.

    Attributes:
        language: the language of the question.
        kin: the relative (`PersonWords.kin`); None = the asker; `NO_RELATIVE` = somebody known only by name.
        owns: whether it is only about something of the asker's ("my favourite colour").
        stems: the stems of the question.
        seeks: whether it asks where the asker has put something, which somebody else may have.
        wishes: whether it asks for a wish; a mere wish answers no other question about the asker.
        name: the stem of the name in the question, if any; a statement with that name is about this person.
        is_other: whether somebody else mentions them by that name, so that first-person statements are about others.
        own_name: which of their own names the asker asks for, "" = the name that they go by; None = no name.
        author: the asker's name, "" if it isn't given or memory has nothing by them.
    """

    language: str
    kin: str | None
    owns: bool
    stems: frozenset[str]
    seeks: bool = False
    wishes: bool = False
    name: str = ""
    is_other: bool = False
    own_name: str | None = None
    author: str = ""

    def owns_record(self, entry: PoolEntry) -> bool:
        """Tell whether the person named in the question is a record's author, user or subject."""
        record = entry["record"]
        return self.has_name(" ".join(str(record.get(field) or "") for field in ("author", "subject", "user_id")))

    def has_name(self, text: str) -> bool:
        """Tell whether a text has the name in the question."""
        return bool(self.name) and self.name in stems(text, self.language)

    def states_asked_name(self, text: str) -> bool:
        """Tell whether the question asks for the asker's own name and a text states it."""
        return self.own_name == "" and tells_own_name(text)

    def is_by_another(self, author: str | None, text: str) -> bool:
        """Tell whether a text is by somebody other than the asker, and only about themselves: "my phone is 4522"."""
        if self.kin is not None or not self.author or not author or _is_same_author(self.author, author):
            return False
        return _is_about_speaker_only(text)

    def is_line_by_another(self, line: str) -> bool:
        """Tell the same about a line of a window, in which each line begins with its author."""
        author, colon, text = line.partition(": ")
        return bool(colon) and self.is_by_another(author, text)

    def rules_out(self, text: str) -> bool:
        """Tell whether a statement is no answer because it is about somebody else, or only states a wish."""
        if self.kin is None and not (self.owns or self.seeks or self.wishes) and only_wishes(text):
            return True
        if self.own_name:
            return tells_own_name(text) and self.own_name not in fold(text)
        if self.own_name is not None:
            return len(text) <= _LONGEST and not tells_own_name(text) and _mentions_person(text)
        return len(text) <= _LONGEST and _is_about_another(text, self)


def asked_person(question: str, language: str, *, asks_number: bool = False) -> AskedPerson | None:
    """Return the person that a question is about; it has no names and asks for no person. None if that isn't clear.

    With `asks_number` the question asks how many: a question about the number of my children is about me.
    """
    known = person_words().get(language)
    if known is None:
        return None
    mentioned = MentionedPersons.of(question, language, known)
    asked = frozenset(stems(question, language))
    if mentioned.has_third_person or not shared_words("addressed").isdisjoint(mentioned.words):
        return None
    if not mentioned.persons or (asks_number and mentioned.speaker_is_subject):
        own_name = asked_own_name(question)
        seeks = not known.where.isdisjoint(mentioned.words) and any(
            word.startswith(known.putting) for word in mentioned.words
        )
        wishes, about_asker = asks_for_wishes(question), mentioned.speaker_is_subject or mentioned.has_possessive
        person = AskedPerson(language, None, not mentioned.speaker_is_subject, asked, seeks, wishes, own_name=own_name)
        return person if about_asker or own_name is not None else None
    relatives = {known.kin.get(person) for person in mentioned.persons}
    if mentioned.speaker_is_subject or len(relatives) > 1 or None in relatives:
        return None
    return AskedPerson(language, next(iter(relatives)), False, asked)


def known_author(author: str | None, entries: Iterable[PoolEntry]) -> str:
    """Return the asker's name if one of the entries is by them, else ""; one word of the name is enough to match."""
    authors = (entry["record"].get("author") or "" for entry in entries)
    return author if author and any(_is_same_author(author, other) for other in authors) else ""


def _is_same_author(first: str, second: str) -> bool:
    return not set(words(first)).isdisjoint(words(second))


@lru_cache(maxsize=4096)
def _is_about_speaker_only(text: str) -> bool:
    """Tell whether a text is about its speaker alone: what "we" do, the asker may do as well."""
    language = text_language(text)
    known = person_words().get(language)
    if known is None or len(text) > _LONGEST:
        return False
    mentioned = MentionedPersons.of(text, language, known)
    return bool(mentioned.mentions_speaker or mentioned.possessions) and known.together.isdisjoint(mentioned.words)


@lru_cache(maxsize=4096)
def _mentions_person(text: str) -> bool:
    """Tell whether a text mentions its speaker, something of theirs or somebody else."""
    language = text_language(text)
    known = person_words().get(language)
    mentioned = MentionedPersons.of(text, language, known) if known else None
    return mentioned is not None and bool(
        mentioned.mentions_speaker or mentioned.has_third_person or mentioned.possessions or mentioned.persons
    )


def asked_by_name(question: str, language: str, name: str, texts: Iterable[str]) -> AskedPerson | None:
    """Return the person that a question with one name is about; None if that isn't clear.

    "My sister Ruth is vegan" says that Ruth is a sister: statements about the speaker don't answer questions about her.
    If no text says whose relative the person is, statements about relatives don't answer either: "my wife's birthday
    is in June". A name after a word such as "in" may be that of a place.

    Args:
        question: the question.
        language: its language (ISO 639-1).
        name: the name in it.
        texts: the texts that were found.
    """
    known, called = person_words().get(language), words(name)
    if known is None or len(called) != 1:
        return None
    root = stem(called[0], language)
    asked = frozenset(stems(question, language))
    is_other = False
    for text in texts:
        found = words(text) if len(text) <= _LONGEST and root in stems(text, language) else []
        for at in (at for at, word in enumerate(found) if stem(word, language) == root):
            kin = known.kin.get(relation_of_name(found, at, language, known))
            if kin is not None:
                return AskedPerson(language, kin, False, asked, name=root)
            is_other = is_other or not MentionedPersons.of(text, language, known).mentions_speaker
    mentioned = MentionedPersons.of(question, language, known)
    before = mentioned.words[: mentioned.words.index(called[0])] if called[0] in mentioned.words else ()
    if (
        not before
        or before[-1] in place_words(language)
        or mentioned.persons
        or mentioned.speaker_is_subject
        or mentioned.has_possessive
    ):
        return None
    return AskedPerson(language, NO_RELATIVE, False, asked, name=root, is_other=is_other)


@lru_cache(maxsize=4096)
def _is_about_another(text: str, asked: AskedPerson) -> bool:
    if asked.has_name(text):
        return False
    own = text_language(text)
    languages = (own,) if own in WITHOUT_BLANKS else dict.fromkeys((asked.language, own))  # a short text's may not show
    return any(_is_about_another_in(text, asked, language) for language in languages if language in person_words())


def _is_about_another_in(text: str, asked: AskedPerson, language: str) -> bool:
    known = person_words()[language]
    mentioned = MentionedPersons.of(text, language, known)
    if asked.kin is not None:
        return _is_not_about_relative(text, mentioned, asked, known)
    if mentioned.mentions_speaker or mentioned.possessions:
        return False
    if asked.owns or asked.seeks:
        genitive = asked.owns and _has_genitive(text, language, known)
        return genitive or any(
            _belongs_to_another(mentioned.words, at, asked, known) for at in range(len(mentioned.words))
        )
    opening = set(mentioned.words[:1])
    subjects = {stem(person, language) for person in mentioned.subjects}
    return bool(subjects - asked.stems or opening & known.single) or _begins_with_name(text, mentioned, asked, language)


def _is_not_about_relative(text: str, mentioned: MentionedPersons, asked: AskedPerson, known: PersonWords) -> bool:
    """Tell whether a text is only about its speaker, or only about other relatives; a name may be anybody's.

    It is about its speaker, too, if the thing that the question asks for is the speaker's: "my birthday is in May".
    """
    language, name = text_language(text), opening_name(text)
    if asked.name and name and not _is_alike(name, asked) and _begins_with_name(text, mentioned, asked, language):
        return True
    if mentioned.has_third_person:
        return False
    named = not mentioned.persons.union(asked.stems).issuperset(stems(name, language))
    if named and not has_first_person(text, language):
        return False
    relatives = {known.kin.get(person) for person in mentioned.persons}
    if relatives:
        return not any(each is None or may_be_same_relative(each, asked.kin or NO_RELATIVE) for each in relatives)
    may_be_speaker = asked.kin == NO_RELATIVE and not asked.is_other
    return not may_be_speaker and (mentioned.mentions_speaker or not mentioned.possessions.isdisjoint(asked.stems))


def _is_alike(name: str, asked: AskedPerson) -> bool:
    """Tell whether a name may be short for the one in the question, or the other way round: "Gus", "Gustav"."""
    return fold(name)[:_SHORT_NAME] == asked.name[:_SHORT_NAME]


def _belongs_to_another(found: Sequence[str], at: int, asked: AskedPerson, known: PersonWords) -> bool:
    """Tell whether a word of the question is said to be somebody else's: "his birthday", "anniversaire de ma sœur"."""
    if stem(found[at], asked.language) not in asked.stems:
        return False
    before, after = found[max(at - OWNER_DISTANCE, 0) : at], list(found[at + 1 :])
    if not known.whose.isdisjoint(before):
        return True
    if asked.language in WITHOUT_BLANKS:
        return any(person_stem(word, asked.language, known) for word in before if word not in known.of)
    if known.of and after[:1] and after.pop(0) not in known.of:
        return False
    return any(person_stem(word, asked.language, known) for word in after[: OWNER_DISTANCE if known.of else 1])


def _has_genitive(text: str, language: str, known: PersonWords) -> bool:
    """Tell whether something is said to be somebody else's; only in English, where the ending shows it."""
    if language != ENGLISH:
        return False
    owners = _GENITIVE.findall(text)
    return any(stem(fold(owner), language) in known.persons or owner == opening_name(text) for owner in owners)


def _begins_with_name(text: str, mentioned: MentionedPersons, asked: AskedPerson, language: str) -> bool:
    """Tell whether a text begins with a name and states what the question asks for about it; in English only.

    In other languages any first word, or any noun, may look like a name.
    """
    name = opening_name(text) if language == ENGLISH else ""
    if not name:
        return False
    if name in _GENITIVE.findall(text):
        return True
    verb, *following = [*mentioned.words[len(words(name)) :], ""][:AFTER_NAME]
    if stem(verb, language) in asked.stems:
        return True
    # "Kakoune is the editor" defines a thing.
    describes = verb in BEING and _ARTICLES.isdisjoint(following[:1])
    return describes and not asked.stems.isdisjoint(stem(word, language) for word in following)
