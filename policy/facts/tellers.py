"""Whether a text tells of somebody else than a question asks for: "my sister moved" tells nothing of where I live."""

from __future__ import annotations

from collections.abc import Set
from itertools import pairwise

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import language_of
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import stems, words

_OPENING = 3


def tells_of_another(text: str, asked: Set[str]) -> bool:
    """Tell whether a text begins with whose relative or thing it is about, or with a name, and neither is asked for.

    Args:
        text: what was said.
        asked: the stems of the question's words.
    """
    found = words(text)
    language = language_of(found)
    opening = list(pairwise(found[:_OPENING]))
    owned = next((word for owner, word in opening[:1] if owner in shared_words("possessives")), None)
    if owned is not None:
        return stem(owned, language) not in asked
    return any(
        fold(text).startswith(fold(name)) and asked.isdisjoint(stems(name, language))
        for name in find_entities(text)[:1]
    )
