"""Whether somebody merely confirms a statement: says again what is in it, and nothing of their own (LIVE-4)."""

from __future__ import annotations

from functools import lru_cache

from recall_loop.policy.facts.corrections import LONGEST_NEWER
from recall_loop.policy.facts.wording import read_statements


def merely_confirms(older: str, newer: str, said: str) -> bool:
    """Tell whether what was said later only takes up a correction: "fine, Friday it is then".

    It has one of the numbers, dates and names that are new in the correction, or, where none is, one of its new words;
    and no number, date or name that neither of the two has.

    Args:
        older: what was corrected.
        newer: what corrects it.
        said: what somebody else said after that.
    """
    if len(said) > LONGEST_NEWER:
        return False
    (words, values), (old_words, old_values), (new_words, new_values) = map(_told, (said, older, newer))
    changed = new_values - old_values
    taken_up = changed & values if changed else (new_words - old_words) & words
    return bool(taken_up) and values <= old_values | new_values


def merely_repeats(older: str, newer: str, said: str) -> bool:
    """Tell whether what was said before a correction only takes up what it corrects: "noted, Thursday at nine".

    It has one of the numbers, dates and names that the correction no longer has, and none that what was corrected
    hasn't.

    Args:
        older: what was corrected.
        newer: what corrects it.
        said: what somebody else said in between.
    """
    if len(said) > LONGEST_NEWER:
        return False
    (_, values), (_, old_values), (_, new_values) = map(_told, (said, older, newer))
    return bool(values & (old_values - new_values)) and values <= old_values


@lru_cache(maxsize=1024)
def _told(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the content words of a text, and its numbers, dates and names."""
    read = read_statements(text)
    words = frozenset().union(*(each.terms for each in read))
    return words, frozenset().union(*(each.numbers | each.dates | each.names for each in read))
