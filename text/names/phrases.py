"""Entities and noun phrases of a text, by rule (QUERY-1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter

from recall_loop.text.names.name_spans import SurfaceWord, naming_runs, surface_words
from recall_loop.text.words.stop_words import ASKING_WORDS, QUESTION_TAILS, STOP_WORDS
from recall_loop.text.words.tokens import fold, words

_LONGEST_TITLE_WORDS = 8
_LONGEST_PHRASE_WORDS = 4
_LONGEST_ENTITY = 100
_QUOTED = re.compile(
    r"\"([^\"\n]{2,80})\"|\u201c([^\u201d\n]{2,80})\u201d|\u00ab\s*([^\u00bb\n]{2,80}?)\s*\u00bb"
    r"|(?<![\w'])'([^'\n]{2,80})'(?![\w'])|(?<!\w)\u2018([^\u2018\u2019\n]{2,80})\u2019(?!\w)"
)


@lru_cache(maxsize=4096)
def find_entities(text: str) -> tuple[str, ...]:
    """Return the names in `text`, as written, each once and in order.

    These are quoted titles of up to eight words, and the naming runs of `name_spans` outside of them (up to 100
    characters).
    """
    titles = [(quoted.span(), _title(quoted)) for quoted in _QUOTED.finditer(text)]
    titles = [(span, title) for span, title in titles if _is_title(title)]
    taken = {at for (start, end), _ in titles for at in range(start, end)}
    runs = naming_runs(text, list(surface_words(text)))
    names = ((run[0].start, text[run[0].start : run[-1].end]) for run in runs)
    entities = [(start, title) for (start, _), title in titles]
    entities += [(start, name) for start, name in names if start not in taken and len(name) <= _LONGEST_ENTITY]
    return tuple(unique_folded(entity for _, entity in sorted(entities, key=itemgetter(0))))


def find_noun_phrases(text: str) -> list[str]:
    """Return runs of one to four content words between stop words and punctuation, as in RAKE.

    Verbs of asking (tell, show, know, say) and words that belong to the question form end a run. Longer runs are cut
    into pieces of four. Each phrase comes once, in order, as written.
    """
    phrases: list[str] = []
    run: list[SurfaceWord] = []
    before = ""
    for token in surface_words(text):
        content = _is_content(token, before)
        if run and (not content or _breaks(text[run[-1].end : token.start])):
            phrases += _pieces(run)
            run = []
        if content:
            run.append(token)
        if token.possessive:
            phrases += _pieces(run)
            run = []
        before = token.plain
    return unique_folded(phrases + _pieces(run))


def unique_folded(items: Iterable[str]) -> list[str]:
    """Return `items` without those that differ from an earlier one only in case or accents."""
    unique: dict[str, str] = {}
    for item in items:
        unique.setdefault(fold(item), item)
    return list(unique.values())


def _title(quoted: re.Match[str]) -> str:
    return next(filter(None, quoted.groups()), "").strip(" ,.;:!?")


def _is_title(text: str) -> bool:
    title = words(text)
    return len(title) <= _LONGEST_TITLE_WORDS and not STOP_WORDS.issuperset(title)


def _breaks(gap: str) -> bool:
    return gap.strip(" '\u2019") != "" or len(gap) > 3


def _is_content(token: SurfaceWord, before: str) -> bool:
    plain = token.plain
    if plain in ASKING_WORDS or plain in QUESTION_TAILS.get(before, ()) or token.surface == "&":
        return False
    if len(plain) == 1 and plain.isascii() and not plain.isdigit():
        return False
    return not set(plain.split()) <= STOP_WORDS


def _pieces(run: list[SurfaceWord]) -> list[str]:
    size = _LONGEST_PHRASE_WORDS
    return [" ".join(word.surface for word in run[at : at + size]) for at in range(0, len(run), size)]
