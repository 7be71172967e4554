"""Whether somebody merely confirms a statement: repeats its content and adds nothing (LIVE-4)."""

from __future__ import annotations

from functools import lru_cache

from recall_loop.policy.facts.statement_pairs import LONGEST_NEWER
from recall_loop.policy.facts.wording import read_statements


def merely_confirms(older: str, newer: str, said: str) -> bool:
    """Tell whether a later reply only confirms a correction: "fine, Friday it is then".

    It has one of the numbers, dates and names that are new in the correction, or, if there are none, one of its new
    words; and no number, date or name that is in neither statement.

    Args:
        older: the corrected statement.
        newer: the correction.
        said: somebody else's reply to it.
    """
    if len(said) > LONGEST_NEWER:
        return False
    (words, values), (old_words, old_values), (new_words, new_values) = map(_content, (said, older, newer))
    changed = new_values - old_values
    repeated = changed & values if changed else (new_words - old_words) & words
    return bool(repeated) and values <= old_values | new_values


def merely_repeats(older: str, newer: str, said: str) -> bool:
    """Tell whether a reply before a correction only repeats the corrected statement: "noted, Thursday at nine".

    It has one of the numbers, dates and names that the correction replaces, and none that the corrected statement
    doesn't have.

    Args:
        older: the corrected statement.
        newer: the correction.
        said: somebody else's reply between them.
    """
    if len(said) > LONGEST_NEWER:
        return False
    (_, values), (_, old_values), (_, new_values) = map(_content, (said, older, newer))
    return bool(values & (old_values - new_values)) and values <= old_values


@lru_cache(maxsize=1024)
def _content(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the content words of a text, and its numbers, dates and names."""
    read = read_statements(text)
    words = frozenset().union(*(each.terms for each in read))
    return words, frozenset().union(*(each.numbers | each.dates | each.names for each in read))
