"""Grammars of lives: sentences with gaps and the words that fill them, for each language (LIVE-8)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from random import Random

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.evals.living.life import Part
from recall_loop.state.errors import InvalidInputError
from recall_loop.text.packaged_data import packaged_table

LANGUAGES = ("en", "de", "es", "fr", "zh", "ru")
OLD = "old_"
_GAP = re.compile(r"\{(\w+?)(?:\.(\d))?\}")
Words = tuple[str, ...]
Values = Mapping[str, Words]
"""The word of each gap, in its forms."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Kind(_Strict):
    """A kind of statement: the same thing stated, asked and corrected in several wordings.

    `{name}` in a sentence is a gap: a word of `words`, or of the language's own lists. A word may have forms, with a
    bar between: `{name.1}` is the second one. `{old_name}` is the word before a correction.
    """

    name: str
    part: Part
    told: Words = Field(min_length=1)
    asked: Words = Field(min_length=1)
    changes: str | None = Field(None, description="The gap that a correction fills; none = it isn't corrected.")
    corrected: Words = ()
    before: Words = Field((), description="Questions about what was so before a correction.")
    never: Words = Field(min_length=1, description="Questions about the same matter whose answer nobody says.")
    noted: str | None = Field(None, description="The same as somebody else writes it down; none = as it is told.")
    words: Mapping[str, Words] = Field(default_factory=dict)


class ExactFact(_Strict):
    """A record of kind fact, and a question in its own words."""

    type: str
    part: Part
    subject: str
    object: str
    text: str
    asked: str
    words: Mapping[str, Words] = Field(default_factory=dict)


class Talk(_Strict):
    """Small talk between the statements that count; `long` are messages with a thing told in their middle."""

    openings: Words
    unknown: Words = Field(description="Answers of one who doesn't know.")
    noted: Words = Field(description="Replies to something told.")
    small_talk: Words
    long: Words
    questions: Words


class FillerGrammar(_Strict):
    """Sentences about other matters and other people."""

    statements: Words
    questions: Words
    replies: Words
    thanks: Words
    words: Mapping[str, Words]


class Grammar(_Strict):
    """All sentences of one language."""

    language: str
    words: Mapping[Part, Mapping[str, Words]]
    talk: Mapping[Part, Talk]
    kinds: tuple[Kind, ...]
    facts: tuple[ExactFact, ...]
    filler: FillerGrammar

    def kinds_of(self, part: Part) -> list[Kind]:
        """Return the kinds of a part, in their order."""
        return [kind for kind in self.kinds if kind.part is part]

    def facts_of(self, part: Part) -> list[ExactFact]:
        """Return the facts of a part, in their order."""
        return [fact for fact in self.facts if fact.part is part]

    def choices(self, kind: Kind | ExactFact) -> dict[str, Words]:
        """Return the words for each gap of a kind's sentences."""
        return {**self.words.get(kind.part, {}), **kind.words}


@cache
def load_grammar(language: str) -> Grammar:
    """Return the grammar of a language; raise `InvalidInputError` where there is none."""
    if language not in LANGUAGES:
        raise InvalidInputError("languages", language, f"some of {', '.join(LANGUAGES)}")
    lexicon = packaged_table(__package__, f"lexicons/{language}.toml")
    return Grammar.model_validate({"language": language, **lexicon})


def fill(sentence: str, values: Values) -> str:
    """Return a sentence with its gaps filled; a gap without a word raises KeyError."""
    return _GAP.sub(lambda gap: values[gap[1]][int(gap[2] or 0)], sentence)


def draw_values(choices: Mapping[str, Words], draw: Random) -> dict[str, Words]:
    """Return a word for each gap."""
    return {name: _forms(draw.choice(words)) for name, words in sorted(choices.items())}


def changed_values(kind: Kind, choices: Mapping[str, Words], values: Values, draw: Random) -> Values:
    """Return the words after a correction, with those before it as `old_…`; unchanged if no gap changes."""
    if kind.changes is None:
        return values
    others = [word for word in map(_forms, choices[kind.changes]) if word != values[kind.changes]]
    return {**values, kind.changes: draw.choice(others), OLD + kind.changes: values[kind.changes]}


def _forms(word: str) -> Words:
    return tuple(word.split("|"))
