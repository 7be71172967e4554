"""Normalised spelling of texts, and the characters of scripts without blanks between words."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import compress, groupby

# Accents are folded, except in the Cyrillic `й`, a letter of its own by which endings differ.
_ACCENTS = re.compile("[\u0300-\u0305\u0307-\u036f]|(?<![\u0438\u0418])\u0306")
# All kinds of apostrophes become one; zero-width characters are removed.
_APOSTROPHES = re.compile("[\u2018\u2019\u201b\u02bc\u02b9\uff07\u0060\u00b4]")
_WITHOUT_WIDTH = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
# Text that is already folded: ASCII without capitals, the common Han characters and their full stop and comma.
_FOLDED = re.compile("[\x00-\x40\x5b-\x5f\x7b-\x7fa-z\u4e00-\u9fff\u3001\u3002]*")
_NO_LETTER = re.compile(r"[\W_]")
# C# is not C, but a hashtag is the same as its word.
_SHARP = re.compile(r"(?<=[^\W\d_])#(?!\w)")
_SHARP_STANDIN = "\u266f"
# Thai, Lao, Myanmar, Khmer; kana; Han with its extensions.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")


def _ranges_of_marks() -> str:
    points = range(0x300, 0x20000)
    is_mark = map(frozenset(("Mn", "Mc", "Me")).__contains__, map(unicodedata.category, map(chr, points)))
    runs = groupby(enumerate(compress(points, is_mark)), key=lambda pair: pair[1] - pair[0])
    points_of_runs = ([point for _, point in run] for _, run in runs)
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in points_of_runs)


# All combining marks, for a character class: `\w` doesn't include them. A pattern of ranges is compiled sooner.
MARKS = _ranges_of_marks()


def fold(text: str) -> str:
    """Return `text` in one spelling: casefolded, compatibility forms and accents folded.

    Typographic apostrophes become `'`, and zero-width characters are removed. The function is idempotent.
    """
    if text.isascii():
        return text.lower().replace("`", "'")
    if _FOLDED.fullmatch(text):
        return text
    for _ in range(2):  # casefolding may add accents, as with the Turkish dotted I
        plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", _without_variants(text)))
        text = unicodedata.normalize("NFKC", plain.casefold())
    return _without_variants(text)


def _without_variants(text: str) -> str:
    return _WITHOUT_WIDTH.sub("", _APOSTROPHES.sub("'", text))


@lru_cache(maxsize=4096)
def _punctuation_folded(character: str) -> str:
    """Return a blank or nothing for punctuation; symbols and emoji stay."""
    if character == "'":
        return ""
    category = unicodedata.category(character)
    return " " if category[0] in "PZ" or category in ("Cc", "Cf", "Cs") else character


def normalise(text: str) -> str:
    """Return `text` with case, compatibility forms, accents, punctuation and white space folded.

    Negations stay (`don't` gives `dont`), and so do symbols and emoji. A text with only punctuation keeps it.
    The function is idempotent.
    """
    folded = fold(text)
    sharp = _SHARP.sub(_SHARP_STANDIN, folded)
    plain = _NO_LETTER.sub(lambda match: _punctuation_folded(match.group()), sharp)
    return " ".join(plain.split()) or " ".join(folded.split())
