"""Reads the best facts together with the question, to tell whether they answer it (CONF-3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recall_loop.memory.store.embed.answer_reader import read_answers
from recall_loop.memory.store.encoding.indexing import NAMELESS
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.confidence.asked_values import holds_asked_kind, tells_by_rule
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.statements import first_person_text
from recall_loop.policy.logistic import log_odds
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.state.errors import EmbedderError
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType, Role
from recall_loop.text.words.passages import passage

# How many facts are read, best first, before the order is settled, and of the settled ones.
_READ_DEPTH, _SIGNAL_DEPTH = 6, 3
# Characters of a fact that are read.
_READ_CHARACTERS = 400
# Probabilities of an answer at which reading ends: at a later fact while the order is settled, and otherwise.
_CERTAIN, _SURE = 0.95, 0.7
# Weight of the log-odds of an answer in the order, beside the score; they count up to those of a sure answer.
_READING_WEIGHT = 0.05
# One of the first four takes the first one's place if it answers the question at least so likely, and its log-odds are
# so much above that one's. These were chosen on the lives in `benchmarks/weights/confidence/lives` and on LoCoMo.
_FRONT_DEPTH, _LEAST_LIKELY, _LIKELIER = 4, 0.5, math.log(8.0)
# A fact stays evidence if it answers the question at least so likely.
_LIKELY = 0.9
_EVEN, _UNLIKELY = 0.5, 0.2


def order_by_reading(ranked: Sequence[RankedEntry], run: RunContext) -> list[RankedEntry]:
    """Return the facts with the first six ordered by whether they answer the question, too, as they are read.

    Only messages and facts are reordered: a passage of a document often answers only together with another one. Scores
    stay with the places. Facts for a question with several answers keep their order.
    """
    if run.question.asks_several or run.question.about_questions:
        return list(ranked)
    told = [item for item in ranked[:_READ_DEPTH] if run.is_evidence(item.entry)]
    read = _read([run.evidence(item.entry) for item in told], run, _CERTAIN)
    odds = {item.id: log_odds(each) for item, each in zip(told, read, strict=False)}
    said = [item for item in told[: len(read)] if item.entry["record"]["kind"] != ContentType.ARCHIVAL]
    enough = log_odds(_SURE)
    rated = {item.id: item.score + _READING_WEIGHT * min(odds[item.id], enough) for item in said}
    ordered = _reordered(ranked, sorted(said, key=lambda item: -rated[item.id]))
    return _reordered(ordered, _answer_first([item for item in ordered if item.id in odds], odds))


def _reordered(ranked: Sequence[RankedEntry], wanted: Sequence[RankedEntry]) -> list[RankedEntry]:
    """Return the facts with some of them in another order in the places that these have, whose scores they get."""
    ids, following = {item.id for item in wanted}, iter(wanted)
    return [replace(next(following), score=item.score) if item.id in ids else item for item in ranked]


def _answer_first(best: list[RankedEntry], odds: Mapping[str, float]) -> list[RankedEntry]:
    """Return facts with the likeliest answer of the first four moved to the front, if the first is none."""
    if not best:
        return best
    likeliest = max(best[:_FRONT_DEPTH], key=lambda item: odds[item.id])
    if odds[likeliest.id] < log_odds(_LEAST_LIKELY) or odds[likeliest.id] - odds[best[0].id] < _LIKELIER:
        return best
    return [likeliest, *(item for item in best if item.id != likeliest.id)]


def likely_answers(ranked: Sequence[RankedEntry], run: RunContext) -> frozenset[str]:
    """Return the ids of those of the first three facts that answer the question, as they are read."""
    best = ranked[:_SIGNAL_DEPTH]
    read = _read([item.entry for item in best], run)
    return frozenset(item.id for item, each in zip(best, read, strict=False) if each >= _LIKELY)


def read_fact(item: RankedEntry, run: RunContext) -> float:
    """Return the probability in [0,1] that a fact answers the question, as it is read; .5 if it can't be read."""
    return _read([item.entry], run)[0]


def read_facts(ranked: Sequence[RankedEntry], run: RunContext) -> list[float]:
    """Return the probability in [0,1] that each of the first three facts answers the question, up to a sure one.

    Of a long fact the passage with most of the question's words is read. What the rules of its language know counts
    beside that: one that tells the asked property or place ("moved to Kiel" is read as no home), or supports every
    facet and holds the asked kind, is at least as likely an answer as not; one without the asked person is unlikely.
    """
    best = [item.entry for item in ranked[:_SIGNAL_DEPTH]]
    return [_with_rules(each, entry, run) for each, entry in zip(_read(best, run), best, strict=False)]


def _with_rules(probability: float, entry: PoolEntry, run: RunContext) -> float:
    question = run.question
    holds = question.asked is not None and holds_asked_kind(question, entry)
    if tells_by_rule(question, entry) or (holds and len(run.supported_facets(entry)) == len(run.facets)):
        return max(probability, _EVEN)
    return min(probability, _UNLIKELY) if question.asked is AnswerKind.PERSON and not holds else probability


def _read(entries: Sequence[PoolEntry], run: RunContext, sure: float = _SURE) -> list[float]:
    """Return the probability of each entry up to a sure one: the first from .7, later ones from `sure`.

    Each text is read once a run.

    If the model can't be run, the run goes on with even odds, and its result says so.
    """
    read: list[float] = []
    for entry in entries:
        text = passage(_attributed_text(entry["record"], run.request.question.author), run.terms, _READ_CHARACTERS)
        if text not in run.readings:
            try:
                run.readings[text] = _EVEN if run.unread else read_answers(run.question.text, [text])[0]
            except EmbedderError as error:
                run.readings[text], run.unread = _EVEN, f"facts not read with the question: {error.told}"
        read.append(run.readings[text])
        if read[-1] >= (sure if len(read) > 1 else _SURE):
            break
    return read


def _attributed_text(record: Mapping[str, Any], asker: str | None) -> str:
    """Return a record's text behind the name of whose it is, where that isn't the one who asks."""
    text = first_person_text(record)
    if record.get("role") == Role.ASSISTANT:
        return f"{Role.ASSISTANT.value}: {text}"
    owner = str(record.get("author") or record.get("subject") or "")
    named = owner and owner != asker and owner.casefold() not in NAMELESS
    return f"{owner}: {text}" if named and not text.casefold().startswith(owner.casefold()) else text
