"""Whether a question depends on the messages before it, or names its own subject.

After "what does the repair of the bike cost?", "and when?" is about the bike, and "what is my cat called?" isn't. A
question about the speaker, or about a noun with an article, can be understood by itself. The words are in
`follow_ups.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import pairwise

from recall_loop.state.types import SpeechAct
from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.speech.first_person import has_first_person
from recall_loop.text.speech.person_words import person_words
from recall_loop.text.speech.speech_acts import find_speech_acts
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import asking_words, language_words, stop_words
from recall_loop.text.words.stop_words import QUESTION_WORDS, word_set
from recall_loop.text.words.tokens import content_words, words

_PRONOUNS = word_set("""he she they it him her them his hers their theirs its this that these those there then one""")
# Keeps the words on both sides of a removed expletive from becoming neighbours.
_PLACEHOLDER = " 0 "
_NOTHING = r"(?!)"


class Dependence(Enum):
    """How far a question depends on the messages before it.

    `NONE`: it names its subject. `MATTER`: it names the person, but the matter only by a verb ("when did I start?").
    `WHOLE`: it means little without them.
    """

    NONE = "none"
    MATTER = "matter"
    WHOLE = "whole"


@dataclass(frozen=True)
class _Signs:
    """The signs of one language; see `follow_ups.toml`."""

    own: frozenset[str]
    addressed: frozenset[str]
    articles: frozenset[str]
    owners: frozenset[str]
    expletives: re.Pattern[str]
    speaks: re.Pattern[str]
    elliptic: re.Pattern[str]

    @classmethod
    def read(cls, lists: Mapping[str, str]) -> _Signs:
        """Return the signs of one table."""
        own, addressed, articles, owners = (
            frozenset(fold(lists[name]).split()) for name in ("own", "addressed", "articles", "owners")
        )
        expletives, speaks, elliptic = (
            re.compile(lists.get(name, _NOTHING), re.IGNORECASE) for name in ("expletives", "speaks", "elliptic")
        )
        return cls(own, addressed, articles, owners, expletives, speaks, elliptic)


@cache
def _signs() -> Mapping[str, _Signs]:
    return {code: _Signs.read(lists) for code, lists in packaged_table(__package__, "follow_ups.toml").items()}


def dependence(text: str, named: Sequence[str], language: str) -> Dependence:
    """Return how far a request depends on the messages before it.

    A request with a name never does. A request with a pronoun, or with at most one content word, does, unless it is a
    question about the speaker or about a noun with an article. A question about the listener ("which do you
    recommend?") mostly continues what they said.
    """
    if named or not (_pronouns(language) & set(words(text)) or len(content_words(text)) <= 1):
        return Dependence.NONE
    signs = _signs().get(language)
    acts = [part.act for part in find_speech_acts(text)]
    if signs is None or SpeechAct.QUESTION not in acts or signs.elliptic.match(_last_part(text)):
        return Dependence.WHOLE
    return _of_question(text, signs, language)


def _of_question(text: str, signs: _Signs, language: str) -> Dependence:
    said = words(signs.expletives.sub(_PLACEHOLDER, text))
    matter = set(content_words(text)) - asking_words(language)
    if not matter or not signs.addressed.isdisjoint(said) or _refers_back(said, signs, language):
        return Dependence.WHOLE
    before_nouns = signs.articles | signs.owners
    if any(before in before_nouns and word in matter for before, word in pairwise(said)):
        return Dependence.NONE
    about_speaker = bool(signs.speaks.search(text)) or not signs.own.isdisjoint(said)
    about_speaker = about_speaker or has_first_person(text, language)
    return Dependence.MATTER if about_speaker else Dependence.WHOLE


def _last_part(text: str) -> str:
    """Return the last sentence of a text, the one that asks."""
    last = find_speech_acts(text)[-1]
    return text[last.start : last.end].strip()


def _refers_back(said: Sequence[str], signs: _Signs, language: str) -> bool:
    """Tell whether a question has a pronoun of the third person.

    A word that may be an article or a pronoun is an article before a content word, except after a question word or a
    subject ("¿cuándo la compré?", "quand est-ce que je la paie ?").
    """
    known, person = language_words().get(language), person_words()[language]
    ahead = (known.question if known else QUESTION_WORDS) | person.asker | person.third
    pronouns, stop = _pronouns(language), stop_words(language)
    return any(
        word in pronouns and (word not in signs.articles or before in ahead or not following or following in stop)
        for before, word, following in zip(["", *said], said, [*said[1:], ""], strict=False)
    )


def _pronouns(language: str) -> frozenset[str]:
    known = language_words().get(language)
    return known.pronouns if known else _PRONOUNS
