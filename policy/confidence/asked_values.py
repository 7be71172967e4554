"""What may answer a question for an amount, or for where somebody lives or works (CONF-3).

"How old is Rosa?" is no more answered by "my manager is called Rosa" than by nothing, however well the two match, and
neither is "where does Rosa live?". What tells no amount, in itself or around it, is then no evidence, and neither is
what names her and tells no place.
"""

from __future__ import annotations

from recall_loop.policy.evidence.coverage import entry_terms
from recall_loop.policy.facts.change_words import find_topics, place_words
from recall_loop.policy.question.amounts import tells_amount
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.agent_state import PoolEntry
from recall_loop.state.types import ContentType
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.speech.person_words import person_words
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import GERMAN
from recall_loop.text.words.tokens import text_language, words

_PLACES = frozenset({"=residence", "=work"})


def may_answer(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record may hold the amount or the place that a question asks for.

    True where it asks for anything else too.
    """
    if len(question.parts) > 1:
        return True
    return _may_tell_amount(question, entry) and _may_tell_place(question, entry)


def _may_tell_amount(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    if question.asked is not AnswerKind.NUMBER:
        return True
    return any(tells_amount(text) for text in (entry["record"]["text"], entry["window"]))


def _may_tell_place(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    known = person_words().get(question.language)
    if known is None or not question.name_terms or known.where.isdisjoint(words(question.text)):
        return True
    if _PLACES.isdisjoint(find_topics(fold(question.text), question.language)):
        return True
    if entry["record"]["kind"] == ContentType.FACT or question.name_terms.isdisjoint(entry_terms(entry)):
        return True  # what a fact was drawn from may tell the place
    return _tells_place(entry["record"]["text"], question)


def _tells_place(text: str, question: AnalysedQuestion) -> bool:
    """Tell whether a text has a word before which or by which a place stands, or a name that isn't asked for."""
    language = text_language(text)
    if language not in person_words():
        return True
    asked = {*words(question.text)}
    named = language != GERMAN and any({*words(name)} - asked for name in find_entities(text))
    return named or not place_words(language).isdisjoint(map(fold, words(text)))
