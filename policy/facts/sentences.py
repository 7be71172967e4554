"""The sentences of a text, for comparing what they state: at full stops, but not behind initials and ordinals."""

from __future__ import annotations

import re

_MOST_SENTENCES = 12
_READ_CHARACTERS = 2000
# Behind the full stop of an ordinal a month may follow, as in German: "am 3. Mai".
_MONTH = r"(?<=\d\.)\s+(?i:jan|feb|m[a\u00e4]r|apr|ma[ijy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])"
_SENTENCE_END = re.compile(
    rf"(?<=[.!?\u2026])(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\b[A-Z][a-z]{{2}}\.)(?!{_MONTH})\s+"
    r"|(?<=[\u3002\uff01\uff1f])|\n+"
)


def split_sentences(text: str) -> list[str]:
    """Return the first sentences of a text, at most twelve, of its first 2,000 characters."""
    pieces = (piece.strip() for piece in _SENTENCE_END.split(text[:_READ_CHARACTERS]))
    return [piece for piece in pieces if piece][:_MOST_SENTENCES]
