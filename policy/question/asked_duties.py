"""Questions about duties, things to do or to buy: "what do I need to buy?", answered by "we're out of milk" (STOP-5).

A statement of a duty may share no word with the question. A question with names or further nouns asks for something
more specific: "what do I have to do about the mould?".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from recall_loop.policy.question.asked_kinds import AskedKind
from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import WITHOUT_BLANKS
from recall_loop.text.words.tokens import stems

# Characters around the matched question in a script without blanks: "我还有…呢？".
_FEW_CHARACTERS = 5


class AskedDuty(NamedTuple):
    """The duty that a question asks about, as a noun, and as a kind that recognises statements of it."""

    phrase: str
    kind: AskedKind


class _Form(NamedTuple):
    asked: re.Pattern[str]
    statement: re.Pattern[str]
    phrase: str
    padding: frozenset[str]


def asked_duty(question: str, phrases: tuple[str, ...], language: str) -> AskedDuty | None:
    """Return the duty that a question asks about; None if it asks about anything else.

    Args:
        question: one question without names.
        phrases: its noun phrases without times.
        language: its language (ISO 639-1).
    """
    folded, nouns = fold(question), _folded_words(phrases)
    for form in _forms().get(language, ()):
        found = form.asked.search(folded)
        if found and (
            nouns <= form.padding or (language in WITHOUT_BLANKS and len(folded) - len(found[0]) <= _FEW_CHARACTERS)
        ):
            wanted = frozenset(stems(" ".join((form.phrase, *phrases)), language))
            return AskedDuty(form.phrase, AskedKind(wanted, frozenset(), form.statement))
    return None


def _folded_words(phrases: Iterable[str]) -> frozenset[str]:
    return frozenset(word for phrase in phrases for word in fold(phrase).split())


@cache
def _forms() -> dict[str, list[_Form]]:
    tables = packaged_table(__package__, "asked_duties.toml").items()
    return {code: [_form(each) for each in forms.values()] for code, forms in tables}


def _form(lists: dict[str, str]) -> _Form:
    asked, statement = (re.compile(lists[name]) for name in ("asked", "told"))
    return _Form(asked, statement, lists["phrase"], frozenset(lists["padding"].split()))
