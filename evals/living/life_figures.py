"""Figures of lives: the facts found, the confidence, and the contents of the context block (LIVE-8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recall_loop.evals.living.life import Form, LifeAnswer, Scenario
from recall_loop.evals.measures.quality_metrics import auroc, brier, ece, mean
from recall_loop.evals.runs.prompts import COMPLETE_CUT
from recall_loop.state.types import ConfidenceLabel

_FEW = 3
_SURE = (ConfidenceLabel.MEDIUM, ConfidenceLabel.HIGH)
_LEVELS = [label.value for label in (ConfidenceLabel.LOW, ConfidenceLabel.MEDIUM, ConfidenceLabel.HIGH)]
Answers = Sequence[LifeAnswer]


def group_figures(answers: Answers) -> dict[str, Any]:
    """Return the results of a group of questions, the number of each label, and their latency.

    Shares lie in [0,1]; those of ranks are taken over the questions whose answer was said. A figure over nothing is
    null.
    """
    said = [answer for answer in answers if answer.question.answerable]
    labels = [answer.label for answer in answers]
    return {
        "questions": len(answers),
        "first": share(answer.within(1) for answer in said),
        "within_3": share(answer.within(_FEW) for answer in said),
        "within_10": share(answer.within(COMPLETE_CUT) for answer in said),
        "labels": {level: labels.count(level) for level in reversed(_LEVELS)},
        "latency_ms": mean([answer.latency_ms for answer in answers]),
    }


def confidence_figures(answers: Answers) -> dict[str, Any]:
    """Return how well confidence separates found answers from missing ones.

    `auroc` is of found against never said; `ece`, `brier` and the precision of `high` are of "the answer was said and
    is among the first ten".
    """
    scores = np.array([answer.score for answer in answers], dtype=np.float64)
    found = np.array([answer.within(COMPLETE_CUT) for answer in answers], dtype=bool)
    told = found | np.array([not answer.question.answerable for answer in answers], dtype=bool)
    high = [answer.within(COMPLETE_CUT) for answer in answers if answer.label == ConfidenceLabel.HIGH]
    return {
        "questions": len(answers),
        "found": int(found.sum()),
        "auroc": auroc(scores[told], found[told]),
        "ece": ece(scores, found),
        "brier": brier(scores, found),
        "high": len(high),
        "high_precision": share(high),
    }


def context_figures(answers: Answers) -> dict[str, Any]:
    """Return whether the context block holds the answer, its relevant share, and whether it is rightly empty."""
    said = [answer for answer in answers if answer.question.answerable]
    shares = [
        sum(name in answer.question.gold for name in answer.context_ids) / len(answer.context_ids)
        for answer in said
        if answer.context_ids
    ]
    return {
        "holds_answer": share(bool(set(answer.question.gold) & set(answer.context_ids)) for answer in said),
        "precision": mean(shares),
        "lines": mean([float(len(answer.context_ids)) for answer in answers]),
        "empty_never_said": share(not answer.context_ids for answer in answers if not answer.question.answerable),
    }


def share(values: Iterable[bool]) -> float | None:
    """Return the share of true values; None for none."""
    return mean([float(value) for value in values])


@dataclass(frozen=True)
class WantedRow:
    """One row of the table of goals: of the questions that it `picks`, the share that `holds`, and the one wanted."""

    name: str
    wanted: float
    picks: Callable[[LifeAnswer], bool]
    holds: Callable[[LifeAnswer], bool]
    at_most: bool = False

    def figures(self, answers: Answers) -> dict[str, Any]:
        """Return the row; `value` and `met` are null if there is no such question."""
        chosen = [answer for answer in answers if self.picks(answer)]
        count = sum(self.holds(answer) for answer in chosen)
        value = count / len(chosen) if chosen else None
        met = None if value is None else value <= self.wanted if self.at_most else value >= self.wanted
        bound = "at most" if self.at_most else "at least"
        return {
            "name": self.name,
            "count": count,
            "of": len(chosen),
            "value": value,
            "wanted": f"{bound} {self.wanted:g}",
            "met": met,
        }


def _is(*scenarios: Scenario) -> Callable[[LifeAnswer], bool]:
    return lambda answer: answer.question.scenario in scenarios


def _labelled(*labels: ConfidenceLabel) -> Callable[[LifeAnswer], bool]:
    return lambda answer: answer.label in labels


def _plain_once(answer: LifeAnswer) -> bool:
    return answer.question.scenario is Scenario.ONCE and answer.question.form is Form.PLAIN


def _alone_and_found(answer: LifeAnswer) -> bool:
    return _plain_once(answer) and answer.life.alone and not answer.size and answer.within(COMPLETE_CUT)


def _first(answer: LifeAnswer) -> bool:
    return answer.within(1)


def _few(answer: LifeAnswer) -> bool:
    return answer.within(_FEW)


def _folded(answer: LifeAnswer) -> bool:
    """Return whether the same said several times is one fact, with its count."""
    found = [name for name in answer.ids if name in answer.question.gold]
    counted = max((answer.counts.get(name, 1) for name in found), default=0)
    return len(found) == 1 and counted == answer.question.repeats


def wanted_rows(sizes: Sequence[int], languages: Sequence[str] = ()) -> list[WantedRow]:
    """Return the rows for memories of some sizes, and for lives in some languages."""
    return [
        *_ASKED_BEFORE,
        *(_once_among(size) for size in sizes),
        *_SAID_AGAIN,
        *(_fact_among(size) for size in sizes),
        *(_in_language(language) for language in languages),
    ]


def _never_stated(name: str, wanted: float, scenario: Scenario, *labels: ConfidenceLabel) -> WantedRow:
    return WantedRow(name, wanted, _is(scenario), _labelled(*labels), at_most=True)


_ASKED_BEFORE = (
    WantedRow("asked before and not known, said since: first", 0.95, _is(Scenario.ECHO), _first),
    _never_stated("asked before and never said: high", 0.0, Scenario.UNSAID, ConfidenceLabel.HIGH),
    _never_stated("asked before and never said: medium", 0.05, Scenario.UNSAID, ConfidenceLabel.MEDIUM),
    _never_stated("never asked and never said: high", 0.0, Scenario.NEVER, ConfidenceLabel.HIGH),
    _never_stated("never asked and never said: medium", 0.05, Scenario.NEVER, ConfidenceLabel.MEDIUM),
    WantedRow(
        "said once, nothing else, found: low", 0.05, _alone_and_found, _labelled(ConfidenceLabel.LOW), at_most=True
    ),
)
_SAID_AGAIN = (
    WantedRow("corrected later: the newer first", 0.9, _is(Scenario.CORRECTED), _first),
    WantedRow(
        "corrected later: the older marked",
        0.9,
        _is(Scenario.CORRECTED),
        lambda answer: not answer.superseded.isdisjoint(answer.question.older),
    ),
    WantedRow("corrected later, asked about the past: the older first", 0.9, _is(Scenario.PAST), _first),
    WantedRow("said several times: one fact, with its count", 0.95, _is(Scenario.REPEATED), _folded),
    WantedRow(
        "erased or expired: still found", 0.0, _is(Scenario.FORGOTTEN), lambda answer: bool(answer.older_rank), True
    ),
    _never_stated("erased or expired: medium or high", 0.05, Scenario.FORGOTTEN, *_SURE),
    WantedRow("said by two users, asked by one: first", 0.95, _is(Scenario.USERS), _first),
)


def _once_among(size: int) -> WantedRow:
    def picks(answer: LifeAnswer) -> bool:
        return _plain_once(answer) and answer.size == size

    return WantedRow(f"said once among {size} others: within 3", 0.95, picks, _few)


def _fact_among(size: int) -> WantedRow:
    def picks(answer: LifeAnswer) -> bool:
        return answer.question.scenario is Scenario.FACT and answer.size == size

    return WantedRow(f"an exact fact among {size} others: high", 0.95, picks, _labelled(ConfidenceLabel.HIGH))


def _in_language(language: str) -> WantedRow:
    def picks(answer: LifeAnswer) -> bool:
        return _plain_once(answer) and answer.life.language == language

    return WantedRow(f"said once in {language}: within 3", 0.85, picks, _few)


def label_moves(answers: Answers) -> dict[str, Any]:
    """Return in how many questions the label moves by more than one level from one size to another (LIVE-3)."""
    levels: dict[str, list[int]] = {}
    for answer in answers:
        levels.setdefault(answer.question.id, []).append(_LEVELS.index(answer.label))
    several = [found for found in levels.values() if len(found) > 1]
    moved = sum(max(found) - min(found) > 1 for found in several)
    return {"questions": len(several), "moved": moved, "share": moved / len(several) if several else None}
