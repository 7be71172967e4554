"""Words of a text: tokens, stems, and the keys by which queries and facts are compared."""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import Stemmer

from recall_loop.state.records.records import Record
from recall_loop.state.types import ContentType
from recall_loop.text.words.stop_words import QUESTION_TAILS, STOP_WORDS

_LONGEST_STEMMED = 64
_ACCENTS = re.compile("[\u0300-\u036f]+")
# All kinds of apostrophes become one; characters without width vanish.
_PLAIN = {ord(c): "'" for c in "\u2018\u2019\u201b\u02bc\u02b9\uff07\u0060\u00b4"} | {
    code: None for code in (0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)
}
# Thai, Lao, Myanmar, Khmer; kana; Han with its extensions.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_SPECIAL = {"c++": "cpp", "c#": "csharp", "f#": "fsharp", ".net": "dotnet"}
_NEGATED = {"can't": "can", "won't": "will", "shan't": "shall", "ain't": "is"}


# All combining marks, for a character class: `\w` doesn't include them.
MARKS = "".join(char for char in map(chr, range(0x300, 0x20000)) if unicodedata.category(char)[0] == "M")
_LETTER = rf"[^\W_{UNSPACED}][{MARKS}]*"
_TOKEN = re.compile(
    r"(?<!\w)(?:c\+\+|[cf]#|(?<!\.)\.net)(?![\w+#])"
    r"|(?<!\d)\d{1,3}(?:,\d{3})+(?![\d,])"
    rf"|[{UNSPACED}](?<=\w)[{MARKS}]*"
    rf"|(?:{_LETTER})+(?:'(?:{_LETTER})+)*"
)
# The same rules for ASCII text, which the pattern for all scripts reads several times slower.
_SPECIAL_HINT = re.compile(r"[+#]|\.net|\d,\d", re.ASCII)
_ASCII_TOKEN = re.compile(
    r"(?<!\w)(?:c\+\+|[cf]#|(?<!\.)\.net)(?![\w+#])"
    r"|(?<!\d)\d{1,3}(?:,\d{3})+(?![\d,])"
    r"|[a-z0-9]+(?:'[a-z0-9]+)*",
    re.ASCII,
)
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
_SUFFIX = re.compile(r"(?:n't|'(?:s|ll|re|ve|d|m))+$")
_local = threading.local()


def fold(text: str) -> str:
    """Return `text` in one spelling: casefolded, compatibility forms and accents folded.

    Typographic apostrophes become `'`, and characters without width vanish. The function is idempotent.
    """
    if text.isascii():
        return text.lower().replace("`", "'")
    for _ in range(2):  # casefolding may bring new accents, as with the Turkish dotted I
        plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.translate(_PLAIN)))
        text = unicodedata.normalize("NFKC", plain.casefold())
    return text.translate(_PLAIN)


def words(text: str) -> list[str]:
    """Return the word tokens of `text` in order, folded.

    The possessive `'s` and contracted endings are dropped (`she'll` gives `she`, `don't` gives `do`), digit groups are
    joined (`1,000` gives `1000`), hyphens and underscores separate words.
    """
    return [token if token.isalnum() else _plain(token) for token in _tokens(fold(text))]


def _tokens(folded: str) -> list[str]:
    if not folded.isascii():
        return _TOKEN.findall(folded)
    return (_ASCII_TOKEN if _SPECIAL_HINT.search(folded) else _ASCII_WORD).findall(folded)


def _plain(token: str) -> str:
    if token in _SPECIAL:
        return _SPECIAL[token]
    if "'" in token:
        token = _NEGATED.get(token) or _SUFFIX.sub("", token) or token
    return token.replace("'", "").replace(",", "")


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    # A PyStemmer object has a buffer and must not be shared between threads.
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)
    return str(stemmer.stemWord(word))


def stem(word: str) -> str:
    """Return the English (Porter 2) stem of one folded word; words over 64 characters stay whole."""
    return word if len(word) > _LONGEST_STEMMED else _stem(word)


def stems(text: str) -> list[str]:
    """Return the stems of all words but stop words, in order, with repeats.

    Both documents and queries are indexed by these stems, so the two always agree.
    """
    kept = [word for word in words(text) if word not in STOP_WORDS]
    return [_stem(word) if len(word) <= _LONGEST_STEMMED else word for word in kept]


def stem_set(texts: Iterable[str]) -> frozenset[str]:
    """Return the distinct stems of all words of some texts but stop words."""
    return frozenset(term for text in texts for term in stems(text))


def content_words(text: str) -> list[str]:
    """Return the words for the subject of `text`, each once, in order (QUERY-3).

    Stop words and question words are left out, and so are words that belong to the question form: `long` in "how
    long", `knows` in "who knows".
    """
    pairs = pairwise(["", *words(text)])
    kept = (word for before, word in pairs if word not in STOP_WORDS and word not in QUESTION_TAILS.get(before, ()))
    return list(dict.fromkeys(kept))


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
