"""Compounds: in languages that write several words as one, a query's word also finds compounds with it (OPEN-4).

A question about nuts ("Nüsse") is about hazelnuts ("Haselnüsse"), and choir practice ("Chorprobe") is when the choir
meets. No dictionary says where to split a compound; the stems in memory do: a compound begins or ends with the query's
stem, and has three letters or more besides. Conversely, a query's compound finds its own first and last word: somebody
who asks for the dentist's appointment ("Zahnarzttermin") may have noted "Zahnarzt".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence

from recall_loop.memory.search.query.lexical import TermGroup
from recall_loop.memory.search.query.spelling import has_digit

COMPOUNDING = frozenset({"da", "de", "et", "fi", "hu", "nb", "nl", "nn", "no", "sv"})
"""Languages that write compounds as one word."""
MAX_COMPOUNDS = 8
# The last part of a compound is its head, the first one only specifies it.
LAST_WEIGHT, FIRST_WEIGHT = 0.6, 0.4
_SHORTEST, _MIN_REST = 4, 3
# Most compounds of one stem that are compared.
_MAX_COMPARED = 100
_LAST_LETTER = "\U0010ffff"


class CompoundVocabulary:
    """The stems of a tenant, sorted by their letters and by their reversed letters.

    Args:
        frequencies: the number of rows with each stem.
    """

    def __init__(self, frequencies: Mapping[str, int]) -> None:
        words = [stem for stem in frequencies if len(stem) >= _SHORTEST + _MIN_REST and not has_digit(stem)]
        self._forward = sorted(words)
        self._backward = sorted(stem[::-1] for stem in words)

    def ending_in(self, stem: str) -> list[str]:
        """Return the stems that end in `stem` and are longer by three letters or more, at most 100."""
        return [found[::-1] for found in _beginning(self._backward, stem[::-1])]

    def beginning_with(self, stem: str) -> list[str]:
        """Return the stems that begin with `stem` and are longer by three letters or more, at most 100."""
        return _beginning(self._forward, stem)


def _beginning(ordered: Sequence[str], stem: str) -> list[str]:
    found = ordered[bisect_left(ordered, stem) : bisect_left(ordered, stem + _LAST_LETTER)]
    return [each for each in found if len(each) >= len(stem) + _MIN_REST][:_MAX_COMPARED]


def with_compounds(
    groups: Sequence[TermGroup],
    vocabulary: CompoundVocabulary,
    count: Callable[[Collection[str]], Mapping[str, int]],
) -> list[TermGroup]:
    """Return groups of stems with the compounds that contain each stem, at most eight, the most frequent first.

    Args:
        groups: the groups of a query in a language that forms compounds.
        vocabulary: the stems of the tenant.
        count: returns the number of readable rows with each stem.
    """
    return [_widened(group, vocabulary, count) for group in groups]


def _widened(
    group: TermGroup, vocabulary: CompoundVocabulary, count: Callable[[Collection[str]], Mapping[str, int]]
) -> TermGroup:
    if len(group.stem) < _SHORTEST or has_digit(group.stem):
        return group
    weights = dict.fromkeys((*vocabulary.beginning_with(group.stem), *_parts(group.stem, count)), FIRST_WEIGHT)
    weights |= dict.fromkeys(vocabulary.ending_in(group.stem), LAST_WEIGHT)
    for known, _ in group.variants:
        weights.pop(known, None)
    rows = count(list(weights)) if weights else {}
    best = sorted((stem for stem in weights if rows[stem]), key=lambda stem: (-weights[stem], -rows[stem], stem))
    return group._replace(variants=(*group.variants, *((stem, weights[stem]) for stem in best[:MAX_COMPOUNDS])))


def _parts(stem: str, count: Callable[[Collection[str]], Mapping[str, int]]) -> list[str]:
    """Return the longest stem in memory that begins a stem, and the longest that ends it."""
    lengths = range(len(stem) - _MIN_REST, _SHORTEST - 1, -1)
    first, last = [stem[:length] for length in lengths], [stem[-length:] for length in lengths]
    rows = count([*first, *last]) if first else {}
    longest = (next((part for part in parts if rows[part]), "") for parts in (first, last))
    return [part for part in longest if part]
