"""Words of a text: tokens, stems, and the keys by which queries and facts are compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Set
from functools import lru_cache
from itertools import pairwise
from threading import Lock

from cachetools import LRUCache, cached

from recall_loop.text.words.folding import MARKS, UNSPACED, UNSPACED_CHARACTER, fold, normalise
from recall_loop.text.words.languages import CHINESE, ENGLISH, language_of, naming_words, stop_words
from recall_loop.text.words.passages import READ_CHARACTERS
from recall_loop.text.words.segmentation import index_words, split_words
from recall_loop.text.words.stemming import STEMMED_APART, stem, stemmed
from recall_loop.text.words.stop_words import QUESTION_TAILS

# Raised whenever the stems of a text change: a store is then reindexed when it is next opened for writing.
WORDS_VERSION = 6

_SPECIAL = {"c++": "cpp", "c#": "csharp", "f#": "fsharp", ".net": "dotnet"}
_NEGATED = {"can't": "can", "won't": "will", "shan't": "shall", "ain't": "is"}
_LETTER = rf"[^\W_{UNSPACED}][{MARKS}]*"
_TOKEN = re.compile(
    r"(?<!\w)(?:c\+\+|[cf]#|(?<!\.)\.net)(?![\w+#])"
    r"|(?<!\d)\d{1,3}(?:,\d{3})+(?![\d,])"
    # A unit after a number is a word of its own: a dictionary would join it with what follows.
    r"|(?<=\d)[年月日号时点分]"
    rf"|(?:[{UNSPACED}](?<=\w)[{MARKS}]*)+"
    rf"|(?:{_LETTER})+(?:'(?:{_LETTER})+)*"
)
# The same rules for ASCII text: several times faster than the pattern for all scripts.
_SPECIAL_HINT = re.compile(r"[+#]|\.net|\d,\d", re.ASCII)
_ASCII_TOKEN = re.compile(
    r"(?<!\w)(?:c\+\+|[cf]#|(?<!\.)\.net)(?![\w+#])"
    r"|(?<!\d)\d{1,3}(?:,\d{3})+(?![\d,])"
    r"|[a-z0-9]+(?:'[a-z0-9]+)*",
    re.ASCII,
)
_WORD_CHARACTER = re.compile(r"[^\W_]")
# A flag is two regional indicator letters.
_SYMBOL = re.compile("[\U0001f1e6-\U0001f1ff]{2}|[^\x00-\x7f]")
# Emoji and other pictures, signs of mathematics and of currencies.
_SYMBOLS = ("So", "Sm", "Sc")
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
# The same rules for text with only ASCII, the common Han characters and their punctuation.
_PLAIN_CHINESE = re.compile("[\x00-\x7f\u4e00-\u9fff\u2013\u2014\u201c\u201d\u2022\u3001\u3002\u3008-\u3011\u00b7]*")
_CHINESE_TOKEN = re.compile(
    r"(?<!\w)(?:c\+\+|[cf]#|(?<!\.)\.net)(?![\w+#])"
    r"|(?<!\d)\d{1,3}(?:,\d{3})+(?![\d,])"
    r"|(?<=\d)[年月日号时点分]"
    "|[\u4e00-\u9fff]+"
    r"|[A-Za-z0-9]+(?:'[A-Za-z0-9]+)*"
)
# An article or pronoun that French and Italian join to the next word.
_ELIDED = re.compile(r"^(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quelqu|(?:d|n|s)?[aeu]ll|un|quest)'(?=\w{2})")
# Every step of a request reads the same hundred texts, so results are cached. For longer texts the cache is limited by
# their number of words, and a share for the text itself; those longer than a window are read only once, for an index.
_KEPT_TEXTS, _KEPT_CHARACTERS = 2048, 600
_KEPT_WORDS, _WORDS_OF_TEXT = 300_000, 1000
_LONGEST_KEPT = 3 * READ_CHARACTERS
_SUFFIX = re.compile(r"(?:n't|'(?:s|ll|re|ve|d|m))+$")


def words(text: str) -> list[str]:
    """Return the word tokens of `text` in order, folded.

    The possessive `'s` and contracted endings are dropped (`she'll` gives `she`, `don't` gives `do`), and so are French
    and Italian articles that are joined to a word (`l'amie` gives `amie`). Digit groups are joined (`1,000` gives
    `1000`), hyphens and underscores separate words. Text without blanks between words is segmented, outside of Chinese
    into words that overlap. In a text without any word, its symbols, such as emoji, are the words.
    """
    if len(text) <= _KEPT_CHARACTERS:
        return list(_known_words(text))
    return list(_known_long_words(text)) if len(text) <= _LONGEST_KEPT else _words(text, index_words)


@lru_cache(maxsize=_KEPT_TEXTS)
def _known_words(text: str) -> tuple[str, ...]:
    return tuple(_words(text, index_words))


@cached(LRUCache(_KEPT_WORDS, getsizeof=lambda found: _WORDS_OF_TEXT + len(found)), lock=Lock())
def _known_long_words(text: str) -> tuple[str, ...]:
    return tuple(_words(text, index_words))


def _words(text: str, cut: Callable[[str], list[str]]) -> list[str]:
    """Return the words of `text`; `cut` gives those of a run without blanks."""
    folded = fold(text)
    tokens = _tokens(folded)
    if not tokens:
        return _symbols(folded)
    if not folded.isascii() and UNSPACED_CHARACTER.search(folded):
        tokens = [word for token in tokens for word in (cut(token) if UNSPACED_CHARACTER.match(token) else [token])]
    return [token if token.isalnum() else _plain(token) for token in tokens]


def words_in_order(text: str) -> list[str]:
    """Return the same as `words`, but for text without blanks the words in order, without overlap."""
    return _words(text, split_words)


def _symbols(folded: str) -> list[str]:
    """Return the symbols of a text without words, one by one, with flags as one; skin colours don't count."""
    return [] if folded.isascii() else [each for each in _SYMBOL.findall(folded) if _is_symbol(each)]


def _is_symbol(text: str) -> bool:
    return unicodedata.category(text[0]) in _SYMBOLS


def _tokens(folded: str) -> list[str]:
    if folded.isascii():
        return (_ASCII_TOKEN if _SPECIAL_HINT.search(folded) else _ASCII_WORD).findall(folded)
    # No token has white space in it. Most runs are ASCII; for the others, each match lets other threads run.
    runs = folded.split()
    return [token for run in runs for token in (_tokens(run) if run.isascii() else _matches(run))]


def _matches(run: str) -> Iterator[str]:
    pattern = _CHINESE_TOKEN if _PLAIN_CHINESE.fullmatch(run) else _TOKEN
    return (match.group() for match in pattern.finditer(run))


def _plain(token: str) -> str:
    if token in _SPECIAL:
        return _SPECIAL[token]
    if "'" in token:
        token = _ELIDED.sub("", token)
        token = _NEGATED.get(token) or _SUFFIX.sub("", token) or token
    return token.replace("'", "").replace(",", "")


def has_word(text: str) -> bool:
    """Tell whether a text has a word, rather than only symbols and punctuation; in most texts the start shows it."""
    return bool(_WORD_CHARACTER.search(text))


def stems(text: str, language: str | None = None) -> list[str]:
    """Return the stems of all words except stop words, in order, with repeats.

    The language is detected unless it is given, as for a part of a text whose language is known.
    """
    return list(_known_stems(text, language)) if len(text) <= _KEPT_CHARACTERS else _stems(text, language)


@lru_cache(maxsize=_KEPT_TEXTS)
def _known_stems(text: str, language: str | None) -> tuple[str, ...]:
    return tuple(_stems(text, language))


def _stems(text: str, language: str | None) -> list[str]:
    found = words(text)
    language = language or text_language(text)
    stop = stop_words(language)
    return stemmed([word for word in found if word not in stop], language)


def word_forms(text: str, language: str | None = None) -> list[tuple[str, tuple[str, ...]]]:
    """Return the words except stop words, each with the stems that count as it: its own, and the English one.

    Names and loanwords occur in texts of several languages, and the language of a short text is uncertain: the second
    form finds them anyway. In English text every word has one form. A Chinese word is also found by its characters:
    segmentation is a guess, and related words share a character. `language` is as in `stems`.
    """
    found = words(text)
    language = language or text_language(text)
    stop = stop_words(language)
    kept = [word for word in found if word not in stop]
    if language == CHINESE:
        return [(word, (word, *_characters(word, stop))) for word in kept]
    own = stemmed(kept, language)
    if language not in STEMMED_APART:
        return [(word, (form,)) for word, form in zip(kept, own, strict=True)]
    both = zip(own, stemmed(kept, ENGLISH), strict=True)
    return [(word, tuple(dict.fromkeys(forms))) for word, forms in zip(kept, both, strict=True)]


def _characters(word: str, stop: Set[str]) -> list[str]:
    """Return the characters of a Han word of several, except stop words; none for a word in other scripts."""
    if len(word) == 1 or not UNSPACED_CHARACTER.match(word):
        return []
    return [char for char in dict.fromkeys(word) if char not in stop]


def index_stems(text: str, language: str | None = None) -> list[str]:
    """Return all stems by which `text` is found, in order, with repeats: those of `word_forms`."""
    return [form for _, forms in word_forms(text, language) for form in forms]


def stem_set(texts: Iterable[str], language: str | None = None) -> frozenset[str]:
    """Return the distinct stems of all words in some texts, except stop words; `language` is as in `stems`."""
    return frozenset(term for text in texts for term in stems(text, language))


@lru_cache(maxsize=1024)
def stem_line(text: str, language: str = ENGLISH) -> str:
    """Return the stems of all words of a text, including stop words, in order, with a space around each."""
    return f" {' '.join(stem(word, language) for word in words(text))} "


def text_language(text: str) -> str:
    """Return the language of `text`, as `language_of` says."""
    return _known_language(text) if len(text) <= _KEPT_CHARACTERS else language_of(text, words(text))


@lru_cache(maxsize=_KEPT_TEXTS)
def _known_language(text: str) -> str:
    return language_of(text, words(text))


def content_words(text: str) -> list[str]:
    """Return the words for the subject of `text`, each once, in order (QUERY-3).

    Stop words and question words are left out, and so are words that belong to the question form: `long` in "how
    long", `knows` in "who knows", `called` in "what is it called".
    """
    found = words_in_order(text)
    language = text_language(text)
    stop, naming = stop_words(language), naming_words(text, language)
    pairs = pairwise(["", *found])
    kept = [word for before, word in pairs if word not in stop and word not in QUESTION_TAILS.get(before, ())]
    return list(dict.fromkeys([word for word in kept if word not in naming] or kept))


def query_terms(query: str) -> frozenset[str]:
    """Return the stems of the query's content words, or of all its words if there is no content word (LOOP-4).

    Variants in case, space, punctuation, stop words, word form and word order have the same terms. A query without
    any word (emoji, punctuation) gives its normalised parts, a blank one the empty set. Unlike `content_words` this
    ignores word order: a word that belongs to the question form (`long` with `how`) is dropped wherever it is.
    """
    return _known_query_terms(query) if len(query) <= _KEPT_CHARACTERS else _query_terms(query)


def _query_terms(query: str) -> frozenset[str]:
    found = words(query)
    language = text_language(query)
    every = set(found)
    tails = {tail for opener in every for tail in QUESTION_TAILS.get(opener, ())}
    tails |= naming_words(query, language)
    kept = every - stop_words(language)
    chosen = kept - tails or kept or every
    return frozenset(stem(word, language) for word in chosen) or frozenset(normalise(query).split())


_known_query_terms = lru_cache(maxsize=_KEPT_TEXTS)(_query_terms)


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the Jaccard overlap of two term sets in [0,1]; 0 if both are empty."""
    shared = len(a & b)
    union = len(a) + len(b) - shared
    return shared / union if union else 0.0
