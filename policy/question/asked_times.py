"""Whether a question asks for anything that happened at some time: "what did I do on Thursday?" (LIVE-4, CONF-3).

A record from that day may share no word with it. "Where was I on Thursday?" is more specific.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache

from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.words.folding import fold


def asks_what_happened(asked: Collection[str], phrases: Iterable[str], language: str) -> bool:
    """Tell whether a question asks what happened, in words that say nothing about it.

    Args:
        asked: its words, folded.
        phrases: its noun phrases without names and times.
        language: its language (ISO 639-1).
    """
    what, happened = _words().get(language, (frozenset[str](), frozenset[str]()))
    nouns = {word for phrase in phrases for word in fold(phrase).split()}
    return not what.isdisjoint(asked) and nouns <= happened


@cache
def _words() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    lists = packaged_table(__package__, "asked_times.toml").items()
    return {code: (frozenset(each["what"].split()), frozenset(each["happened"].split())) for code, each in lists}
