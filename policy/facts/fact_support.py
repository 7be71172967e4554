"""Checks that the cited messages say what a fact claims, by words alone.

A language model may invent a value, or be told by a message what to write. So a value must occur in the messages that
the fact cites, its subject there or in what was said before, and most of its sentence too. This doesn't prove the
meaning (a "not" is a word like any other), but it keeps out everything that nobody said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recall_loop.text.words.keys import query_terms
from recall_loop.text.words.tokens import stem_set

MIN_SHARE = 0.6
# Subjects that stand for a speaker without a name.
UNNAMED_SPEAKERS = ("user", "assistant")


@dataclass(frozen=True)
class CitedContext:
    """The messages that a fact cites, and the context that resolves their references: earlier messages, speakers."""

    cited: Iterable[str]
    context: Iterable[str] = ()


def is_supported(subject: str, value: str, text: str, said: CitedContext) -> bool:
    """Tell whether the messages support a fact.

    Every content word of `value` must occur in the cited messages. `subject` must be named there or in the context,
    or be the unnamed user or assistant. At least 60 % of the content words of the sentence `text` must occur in the
    cited messages, the context or the subject.
    """
    cited = stem_set(said.cited)
    near = cited | stem_set(said.context)
    about = query_terms(subject)
    if not query_terms(value) <= cited or not about <= near | stem_set(UNNAMED_SPEAKERS):
        return False
    claims = query_terms(text)
    return len(claims & (near | about)) >= MIN_SHARE * len(claims)
