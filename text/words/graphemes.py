"""Where a text may be cut without splitting what a reader sees as one character (SEARCH-8).

The rules are those of Unicode's extended grapheme clusters (UAX #29), worked out from general categories: the
standard library has no table of cluster properties. Where the two differ, this joins rather than splits.
"""

from __future__ import annotations

import unicodedata

_ZERO_WIDTH_JOINER = "\u200d"
ATTACHED_CHARACTERS = f"{_ZERO_WIDTH_JOINER}\u200c\uff9e\uff9f"
"""Characters besides marks that belong to the one before them: joiners, Japanese half-width voicing."""
LINKERS = "\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d\u1039\u17d2"
"""Signs of Indic, Burmese and Khmer writing that bind the consonants on both sides into one."""
_L, _V, _T = "leading", "vowel", "trailing"


def splits_cluster(text: str, at: int) -> bool:
    """Tell whether a cut of `text` before the character at index `at` would split a grapheme cluster.

    The ends of the text are never inside of one, and neither is a place beside white space. Time grows with the
    length of the cluster, and for flags with the run of regional indicators before `at`.
    """
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if before == "\r" and after == "\n":
        return True
    if before.isspace() or after.isspace():
        return False
    return (
        _extends(after)
        or _one_syllable(before, after)
        or _linked(text, at)
        or _joined_picture(text, at)
        or _inside_flag(text, at)
    )


def _extends(char: str) -> bool:
    """Tell whether a character belongs to the one before it: marks, joiners, skin tones, tags."""
    if char.isascii():
        return False
    return (
        unicodedata.category(char)[0] == "M"
        or char in ATTACHED_CHARACTERS
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
    )


def _base(text: str, at: int) -> int:
    """Return the index of the character that the one at `at` is attached to, or `at` itself."""
    while at > 0 and _extends(text[at]):
        at -= 1
    return at


def _linked(text: str, at: int) -> bool:
    """Tell whether a linker binds the consonant at `at` to the one before."""
    if not (text[at].isalpha() and _extends(text[at - 1])):
        return False
    start = _base(text, at - 1)
    return text[start].isalpha() and any(sign in LINKERS for sign in text[start + 1 : at])


def _joined_picture(text: str, at: int) -> bool:
    """Tell whether a joiner binds the picture at `at` to the one before."""
    if text[at - 1] != _ZERO_WIDTH_JOINER or text[at].isalnum():
        return False
    return not text[_base(text, at - 1)].isalnum()


def _one_syllable(before: str, after: str) -> bool:
    """Tell whether two Korean letters or syllables join into one."""
    ends, begins = _jamo(before), _jamo(after)
    if not ends or not begins:
        return False
    last, first = ends[-1], begins[0]
    return (last, first) in {(_L, _L), (_L, _V), (_V, _V), (_V, _T), (_T, _T)}


def _jamo(char: str) -> tuple[str, ...]:
    """Return the kinds of Korean letters that a character is made of."""
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return (_L,)
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return (_V,)
    if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb":
        return (_T,)
    if "\uac00" <= char <= "\ud7a3":
        return (_L, _V) if (ord(char) - 0xAC00) % 28 == 0 else (_L, _V, _T)
    return ()


def _inside_flag(text: str, at: int) -> bool:
    """Tell whether `at` stands between the two regional indicators of one flag."""
    if not _is_indicator(text[at]):
        return False
    start = at
    while start > 0 and _is_indicator(text[start - 1]):
        start -= 1
    return (at - start) % 2 == 1


def _is_indicator(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
