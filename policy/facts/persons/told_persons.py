"""Whether somebody tells of a person by name, rather than addresses that person (CONF-4).

"Lena is allergic to nuts" tells of Lena, whoever says it; "Hey Lena, that's great!" and "Thanks Lena" don't. Behind an
address stands a mark, and so it does behind some other names; or its sentence is to the listener.
"""

from __future__ import annotations

import re
from collections.abc import Set

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.words.tokens import stems, text_language, words

_SENTENCES = re.compile(r"(?<=[.!?…])\s+|[。！？\n]+")
_WORDS = re.compile(r"\w+")
_LONGEST = 2000


def tells_of(text: str, names: Set[str], asked: Set[str]) -> bool:
    """Tell whether a text tells of somebody what is asked for.

    What is in the first person behind the name tells of the speaker ("I told Lena that I moved"), and one of several
    sentences tells what is asked for only if it has a word of it ("Lena came over. The ferry was late").

    Args:
        text: what somebody says.
        names: the stems of the names of whom is asked about.
        asked: the stems of the other words of the question.
    """
    if not names:
        return False
    told = [sentence for sentence in _SENTENCES.split(text[:_LONGEST]) if sentence.strip()]
    on_matter = told if len(told) == 1 else [each for each in told if not asked.isdisjoint(stems(each))]
    return any(_tells_of(sentence, names) for sentence in on_matter)


def _tells_of(sentence: str, names: Set[str]) -> bool:
    language = text_language(sentence)
    found = [match for match in _WORDS.finditer(sentence) if not names.isdisjoint(stems(match[0]))]
    if not found or not shared_words("addressed").isdisjoint(words(sentence)):
        return False
    return any(_goes_on(match[0], sentence[match.end() :], language) for match in found)


def _goes_on(name: str, after: str, language: str) -> bool:
    """Tell whether what stands behind a name tells of it: neither of a relative of theirs, nor of the speaker."""
    owns, known = after[:1] in {"'", "’"} or len(stems(name)) > 1, person_words().get(language)
    following = words(after.removeprefix("'s").removeprefix("’s"))[:1]
    if owns:
        return known is None or not any(person_stem(word, language, known) for word in following)
    of_speaker = not shared_words("speakers").isdisjoint(words(after))
    return not of_speaker and after.lstrip(" ")[:1].isalnum()
