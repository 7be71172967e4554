"""Whether a text only states a wish: somebody who would love to live in Lisbon doesn't live there (LIVE-2)."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

from recall_loop.text.packaged_data import packaged_table

# Longer texts hardly ever state only a wish.
_LONGEST = 200
_SENTENCE = re.compile(r"[^.!?。！？\n]+")


@lru_cache(maxsize=4096)
def only_wishes(text: str) -> bool:
    """Tell whether every sentence of a text states a wish ("I'd love to", "ojalá", "вот бы")."""
    sentences = [part for part in _SENTENCE.findall(_lower(text)) if part.strip()] if len(text) <= _LONGEST else []
    return bool(sentences) and all(_pattern("wish").search(sentence) for sentence in sentences)


def asks_for_wishes(question: str) -> bool:
    """Tell whether a question may be about a wish."""
    return bool(_pattern("asks").search(_lower(question)))


def _lower(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Return the patterns of all languages as one: the language of a short text is uncertain."""
    return re.compile("|".join(lists[name] for lists in packaged_table(__package__, "wishes.toml").values()))
