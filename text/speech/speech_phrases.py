"""The set phrases by which sentences are told apart: of each kind one pattern, for all languages (`phrases.json`)."""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache

from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.words.languages import WITHOUT_BLANKS

# Languages whose words of question are also names and words of others: "Dove", "Chi", "Wat Arun", "welke Rosen".
NAMELIKE = frozenset({"it", "pt", "nl"})


class SpeechPhrases:
    """The patterns of all languages as one of each kind, each compiled when it is first asked for."""

    about_questions: re.Pattern[str]
    question_openers: re.Pattern[str]
    likely_openers: re.Pattern[str]
    indirect_questions: re.Pattern[str]
    forgetting: re.Pattern[str]
    requests: re.Pattern[str]
    telling: re.Pattern[str]
    telling_questions: re.Pattern[str]
    tags: re.Pattern[str]
    acknowledgements: re.Pattern[str]
    non_answers: re.Pattern[str]
    plain_non_answers: re.Pattern[str]
    denied_knowledge: re.Pattern[str]

    def __init__(self, **patterns: str) -> None:
        self._patterns = patterns

    def __getattr__(self, kind: str) -> re.Pattern[str]:
        if kind not in self.__annotations__:
            raise AttributeError(kind)
        setattr(self, kind, compiled := re.compile(self._patterns[kind], re.IGNORECASE))
        return compiled


@lru_cache(maxsize=1)
def speech_phrases() -> SpeechPhrases:
    """Return the phrases."""
    data = packaged_table(__package__, "phrases.json")

    def joined(kind: str, most: int | None = None, *, within: Set[str] = frozenset(data)) -> str:
        return "|".join(pattern for code, each in data.items() if code in within for pattern in each[kind][:most])

    return SpeechPhrases(
        about_questions=joined("about_questions"),
        question_openers=joined("question_openers", within=data.keys() - NAMELIKE),
        likely_openers=joined("question_openers", within=NAMELIKE),
        indirect_questions=joined("indirect_questions"),
        forgetting=joined("forgetting"),
        requests=joined("requests"),
        telling=joined("telling"),
        telling_questions=joined("telling_questions"),
        tags=rf"(?:{joined('tags')})\W*$",
        acknowledgements=rf"(?:\W*(?:{joined('acknowledgements')})(?!\w)|\W*(?:{_acknowledging_unspaced(data)}))+\W*$",
        non_answers=rf"(?:{joined('non_answers')})\W*$",
        plain_non_answers=rf"(?:{joined('non_answers', 1)})\W*$",
        denied_knowledge="|".join(_denied_knowledge(language) for language in data.values()),
    )


def _denied_knowledge(language: dict[str, list[str]]) -> str:
    """Return the pattern of a sentence that denies, in any words, that its speaker knows, was told or has on record."""
    denial, knowing, noun, person, addressed, told = (
        "|".join(language[kind])
        for kind in ("denials", "knowing", "memory_nouns", "first_person", "second_person", "telling_verbs")
    )
    near = "[^,;:，；：]{0,40}"
    denied = rf"(?:{denial}){near}(?:{knowing}|{noun})|(?:{noun}){near}(?:{denial})"
    denied_of_listener = rf"(?:{addressed}){near}(?:{denial})|(?:{denial}){near}(?:{addressed})"
    return rf"(?=.*(?:{person})).*(?:{denied})|.*(?:{denied_of_listener}){near}(?:{told})"


def _acknowledging_unspaced(data: dict[str, dict[str, list[str]]]) -> str:
    """Return the acknowledgements of the languages whose words no blank ends."""
    return "|".join(phrase for code in sorted(WITHOUT_BLANKS) for phrase in data[code]["acknowledgements"])
