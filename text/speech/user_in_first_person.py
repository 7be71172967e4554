"""Facts about the user in the third person, rewritten in the first: "User's cat" becomes "my cat" (CONF-3).

Extracted facts have "User lives in Bergen", or the user's name, where the user says "I". Owners and subjects are
recognised by words such as "I" and "my", so that "User" would be taken for somebody else. Only English is rewritten; in
other languages the word for a user isn't recognised as a name, and is ignored.
"""

from __future__ import annotations

import re
from functools import lru_cache

from recall_loop.text.words.languages import ENGLISH
from recall_loop.text.words.tokens import text_language

# As the subject of a sentence, or as an owner.
_USER = r"(?:^|(?<=[.;!?]\s))(?:the )?user(?:['\u2019]s)?(?![\w-])|\b(?:the )?user['\u2019]s\b"
_GENITIVE = ("'s", "\u2019s")
_NAME = re.compile(r"[^\W\d_]+")
# A single letter is mostly part of a number: u-5.
_SHORTEST_NAME = 2


@lru_cache(maxsize=4096)
def in_first_person(text: str, user_id: str = "") -> str:
    """Return an English text with "I" and "my" in place of the user; any other text unchanged.

    Args:
        text: the text of a fact or a document.
        user_id: its user. If this consists of names ("ada", "ada.lind"), they are the user's.
    """
    if text_language(text) != ENGLISH:
        return text
    return _pattern(user_id).sub(_first_person, text)


@lru_cache(maxsize=1024)
def _pattern(user_id: str) -> re.Pattern[str]:
    names = [name for name in _NAME.findall(user_id) if len(name) >= _SHORTEST_NAME and name.lower() != "user"]
    if not names:
        return re.compile(_USER, re.IGNORECASE)
    name = f"(?:{'|'.join(names)})"
    return re.compile(rf"{_USER}|\b(?P<name>{name}(?: {name})*)\b(?:['\u2019]s\b)?", re.IGNORECASE)


def _first_person(match: re.Match[str]) -> str:
    name = match.groupdict().get("name")
    if name is not None and name[0].islower():
        return match[0]  # a word such as "art"
    return "my" if match[0].endswith(_GENITIVE) else "I"
