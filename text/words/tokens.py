"""Words and stems: the single tokenizer of Recall Loop, for indexing and for queries.

Every token consists of letters, digits and combining marks only, so that any full-text index keeps it whole: `c++`
becomes `cpp`, `c#` becomes `csharp`, `O'Brien` becomes `obrien`. Accents are folded (`José` finds `Jose`). Scripts
without blanks between words give one token for each character.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import Stemmer

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
