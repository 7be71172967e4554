"""Identity of queries and facts: when two of them are the same (LOOP-4, RANK-1).

Keys are plain strings, equal on every machine and in every run; they are for comparing, not for display.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

from recall_loop.state.records.records import Record
from recall_loop.state.types import ContentType
from recall_loop.text.words.stop_words import QUESTION_TAILS, STOP_WORDS
from recall_loop.text.words.tokens import fold, stem, words

_LONGEST_PLAIN = 200
_HASH_DIGITS = 32
_SEPARATOR = " / "
_NO_LETTER = re.compile(r"[\W_]")
# C# is not C, but a hash tag is the same as its word.
_SHARP = re.compile(r"(?<=[^\W\d_])#(?!\w)")
_SHARP_STANDIN = "\u266f"


@lru_cache(maxsize=4096)
def _punctuation_folded(character: str) -> str:
    """Return a blank or nothing for punctuation; symbols and emoji stay."""
    if character == "'":
        return ""
    category = unicodedata.category(character)
    return " " if category[0] in "PZ" or category in ("Cc", "Cf", "Cs") else character


def normalise(text: str) -> str:
    """Return `text` with case, compatibility forms, accents, punctuation and white space folded.

    Negations stay (`don't` gives `dont`), and so do symbols and emoji. A text of nothing but punctuation keeps it.
    The function is idempotent.
    """
    folded = fold(text)
    sharp = _SHARP.sub(_SHARP_STANDIN, folded)
    plain = _NO_LETTER.sub(lambda match: _punctuation_folded(match.group()), sharp)
    return " ".join(plain.split()) or " ".join(folded.split())


def query_terms(query: str) -> frozenset[str]:
    """Return the stems of the query's content words, or of all its words if there is no content word (LOOP-4).

    Variants in case, space, punctuation, stop words, word form and word order have the same terms. A query without
    any word (emoji, punctuation) gives its normalised parts, a blank one the empty set. Unlike `content_words` this
    ignores word order: a word that belongs to the question form (`long` with `how`) is dropped wherever it is.
    """
    every = set(words(query))
    tails = {tail for opener in every for tail in QUESTION_TAILS.get(opener, ())}
    kept = every - STOP_WORDS
    chosen = kept - tails or kept or every
    return frozenset(map(stem, chosen)) or frozenset(normalise(query).split())


def fact_key(record: Record) -> str:
    """Return the semantic identity of a record (RANK-1).

    A fact with subject and type is identified by these and its object, or its text if it has no object. Any other
    fact is identified by its normalised text, a message by its id, and an archival entry or a trajectory by its kind,
    label and text.
    """
    if record.kind is ContentType.MESSAGE:
        return f"{record.kind.value}:{record.id}"
    if record.kind is not ContentType.FACT:
        parts = [normalise(record.label or ""), _digest(normalise(record.text))]
    elif record.subject and record.fact_type:
        parts = [normalise(part) for part in (record.subject, record.fact_type, record.object or record.text)]
    else:
        parts = [normalise(record.text)]
    return f"{record.kind.value}:{_short(_SEPARATOR.join(parts))}"


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the Jaccard overlap of two term sets in [0,1]; 0 if both are empty."""
    shared = len(a & b)
    union = len(a) + len(b) - shared
    return shared / union if union else 0.0


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_PLAIN else "#" + _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
