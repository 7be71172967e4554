"""Words as written, and runs of words that name something: the basis of `phrases` and `proper_names`.

Rules for a naming run:

1. A run is capitalised words with single blanks between them. It may contain connecting words (of, the, de, van, &),
   initials (`J. K.`), honorifics with their full stop, and short numbers (`Apollo 11`). A possessive ends the run:
   `Melanie's Pottery Class` gives two.
2. Acronyms (NASA, U.S.), words of letters and digits (GPT-4) and words with a capital inside (iPhone) count as
   capitalised. In a sentence in capitals only the words of letters and digits count.
3. Function words, question words and verbs of asking are cut off at both ends, and a run of month and day names and
   numbers is left to `time_expressions`.
4. The first word of a sentence is capitalised because of its position. It counts only if it is not an ordinary word:
   no form of a word in `ordinary.txt` or of a lower-case term of the related-terms table, not in lower case elsewhere
   in the text, and without an ending such as -ing or -tion; or if it is capitalised inside a sentence, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from recall_loop.text.gloss.glosses import english_of
from recall_loop.text.packaged_data import packaged_text
from recall_loop.text.words.folding import UNSPACED, UNSPACED_CHARACTER, fold
from recall_loop.text.words.languages import ENGLISH, GERMAN, asking_words, stop_words
from recall_loop.text.words.related_terms import common_terms
from recall_loop.text.words.segmentation import split_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.tokens import text_language, words

CONNECTORS = word_set("of the de del della di da du des van von der den la le las los el al bin ibn y und for &")
HONORIFICS = word_set("mr mrs ms miss mx dr prof sir dame lord lady rev fr st sgt capt lt")
TITLES = HONORIFICS | word_set("herr herrn frau familie doktor")
CALENDAR = word_set(
    """january february march april may june july august september october november december jan feb mar apr jun jul
    aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays
    thursdays fridays saturdays sundays mon tue tues wed thu thur thurs fri sat sun am pm utc gmt"""
)
CHAT_CAPITALS = word_set(
    "lol omg btw fyi imo imho idk tbh ngl rofl lmao asap faq tv ok diy ps pm am eta rsvp aka ceo cto cfo"
)
_NAMES_IF_CAPITALS = word_set("it us who")
_WORD = re.compile(r"[^\W\d_]\.(?:[^\W\d_]\.)+|c\+\+|C\+\+|[CcFf]#(?!\w)|&|[^\W_]+(?:['\u2019\-\u2010\u2011][^\W_]+)*")
_UNSPACED_PART = re.compile(f"(?P<run>[{UNSPACED}]+)|[^{UNSPACED}]+")
_SENTENCE_END = re.compile(r"[.!?:;\u2026\u3002\uff01\uff1f\n\u201c\"*\u2022|>\]()\[]|(?:^|\s)[-\u2013\u2014](?:\s|$)")
_POSSESSIVE = re.compile(r"['\u2019][sS]$")
_MEASURE = re.compile(
    r"\d+(?:st|nd|rd|th|s|am|pm|k|m|g|b|x|h|hr|hrs|min|mins|kg|km|cm|mm|ml|lb|lbs|mph|ft|oz|yo|d|w|y)", re.I
)
_ORDINARY_ENDING = re.compile(r".{2,}(?:ing|ings|tion|tions|ness|ment|ments|ly|ful|less|ous|able|ible|ity|ies)$")


class SurfaceWord(NamedTuple):
    """One word as written, without a possessive ending; `start` and `end` are its offsets."""

    surface: str
    plain: str
    start: int
    end: int
    opens_sentence: bool
    possessive: bool

    @property
    def capital(self) -> bool:
        """Whether it begins with an upper-case letter."""
        return self.surface[:1].isupper() or self.surface[:1].istitle()

    @property
    def acronym(self) -> bool:
        """Whether it is two to six capitals, with or without full stops, and no chat shorthand."""
        letters = self.surface.replace(".", "")
        return letters.isalpha() and letters.isupper() and 2 <= len(letters) <= 6 and not self.chat

    @property
    def chat(self) -> bool:
        """Whether it is an abbreviation in capitals that isn't a name (LOL, CEO)."""
        return self.plain in CHAT_CAPITALS


@lru_cache(maxsize=1)
def ordinary_words() -> frozenset[str]:
    """Return the words of `ordinary.txt`, the one-word lower-case terms of `related.tsv`, and their stems."""
    text = packaged_text(__package__, "ordinary.txt")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    plain = frozenset(word for line in lines for word in line.split()) | common_terms()
    return plain | frozenset(map(stem, plain))


def surface_words(text: str) -> Iterator[SurfaceWord]:
    """Yield the words of `text` as written, in order."""
    end = 0
    last = ""
    for start, written in _written_words(text):
        gap = text[end:start]
        opens = end == 0 or (gap != " " and _SENTENCE_END.search(gap) is not None)
        if opens and end and gap == ". " and is_abbreviation(last):
            opens = False
        end = start + len(written)
        simple = written.isascii() and written.isalpha()
        last = surface = written if simple else _POSSESSIVE.sub("", written)
        simple = surface.isascii() and surface.isalpha()
        plain = surface.lower() if simple else " ".join(words(surface)) or surface
        yield SurfaceWord(surface, plain, start, start + len(surface), opens, surface != written)


def _written_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the offset of each word, and the word; text without blanks is split into its words."""
    spaced = text.isascii() or UNSPACED_CHARACTER.search(text) is None
    for match in _WORD.finditer(text):
        if spaced:
            yield match.start(), match.group()
            continue
        start = match.start()
        for part in _UNSPACED_PART.finditer(match.group()):
            for piece in split_words(part.group()) if part["run"] else [part.group()]:
                yield start, piece
                start += len(piece)


@cache
def empty_words(language: str) -> frozenset[str]:
    """Return the words of a language that can't be part of a name: stop words, and verbs of asking."""
    return stop_words(language) | asking_words(language) | {"&"}


def is_abbreviation(word: str) -> bool:
    """Tell whether a full stop after `word` belongs to it: an honorific or an initial."""
    return fold(word) in HONORIFICS or (len(word) == 1 and word.isupper() and word != "I")


def naming_runs(text: str, tokens: list[SurfaceWord]) -> Iterator[list[SurfaceWord]]:
    """Yield the naming runs among `tokens`, the words of `text`; see the module for the rules."""
    language = text_language(text)
    empty = empty_words(language)
    naming = _naming(tokens, language)
    run: list[SurfaceWord] = []
    waiting: list[SurfaceWord] = []
    for at, token in enumerate(tokens):
        joined = bool(run) and _joins(text, (waiting or run)[-1], token)
        if joined and not naming[at] and token.plain in CONNECTORS and len(waiting) < 2:
            waiting.append(token)
        elif joined and (naming[at] or (not waiting and _short_number(token))):
            run += [*waiting, token]
            waiting = []
        else:
            yield from _trimmed(run, empty)
            run, waiting = [token] if naming[at] else [], []
        if token.possessive:
            yield from _trimmed(run, empty)
            run, waiting = [], []
    yield from _trimmed(run, empty)


def _naming(tokens: list[SurfaceWord], language: str) -> list[bool]:
    """Apply rules 2, 4 and 5 to each word."""
    empty, shouting = empty_words(language), _shouted(tokens)
    large = [token for token in tokens if token.capital]
    lower = {token.plain for token in tokens if not token.capital}
    inside = {token.plain for token in large if not token.opens_sentence} - empty
    if language == GERMAN:
        titled = {after.plain for before, after in pairwise(tokens) if before.plain in TITLES}
        inside = {word for word in inside if word in titled or english_of(word, language) is None}
    return [
        _mixes_digits(token.surface)
        or (not shouted and _capitalised(token) and (not _suspect(token, lower, language) or token.plain in inside))
        for token, shouted in zip(tokens, shouting, strict=True)
    ]


def _capitalised(token: SurfaceWord) -> bool:
    surface = token.surface
    if surface.islower() or token.plain == "i" or token.chat:
        return False
    return token.capital or (surface[-1].isalpha() and any(letter.isupper() for letter in surface[1:]))


def _suspect(token: SurfaceWord, lower: set[str], language: str) -> bool:
    """Tell whether a word may be capitalised only because it opens a sentence, or is a German noun."""
    if is_abbreviation(token.surface) or not (token.opens_sentence or language == GERMAN):
        return False
    if sum(letter.isupper() for letter in token.surface) > 1:
        return token.opens_sentence and token.plain in stop_words(ENGLISH)
    plain = token.plain
    if english_of(plain, language) is not None:
        return True
    if not token.opens_sentence:
        return False
    if plain in empty_words(language) or plain in lower or _ORDINARY_ENDING.match(plain):
        return True
    return not ordinary_words().isdisjoint((plain, stem(plain)))


def _shouted(tokens: list[SurfaceWord]) -> list[bool]:
    """Return for each token whether its sentence is written in capitals (three words or more)."""
    marks: list[bool] = []
    sentence: list[SurfaceWord] = []
    for token in [*tokens, None]:
        if token is None or token.opens_sentence:
            letters = [word for word in sentence if word.surface.upper() != word.surface.lower()]
            shouted = len(letters) >= 3 and all(word.surface.isupper() for word in letters)
            marks += [shouted] * len(sentence)
            sentence = []
        if token is not None:
            sentence.append(token)
    return marks


def _mixes_digits(surface: str) -> bool:
    if surface.isalpha():
        return False
    has_letter = any(letter.isalpha() and letter.isascii() for letter in surface)
    return has_letter and any(c.isdigit() for c in surface) and not _MEASURE.fullmatch(surface)


def _joins(text: str, last: SurfaceWord, token: SurfaceWord) -> bool:
    gap = text[last.end : token.start]
    if gap == ". " and is_abbreviation(last.surface):
        return True
    return gap in (" ", "") and not token.opens_sentence


def _short_number(token: SurfaceWord) -> bool:
    return token.surface.isdigit() and len(token.surface) <= 3


def _trimmed(run: list[SurfaceWord], empty: frozenset[str]) -> Iterator[list[SurfaceWord]]:
    """Yield the run without function words at its ends; nothing if only calendar words and numbers are left."""
    first, last = 0, len(run)
    while first < last and _empty_word(run[first], empty):
        first += 1
    while last > first and _empty_word(run[last - 1], empty):
        last -= 1
    kept = run[first:last]
    if any(word.plain not in CALENDAR and not word.surface.isdigit() for word in kept):
        yield kept


def _empty_word(word: SurfaceWord, empty: frozenset[str]) -> bool:
    """Tell whether it is a function word; `IT`, `US` and `WHO` in capitals are names."""
    return word.plain in empty and not (word.plain in _NAMES_IF_CAPITALS and word.surface.isupper())
