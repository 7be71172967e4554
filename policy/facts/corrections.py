"""Whether a later statement corrects an earlier one that has no stored end; no other module decides that (LIVE-4).

Two statements by the same speaker are compared sentence by sentence: how much content they share, with rare words
counting more; whether the later one has a mark of change (`change_markers.json`); whether it is worded similarly with
another value; what the question asks about both. A logistic regression of these features, fitted by
`benchmarks/weights/corrections/fit_corrections.py`, decides. Greetings and questions correct nothing, and neither do
long texts: a correction is short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from recall_loop.policy.facts.attributes import same_attribute
from recall_loop.policy.facts.change_words import PRICE
from recall_loop.policy.facts.persons.same_person import same_owner, same_person
from recall_loop.policy.facts.rarity import Rarity, affects_same_property
from recall_loop.policy.facts.statement_pairs import LONGEST_NEWER, LONGEST_OLDER, comparable_pairs, values_of
from recall_loop.policy.facts.statement_similarity import beginning, has_frame, pair_features, same_label, same_matter
from recall_loop.policy.facts.subjects import changes_another, denies_value, same_subject_matter, same_thing
from recall_loop.policy.facts.supersession import said_before
from recall_loop.policy.facts.wording import Statement, read_statements
from recall_loop.policy.logistic import LogisticModel, shipped_model
from recall_loop.state.types import SpeechAct
from recall_loop.text.speech.negations import is_negated
from recall_loop.text.speech.speech_acts import speech_acts
from recall_loop.text.words.tokens import words

# Log-odds above the threshold of a statement that denies the older one's value.
_DENIED = 2.0
_ONLY_NOW = {"now"}
_SPEAKER_FIELDS = ("kind", "role", "user_id", "agent_id")
_SUBJECT_WORDS, _SHORT = 3, 3
ASKED_VALUE = "#"
"""Prefix of the numbers and names of a question among its terms."""


@dataclass(frozen=True)
class Correction:
    """A decision that one statement corrects another.

    Attributes:
        margin: its log-odds above the threshold.
        reason: the reason in words.
        only_now: whether the later one says nothing but how something is now.
    """

    margin: float
    reason: str
    only_now: bool = False


def surest_correction(
    older: Sequence[Statement], newer: str, question: frozenset[str], rarity: Rarity
) -> Correction | None:
    """Return why `newer` corrects one of some statements, or None if it doesn't.

    Args:
        older: the earlier statements (`relevant_statements`).
        newer: the same speaker's later text.
        question: the terms of the question (`question_terms`).
        rarity: how rare a word is.
    """
    best: Correction | None = None
    if _terms_of(tuple(older)).isdisjoint(_words_of(newer)):
        return best
    for first, second in comparable_pairs(older, newer):
        if same_subject(first, second, question) and both_state(first, second):
            margin = _margin(first, second, question, rarity)
            surer = margin > (best.margin if best else 0.0)
            if surer and (denies_value(first, second) or affects_same_property(first, second, question, rarity)):
                best = Correction(round(margin, 6), _reason(first, second), second.marks == _ONLY_NOW)
    return best


def _margin(older: Statement, newer: Statement, question: frozenset[str], rarity: Rarity) -> float:
    """Return the log-odds above the threshold; a denial of the older value always has at least `_DENIED`."""
    margin = _model().margin(pair_features(older, newer, without_values(question), rarity))
    return max(margin, _DENIED) if denies_value(older, newer) else margin


def _model() -> LogisticModel:
    return shipped_model("recall_loop.policy.facts", "correction_weights.json")


def same_subject(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether two statements may have the same subject: the newer one has a mark of change, or both read alike.

    "My sister works in Bergen" and "My brother works in Bergen" differ in their subject, not in a value. So do "Box 12
    holds item 84" and "Box 13 holds item 91": two numbers differ, and a question about box 12 is not about 13.
    """
    if not (same_thing(older, newer, question) and same_person(older, newer, question)):
        return False
    if has_unasked_subject(older, newer, question):
        return False
    if denies_value(older, newer):
        return True
    if not same_label(older, newer):
        return False
    if newer.marks:
        same = same_owner(older, newer) and same_attribute(older, newer, question)
        return same and same_subject_matter(older, newer, question) and not changes_another(older, newer, question)
    return not _lacks_asked_value(older, newer, question) and _same_wording(older, newer, question)


def has_unasked_subject(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether both begin with somebody else than the one of the older statement who is asked about.

    Asked for Lena's size, "Jonas has size 39, Lena 33" isn't corrected by "Jonas needs 41 now"; asked for Rex's food,
    "our dog Rex gets 200 g" is by "our dog gets 250 g now".
    """
    asked = {term.removeprefix(ASKED_VALUE) for term in question if term.startswith(ASKED_VALUE)}
    if asked.isdisjoint(older.tokens) or not (asked | newer.names - {*older.tokens}).isdisjoint(newer.tokens):
        return False  # "Ines lives in Cork", "Ines lives in Derry" gives another name for the asked one
    subject, label = beginning(older)
    return label not in asked and subject == beginning(newer)[0] and subject not in question


def _lacks_asked_value(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    """Tell whether the older statement begins with a value of the question that the newer one lacks."""
    opening = values_of(older).intersection(words(older.text)[:_SUBJECT_WORDS])
    return not {ASKED_VALUE + value for value in opening - values_of(newer)}.isdisjoint(question)


def _same_wording(older: Statement, newer: Statement, question: frozenset[str]) -> bool:
    if is_negated(older.text) != is_negated(newer.text) and older.terms - newer.terms - question:
        return False  # "he eats pasta", "he eats no meat"
    if min(len(older.numbers - newer.numbers), len(newer.numbers - older.numbers)) > 1:
        return False
    if newer.dates and not older.dates and (PRICE in older.topics or not older.numbers):
        return False  # "the library is by the bridge", "the library is open on Tuesdays"
    asked = frozenset(term.removeprefix(ASKED_VALUE) for term in question)
    if not has_frame(older, newer) or not same_matter(older, newer, asked):
        return False
    if not (older.text.isascii() and newer.text.isascii()):
        return True
    shared = set(older.tokens[:_SUBJECT_WORDS]).intersection(newer.tokens[:_SUBJECT_WORDS])
    return any(len(token) > _SHORT for token in shared)


def both_state(older: Statement, newer: Statement) -> bool:
    """Tell whether both are statements, rather than a request or an acknowledgement."""
    return all(SpeechAct.STATEMENT in speech_acts(statement.text) for statement in (older, newer))


def question_terms(question: str) -> frozenset[str]:
    """Return the content words of a question, in the form of `Statement.terms`, and its numbers and names."""
    read = read_statements(question)
    values = frozenset(ASKED_VALUE + value for statement in read for value in values_of(statement))
    return values.union(*(statement.terms for statement in read))


@lru_cache(maxsize=256)
def relevant_statements(text: str, question: frozenset[str]) -> tuple[Statement, ...]:
    """Return the statements of a text that the question may be about: those that share a word with it.

    A single statement needn't share one: it may say the same in other words. Of a statement with several clauses only
    those that share a word with the question count: "I live in Oslo and my birthday is 3 June".
    """
    if len(text) > LONGEST_OLDER:
        return ()
    stated = tuple(statement for statement in read_statements(text) if statement.is_informative)
    shared = tuple(asked for each in stated if each.terms & question for asked in _asked_clauses(each, question))
    return shared or (stated if len(stated) == 1 else ())


def _asked_clauses(statement: Statement, question: frozenset[str]) -> tuple[Statement, ...]:
    asked = tuple(clause for clause in statement.clauses if clause.terms & question)
    return asked if len(asked) < len(statement.clauses) else (statement,)


@lru_cache(maxsize=256)
def _terms_of(statements: tuple[Statement, ...]) -> frozenset[str]:
    return frozenset().union(*(statement.terms for statement in statements))


@lru_cache(maxsize=4096)
def _words_of(text: str) -> frozenset[str]:
    """Return the stems and topics of a text's statements: a statement that shares none isn't corrected by it."""
    return frozenset().union(*(each.stems | each.topics for each in read_statements(text[:LONGEST_NEWER])))


def may_correct(older: Mapping[str, Any], newer: Mapping[str, Any]) -> bool:
    """Tell whether a record may correct another: it has the same speaker or subject, is later, and is short."""
    same_speaker = speaker_key(older) == speaker_key(newer)
    return same_speaker and may_be_correction(newer) and has_no_end(older) and said_before(older, newer)


def may_be_correction(record: Mapping[str, Any]) -> bool:
    """Tell whether a record may correct anything at all: it is short, has a time, and is still valid."""
    return len(record["text"]) <= LONGEST_NEWER and bool(record.get("created_at")) and has_no_end(record)


def has_no_end(record: Mapping[str, Any]) -> bool:
    """Tell whether a record has no stored end: with one, nothing needs to be inferred."""
    return not (record.get("superseded_by") or record.get("valid_until"))


def speaker_key(record: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a key that is equal for records by the same speaker, or about the same subject."""
    who = record.get("subject") or record.get("author")
    return (*map(record.get, _SPEAKER_FIELDS), who.casefold() if who else None)


@lru_cache(maxsize=64)
def without_values(question: frozenset[str]) -> frozenset[str]:
    """Return the terms of a question without its numbers and names."""
    return frozenset(term for term in question if not term.startswith(ASKED_VALUE))


def _reason(older: Statement, newer: Statement) -> str:
    if newer.marks:
        return f'the same speaker said later that it changed ("{newer.mark}")'
    values = [(older.numbers, newer.numbers), (older.dates, newer.dates), (older.names, newer.names)]
    value = next((sorted(new - old)[0] for old, new in values if old - new and new - old), None)
    return "the same speaker said it later with another value" + (f' ("{value}")' if value else "")
