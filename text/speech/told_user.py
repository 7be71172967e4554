"""What a fact tells of its user in the third person, as the user would say it: "User's cat" is "my cat" (CONF-3).

Whoever writes facts down writes "User lives in Bergen", or the user's name, where the user says "I". Whose a thing is
and who has changed is told by such words as "I" and "my", so that without this "User" is taken for somebody else.
Only English has such a word for "my"; in other languages the word for a user is no name, and is passed over.
"""

from __future__ import annotations

import re
from functools import lru_cache

from recall_loop.text.words.languages import ENGLISH
from recall_loop.text.words.tokens import text_language

# As the subject of a sentence, or as whose something is.
_USER = r"(?:^|(?<=[.;!?]\s))(?:the )?user(?:['\u2019]s)?(?![\w-])|\b(?:the )?user['\u2019]s\b"
_GENITIVE = ("'s", "\u2019s")
_NAME = re.compile(r"[^\W\d_]+")
# A single letter is mostly part of a number: u-5.
_SHORTEST_NAME = 2


@lru_cache(maxsize=4096)
def in_first_person(text: str, user_id: str = "") -> str:
    """Return an English text with "I" and "my" in place of the user; any other text as it is.

    Args:
        text: what a fact or a document says.
        user_id: whose it is. Where it is made of names ("ada", "ada.lind"), these are the user's.
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
