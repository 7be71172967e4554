"""Whether messages say what a fact claims that was drawn from them. Pure; judged by words alone.

A language model may invent a value, or be told by a message what to write. So a value has to stand in the messages that
the fact cites, its subject there or in what was said before, and most of its sentence too. That is no proof of meaning
(a "not" is a word like any other), but nothing comes in that nobody said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recall_loop.text.words.keys import query_terms
from recall_loop.text.words.tokens import stems

MIN_SHARE = 0.6
# What a speaker without a name is called.
UNNAMED_SPEAKERS = ("user", "assistant")


@dataclass(frozen=True)
class CitedContext:
    """What a fact cites, and what else tells who and what is meant: earlier messages, names of speakers."""

    cited: Iterable[str]
    context: Iterable[str] = ()


def is_supported(subject: str, value: str, text: str, said: CitedContext) -> bool:
    """Return whether every content word of the value stands in the cited messages, and the rest nearly does.

    Of the sentence at least 60 % of the content words must be among cited messages, those beside them and the subject;
    the subject must be named there, or be the nameless user or assistant.
    """
    cited = {stem for one in said.cited for stem in stems(one)}
    near = cited.union(*(stems(one) for one in said.context))
    about = query_terms(subject)
    if not query_terms(value) <= cited or not about <= near.union(*(stems(name) for name in UNNAMED_SPEAKERS)):
        return False
    claims = query_terms(text)
    return len(claims & (near | about)) >= MIN_SHARE * len(claims)
