"""What the sentences of a text do: tell, ask, request, acknowledge, or say that there is no answer (LIVE-1).

Worked out from marks of punctuation and from `phrases.json`, openers and set phrases of several languages that all
apply to every text. A sentence that ends in a question mark may tell something before it asks ("I moved to Bergen,
where do I register?"): its clauses up to the one that asks are a statement. A question mark behind a tag ("I moved,
right?") asks nothing, nor does one that only asks to keep something in mind ("Can you remember that I moved?").
Whatever matches nothing is a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from recall_loop.state.types import Role, SpeechAct
from recall_loop.text.speech.speech_phrases import NAMELIKE, speech_phrases
from recall_loop.text.words.languages import language_words
from recall_loop.text.words.stop_words import STOP_WORDS
from recall_loop.text.words.tokens import words

READ_CHARACTERS = 20_000
_QUESTION_MARKS = "?？؟"
_SENTENCE = re.compile(r"[^.!?。！？؟…\n]*(?:[.!?。！？؟…]+[\"'”’»)\]*]*|\n|$)")
_CLAUSE = re.compile(
    r"(?<=[,;:，；：])(?!\d)\s*|\s+[-–—]+\s+|\s+(?=¿)"
    # A Japanese comma separates clauses behind these endings only.
    r"|(?<=けど、)|(?<=ので、)|(?<=から、)|(?<=のに、)|(?<=たし、)|(?<=です、)|(?<=ます、)|(?<=した、)"
)
# A full stop behind these, or inside of a number or a name, ends no sentence.
_ABBREVIATION = re.compile(
    r"(?:\b(?:dr|mr|mrs|ms|st|prof|vs|etc|e\.g|i\.e|no|nr|bzw|z\.b|d\.h|sr|sra|dra|mme|mlle|approx|jan|feb|apr|aug|sept?"
    r"|oct|nov|dec|inc|ltd|co)|\b\w|\d)\.$",
    re.IGNORECASE,
)
_LEADING = re.compile(r"^[\s\"'“‘«(\[*\-•>¡]+")
_JOINING = re.compile(
    r"^(?:so|and|but|or|then|und|aber|also|oder|maar|dus|of|y|pero|o|entonces|et|mais|donc|ou|alors|e|ma|allora|mas|então"
    r"|и|но|а|или)\s+",
    re.IGNORECASE,
)
# A clause that goes on with what is to be forgotten, rather than tell something of its own.
_GOING_ON = re.compile(
    r"(?:that|and|or|dass|und|oder|dat|en|of|que|y|o|et|ou|che|e|что|и|или)\b|qu['’]|[和以及]", re.IGNORECASE
)
_FEWEST_WORDS = 2
_LONGEST_DENIAL = 120
_UNSPACED = re.compile(r"[\u3041-\u30ff\u3400-\u9fff]")
_SUBJECT_FOLLOWS = re.compile(
    r"(?:what|which|when|where|why|how|who|was|wie|wo|wer|wann|wat|waar|wanneer|hoe|quand|comme|où"
    r"|qui|когда|где|как|что)"
    r" (?:i|you|he|she|we|they|it|my|our|the|this|that|ich|du|er|sie|wir|ik|jij|hij|zij|ze|wij|je|j|tu"
    r"|il|elle|on|nous|vous"
    r"|я|ты|он|она|мы|вы|они)\b|what an? ",
    re.IGNORECASE,
)


class SentenceAct(NamedTuple):
    """One sentence, or part of one: where it begins and ends in the text, and what it does."""

    start: int
    end: int
    act: SpeechAct


@lru_cache(maxsize=8192)
def find_speech_acts(text: str, role: Role | None = None) -> tuple[SentenceAct, ...]:
    """Return the sentences of a text in order, each with its act; parts of blanks and marks alone are left out.

    What lies behind the first 20,000 characters counts as one statement.

    Args:
        text: any text.
        role: the speaker's role. Only assistants and tools are taken to say that memory holds nothing in other words
            than a plain "I don't know": people may well talk of what they couldn't find.
    """
    found: list[SentenceAct] = []
    for start, end in _sentences(text[:READ_CHARACTERS]):
        for part in _sentence_acts(text, start, end, role):
            if found and found[-1].act is part.act and found[-1].end == part.start:
                found[-1] = SentenceAct(found[-1].start, part.end, part.act)
            else:
                found.append(part)
    if len(text) > READ_CHARACTERS:
        found.append(SentenceAct(READ_CHARACTERS, len(text), SpeechAct.STATEMENT))
    return tuple(found)


def speech_acts(text: str, role: Role | None = None) -> frozenset[SpeechAct]:
    """Return the acts of a text's sentences; arguments as in `find_speech_acts`."""
    return frozenset(sentence.act for sentence in find_speech_acts(text, role))


def is_about_questions(text: str) -> bool:
    """Tell whether a question asks what was asked or requested, as in "what did I ask about the boat?"."""
    return bool(speech_phrases().about_questions.search(text[:READ_CHARACTERS]))


def asks_to_forget(text: str) -> bool:
    """Tell whether a sentence of a text asks to forget or erase something."""
    sentences = (_LEADING.sub("", text[start:end]) for start, end in _sentences(text[:READ_CHARACTERS]))
    return any(speech_phrases().forgetting.match(sentence) for sentence in sentences)


def stated_text(text: str, role: Role | None = None) -> str:
    """Return the statements of a text, joined by blanks; empty where it states nothing."""
    found = find_speech_acts(text, role)
    if all(sentence.act is SpeechAct.STATEMENT for sentence in found):
        return text
    return " ".join(text[part.start : part.end].strip() for part in found if part.act is SpeechAct.STATEMENT)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence that has a letter or digit."""
    start = 0
    for found in _SENTENCE.finditer(text):
        end = found.end()
        following = text[end : end + 1]
        stops = found.group().rstrip("\"'”’»)]*")
        if stops.endswith(".") and ((following and not following.isspace()) or _ABBREVIATION.search(stops)):
            continue
        if any(char.isalnum() for char in text[start:end]):
            yield start, end
        start = end


def _sentence_acts(text: str, start: int, end: int, role: Role | None) -> Iterator[SentenceAct]:
    sentence = text[start:end]
    bare = _LEADING.sub("", sentence).strip()
    if speech_phrases().forgetting.match(bare) and not speech_phrases().telling.match(bare):
        asked_to = _end_of_forgetting(sentence)
        yield SentenceAct(start, start + asked_to, SpeechAct.REQUEST)
        if asked_to < len(sentence):
            yield from _sentence_acts(text, start + asked_to, end, role)
        return
    act = _whole_act(bare, role)
    if act is not None:
        yield SentenceAct(start, end, act)
        return
    asked_from = _first_asking_clause(sentence)
    if asked_from:
        yield SentenceAct(start, start + asked_from, SpeechAct.STATEMENT)
    rest = _LEADING.sub("", sentence[asked_from:]).strip()
    asks = SpeechAct.REQUEST if speech_phrases().requests.match(rest) else SpeechAct.QUESTION
    yield SentenceAct(start + asked_from, end, asks)


def _whole_act(sentence: str, role: Role | None) -> SpeechAct | None:
    """Return the act of a whole sentence; None for one that asks, maybe behind a statement."""
    phrases = speech_phrases()
    if phrases.indirect_questions.match(sentence):
        return SpeechAct.QUESTION
    if sentence.rstrip("\"'”’»)]*. ")[-1:] in tuple(_QUESTION_MARKS):
        return SpeechAct.STATEMENT if phrases.telling_questions.match(sentence) or _is_tagged(sentence) else None
    is_persons = role is None or role is Role.USER
    declines = phrases.plain_non_answers if is_persons else phrases.non_answers
    kinds = (
        (phrases.acknowledgements, SpeechAct.ACKNOWLEDGEMENT),
        (declines, SpeechAct.NON_ANSWER),
        (phrases.telling, SpeechAct.STATEMENT),
        (phrases.requests, SpeechAct.REQUEST),
    )
    act = next((act for pattern, act in kinds if pattern.match(sentence)), None)
    if act is None and not is_persons and _denies_knowledge(sentence):
        act = SpeechAct.NON_ANSWER
    if act is not None:
        return act
    ended = sentence[-1:] in tuple(".!。！…")
    opens = _has_opener(sentence) and not _SUBJECT_FOLLOWS.match(sentence)
    return SpeechAct.QUESTION if opens and not ended else SpeechAct.STATEMENT


def _denies_knowledge(sentence: str) -> bool:
    """Tell whether a short sentence without a number says no more than that its speaker doesn't know."""
    if len(sentence) > _LONGEST_DENIAL or any(char.isdigit() for char in sentence):
        return False
    return bool(speech_phrases().denied_knowledge.match(sentence))


def _is_tagged(sentence: str) -> bool:
    """Tell whether a sentence with a question mark tells something and only its last clause asks for assent."""
    *told, tag = [part for part in _CLAUSE.split(sentence) if part.strip()]
    first = _LEADING.sub("", told[0]) if told else ""
    return bool(first) and bool(speech_phrases().tags.match(tag.strip())) and not _opens_question(first)


def _opens_question(clause: str) -> bool:
    phrases, clause = speech_phrases(), _JOINING.sub("", clause)
    return bool(_has_opener(clause) or phrases.requests.match(clause) or phrases.indirect_questions.match(clause))


def _has_opener(clause: str) -> bool:
    phrases = speech_phrases()
    likely = phrases.likely_openers.match(clause) and not _is_of_another_language(clause)
    return bool(likely or phrases.question_openers.match(clause))


def _is_of_another_language(clause: str) -> bool:
    """Tell whether a clause only opens with a name or word that asks in some language: "Dove soap is in the hall"."""
    _, *following = words(clause) or [""]
    asking, other = (_small_words(names) for names in (True, False))
    return len(other.intersection(following) - asking) > len(asking.intersection(following) - other)


@cache
def _small_words(namelike: bool) -> frozenset[str]:
    """Return the stop words of those languages in Latin letters whose words of question are names, or of the others."""
    known = language_words()
    own = frozenset[str]().union(*(known[code].stop for code in NAMELIKE))
    return own if namelike else STOP_WORDS.union(*(known[code].stop for code in ("de", "es", "fr")))


def _first_asking_clause(sentence: str) -> int:
    """Return where the clause begins that asks, the last one if none is recognised; 0 where the sentence begins so."""
    at = last = 0
    for found in _CLAUSE.finditer(sentence):
        if found.start() == found.end() == len(sentence):
            break
        before = _LEADING.sub("", sentence[:at] + sentence[at : found.start()])
        if _says_enough(before):
            if _opens_question(_LEADING.sub("", sentence[found.end() :])):
                return 0 if _opens_question(before) else found.end()
            last = found.end()
        at = found.end()
    return 0 if _opens_question(_LEADING.sub("", sentence)) else last


def _end_of_forgetting(sentence: str) -> int:
    """Return where a request to forget ends, and a clause begins that tells or asks something else."""
    for found in _CLAUSE.finditer(sentence):
        rest = sentence[found.end() :]
        if _says_enough(rest) and not (_GOING_ON.match(rest) or _has_opener(rest)):
            return found.end()
    return len(sentence)


def _says_enough(clause: str) -> bool:
    return len(clause.split()) >= _FEWEST_WORDS or len(_UNSPACED.findall(clause)) > _FEWEST_WORDS
