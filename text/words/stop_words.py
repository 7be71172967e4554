"""Stop words, question words, and pronouns that show whether a text is about its author or its reader."""

from __future__ import annotations

import re
from functools import lru_cache


def word_set(text: str) -> frozenset[str]:
    """Return the blank-separated words of `text`."""
    return frozenset(text.split())


QUESTION_WORDS: frozenset[str] = word_set(
    "who whom whose what which when where why how whats whos wheres whens hows whys whoever whatever"
    " whichever whenever wherever however"
)

_ARTICLES_AND_PRONOUNS = """
a an the this that these those i me my mine myself we us our ours ourselves you your yours yourself yourselves he him
his himself she her hers herself it its itself they them their theirs themselves one ones someone somebody something
anyone anybody anything everyone everybody everything nobody nothing none each every either neither both all any some
such other others another same own
"""
_AUXILIARIES = """
am is are was were be been being do does did done doing have has had having can could will would shall should might
must ought need dare used get gets got getting let lets cannot gonna wanna gotta
"""
_PREPOSITIONS = """
of in on at by for from to into onto with without within about above across after against along among amongst around
as before behind below beneath beside besides between beyond despite down during except inside like near off out
outside over past per since through throughout till toward towards under until up upon via
"""
_CONJUNCTIONS_AND_ADVERBS = """
and or but nor so yet if then else than though although because unless whereas while whether once not no only just
also too very quite rather really even ever never always still already again almost perhaps maybe here there now much
many more most less least few lot lots bit enough well actually basically literally definitely probably simply anyway
anyways etc
"""
_CHAT = """
hey hi hello yeah yep yes yup nah nope ok okay oh ooh wow hmm hm uh um umm ah aha haha lol please thanks thx yall em
tho cuz omg btw ya u ur s t nt
"""
_BARE_CONTRACTIONS = """
dont doesnt didnt isnt arent wasnt werent wont wouldnt cant couldnt shouldnt havent hasnt hadnt aint mustnt im ive
youre youve youll theyre theyve theyll weve hes shes thats theres heres itll itd youd theyd
"""

STOP_WORDS: frozenset[str] = QUESTION_WORDS.union(
    word_set(_ARTICLES_AND_PRONOUNS),
    word_set(_AUXILIARIES),
    word_set(_PREPOSITIONS),
    word_set(_CONJUNCTIONS_AND_ADVERBS),
    word_set(_CHAT),
    word_set(_BARE_CONTRACTIONS),
)
"""Words that carry no information about the subject of a text, including `QUESTION_WORDS`."""

ASKING_WORDS: frozenset[str] = word_set(
    """tell tells told telling show shows showed list lists find finds found know knows knew known knowing remember
    remembers remembered remind say says said saying mention mentions mentioned talk talks talked talking describe
    explain give recall ask asked asking want wants wanted think thinks thought search look looking"""
)
"""Verbs of asking and reporting: content in a statement, padding in a question."""

QUESTION_TAILS: dict[str, frozenset[str]] = {
    "how": word_set("many much long often far old soon big tall come frequently"),
    "who": word_set("know knows knew"),
    "anyone": word_set("know knows"),
    "anybody": word_set("know knows"),
    "what": word_set("kind kinds sort sorts type types"),
    "which": word_set("kind kinds sort sorts type types"),
}
"""Words that belong to the question form, but only directly after the key."""


_READ_CHARACTERS = 20_000
# The part before an apostrophe is a word: "I'm" is first person, "you're" second.
_WORD = re.compile(r"[^\W\d_]+")
_FIRST = word_set("i im ive me my mine myself we weve us our ours ourselves")
_SECOND = word_set("you youre youve youll youd your yours yourself yourselves u ur")


@lru_cache(maxsize=4096)
def first_person_balance(text: str) -> float:
    """Return a balance from 1 (first person only: about its author) to -1 (second person only); 0 with neither.

    Only the first 20,000 characters count.
    """
    words = _WORD.findall(text[:_READ_CHARACTERS].lower())
    first, second = (sum(map(known.__contains__, words)) for known in (_FIRST, _SECOND))
    return (first - second) / (first + second) if first + second else 0.0
