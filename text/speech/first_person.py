"""Whether a sentence without a pronoun is about its speaker, by the form and place of its verb (OPEN-4).

Spanish, Italian, Portuguese and Russian seldom have a pronoun ("¿Dónde vivo?", "Где работаю?"), and notes in any
language leave it out ("went to Rome", "bin in Rom"). An ambiguous form is decided by its place: "¿Qué estudio?" asks
what I study, "¿Qué estudio alquiló?" is about a flat. If neither decides, it isn't the first person. The words are in
`first_person.toml`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import stop_words

_TOKEN = re.compile(r"[^\W\d_]+")
_CLAUSE = re.compile(r"[.!?;:,\n¿¡…]+")
_ENDING = "-"
# Words shorter than this with such an ending are seldom verbs.
_SHORTEST = 4
# A question word may follow a preposition ("desde cuándo trabajo"); later in the clause the word is no question word.
_LATEST_PLACED = 2


@dataclass(frozen=True)
class _Forms:
    """The words of one language; see `first_person.toml`. Endings are as written, the rest is folded."""

    forms: frozenset[str]
    nouns: frozenset[str]
    endings: tuple[str, ...]
    openings: frozenset[str]
    opening_endings: tuple[str, ...]
    never: frozenset[str]
    ahead: frozenset[str]
    kinds: frozenset[str]
    behind: frozenset[str]
    places: frozenset[str]
    placed: tuple[str, ...]
    phrases: re.Pattern[str] | None

    @classmethod
    def read(cls, lists: Mapping[str, str]) -> _Forms:
        """Return the words of one table."""

        def words(name: str) -> frozenset[str]:
            return frozenset(fold(lists.get(name, "")).split())

        openings = lists.get("openings", "").split()
        return cls(
            forms=words("forms"),
            nouns=words("nouns"),
            endings=tuple(lists.get("endings", "").split()),
            openings=frozenset(fold(word) for word in openings if not word.startswith(_ENDING)),
            opening_endings=tuple(word.removeprefix(_ENDING) for word in openings if word.startswith(_ENDING)),
            never=words("never"),
            ahead=words("ahead"),
            kinds=words("kinds"),
            behind=words("behind"),
            places=words("places"),
            placed=tuple(lists.get("placed", "").split()),
            phrases=re.compile(lists["phrases"]) if "phrases" in lists else None,
        )


@cache
def _known_forms() -> Mapping[str, _Forms]:
    return {code: _Forms.read(lists) for code, lists in packaged_table(__package__, "first_person.toml").items()}


def has_first_person(text: str, language: str) -> bool:
    """Tell whether a verb of a question or statement is clearly in the first person, or a phrase states a feeling."""
    known = _known_forms().get(language)
    if known is None:
        return False
    if known.phrases and known.phrases.search(fold(text)):
        return True
    clauses = [_TOKEN.findall(clause) for clause in _CLAUSE.split(unicodedata.normalize("NFC", text).lower())]
    return any(_is_first(clause, at, known, language) for clause in clauses for at in range(len(clause)))


def opens_in_first_person(text: str, language: str) -> bool:
    """Tell whether a statement begins with a verb and no subject, as notes on oneself do."""
    known = _known_forms().get(language)
    found = _TOKEN.findall(unicodedata.normalize("NFC", text).lower())[:1] if known else []
    return known is not None and any(
        fold(word) in known.openings or (len(word) >= _SHORTEST and word.endswith(known.opening_endings))
        for word in found
    )


def _is_first(clause: Sequence[str], at: int, known: _Forms, language: str) -> bool:
    """Tell whether a word of a clause is a verb in the first person."""
    word, folded = clause[at], fold(clause[at])
    before = fold(clause[at - 1]) if at else ""
    if folded in known.never or before in known.ahead:
        return False
    if (
        at <= _LATEST_PLACED
        and before in known.places
        and folded not in stop_words(language)
        and word.endswith(known.placed or ("\n",))
    ):
        return True
    # "Trabajó" folds to the form "trabajo", and isn't it.
    is_form = folded in known.forms and (word[-1] == folded[-1] or word.endswith(known.endings))
    if not is_form and not (len(word) >= _SHORTEST and word.endswith(known.endings or ("\n",))):
        return False
    following = fold(clause[at + 1]) if at + 1 < len(clause) else ""
    may_be_noun = before in known.kinds and folded in known.nouns
    return not may_be_noun or not following or following in known.behind
