"""Words of scripts without blanks between them: Chinese, Japanese, Thai, Lao, Burmese, Khmer (OPEN-4).

Chinese is segmented by a dictionary, with a model for names that it doesn't have; on labelled questions that finds more
than pairs of characters do (docs/search-internals.md). The others are segmented without one: each pair of neighbouring
characters is a word, so that any word is found in any sentence. In Japanese, single Han characters are words too, and a
run of katakana is one word. In order, a run of hiragana is split at its particles and endings, which are stop words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise

from recall_loop.text.words.folding import MARKS
from recall_loop.text.words.languages import JAPANESE, language_words

_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA, _KATAKANA = "\u3041-\u30a0", "\u30a1-\u30ff\u31f0-\u31ff"
_KANA = re.compile(f"[{_HIRAGANA}{_KATAKANA}]")
_HAN_RUN = re.compile(f"[{_HAN}]+")
_PART = re.compile(
    f"(?P<han>[{_HAN}]+)|(?P<katakana>[{_KATAKANA}]+)|(?P<other>[{_HIRAGANA}]+|[^{_HAN}{_HIRAGANA}{_KATAKANA}]+)"
)
# The dictionary has "my dad" as one word, which "dad" wouldn't match.
_WHOSE_RELATIVE = re.compile("([我你您他她咱])([爸妈哥姐弟妹爷奶叔舅姨姑嫂])")
_HIRAGANA_RUN = re.compile(f"[{_HIRAGANA}]+")
_PARTICLES = "はがをにへともやかのなで"
_CLUSTER = re.compile(f".[{MARKS}]*", re.DOTALL)


def index_words(run: str) -> list[str]:
    """Return the words under which an unbroken run of such characters is found, in order; they may overlap."""
    return _chinese_words(run) if _HAN_RUN.fullmatch(run) else [word for _, word in placed_words(run)]


def placed_words(run: str) -> Iterator[tuple[int, str]]:
    """Yield the words of `index_words`, and where each begins in the run."""
    japanese = _KANA.search(run) is not None
    for part in _PART.finditer(run):
        if part["han"] and not japanese:
            yield from _placed(part.start(), _chinese_words(part.group()))
        elif part["katakana"]:
            yield part.start(), part.group()
        else:
            yield from _placed_pairs(part, singles=part["han"] is not None)


def _placed_pairs(part: re.Match[str], *, singles: bool) -> Iterator[tuple[int, str]]:
    characters = list(_placed(part.start(), _CLUSTER.findall(part.group())))
    if singles or len(characters) == 1:
        yield from characters
    yield from ((start, first + second) for (start, first), (_, second) in pairwise(characters))


def _placed(start: int, pieces: Iterable[str]) -> Iterator[tuple[int, str]]:
    for piece in pieces:
        yield start, piece
        start += len(piece)


def split_words(run: str) -> list[str]:
    """Return the words of a run in order, without overlap; joined, they are the run itself."""
    parts = list(_PART.finditer(run))
    if _KANA.search(run) is not None:
        return [word for part in parts for word in _japanese_words(part)]
    return [word for part in parts for word in (_chinese_words(part.group()) if part["han"] else [part.group()])]


def _japanese_words(part: re.Match[str]) -> list[str]:
    """Return a part of a run, or the particles and endings in one of hiragana, and what is between them.

    A particle of one character follows another part, or an ending: "\u3082\u3061" is a word.
    """
    if not _HIRAGANA_RUN.fullmatch(part.group()):
        return [part.group()]
    particle = _particle().match(part.group()) if part.start() else None
    first = particle.group() if particle else ""
    return [word for word in (first, *_endings().split(part.group()[len(first) :])) if word]


@cache
def _particle() -> re.Pattern[str]:
    """Return the pattern of a particle of one character before which no longer stop word begins."""
    return re.compile(f"(?!{_endings().pattern})[{_PARTICLES}]|[{_PARTICLES}]$")


@cache
def _endings() -> re.Pattern[str]:
    stop = (word for word in language_words()[JAPANESE].stop if len(word) > 1 and _HIRAGANA_RUN.fullmatch(word))
    return re.compile(f"({'|'.join(sorted(stop, key=lambda word: (-len(word), word)))})")


def _chinese_words(run: str) -> list[str]:
    import rjieba  # loads its dictionary, so it is imported only when needed

    cut = ((word, _WHOSE_RELATIVE.fullmatch(word)) for word in rjieba.cut(run))
    return [part for word, whose in cut for part in (whose.groups() if whose else (word,))]
