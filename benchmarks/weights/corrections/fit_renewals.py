"""Fit what tells that a later message renews the best one found (LIVE-4): `renewal_weights.json` of `evidence/changes`.

    python benchmarks/weights/corrections/fit_renewals.py [--lives DIR] [-o FILE]

It learns from the lives beside the confidence scripts: a later message renews the best one where a question about what
has changed finds the older statement first; nothing renews gold. Printed by threshold, with each set of lives held out
in turn: how many questions get gold first and within three, and how many of those about what has changed get the newer
statement before the older. Nothing is random: the same data give the same weights.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.linear_model import LogisticRegression

from recall_loop import Memory, MemoryStore
from recall_loop.nodes.steps import corrected_facts
from recall_loop.policy.evidence.changes.matter import AskedMoment, Matter
from recall_loop.policy.evidence.changes.renewals import asks_about_now, renewal_features, with_reading
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.question.question import AnalysedQuestion

LIVES = Path(__file__).resolve().parents[1] / "confidence" / "lives"
# How much a pair counts: a renewal and gold that would lose its place, an outdated message that something else would
# stand before, and two of which neither answers.
COUNTS, OUTDATED, NEITHER = 3.0, 0.5, 0.3
CHANCES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
STRENGTH = 0.3
DIGITS = 6


@dataclass(frozen=True)
class Asked:
    """A question, the ids found before renewals, best first, and the features of what may renew the first."""

    group: str
    gold: frozenset[str]
    older: frozenset[str]
    found: list[str]
    pairs: list[tuple[int, dict[str, float]]]

    def label(self, at: int) -> tuple[bool, float] | None:
        """Return whether the entry at a place renews the first, and how much that counts; None = left out."""
        first, later = self.found[0], self.found[at]
        if first in self.gold:
            return False, COUNTS
        if later in self.gold:
            return (True, COUNTS) if first in self.older else None
        return False, OUTDATED if first in self.older else NEITHER


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def asked_questions(folder: Path) -> Iterator[Asked]:
    """Yield the questions of a folder of lives; those about the past and with several answers have no pairs."""
    questions = read_lines(folder / "questions.jsonl")
    for file in sorted((folder / "turns").iterdir()):
        memory = Memory(store=MemoryStore.in_memory())
        turns = [turn | {"created_at": turn["timestamp"]} for turn in read_lines(file)]
        for _, day in groupby(turns, key=lambda turn: turn["created_at"][:10]):
            messages = [{name: turn[name] for name in ("id", "role", "text", "created_at")} for turn in day]
            memory.add(messages, user_id="user")
        for question in (each for each in questions if each["collection"] == file.stem):
            yield ask(memory, question)


def ask(memory: Memory, question: dict[str, Any]) -> Asked:
    """Return what one question finds, without any renewal."""
    found: list[str] = []
    pairs: list[tuple[int, dict[str, float]]] = []

    def collect(
        ordered: list[RankedEntry], question: AnalysedQuestion, moment: AskedMoment, matter: Matter
    ) -> list[RankedEntry]:
        found[:] = [item.id for item in ordered]
        pairs[:] = []
        if asks_about_now(question, moment):
            pairs[:] = [
                (at, with_reading(features, matter.read(item)))
                for at, item, features in renewal_features(ordered, matter)
            ]
        return ordered

    with patch.object(corrected_facts, "put_renewal_first", collect):
        result = memory.recall(question["question"], user_id="user")
    if not found:  # a question for the last time of something has no renewals
        found = [fact.id for fact in result.facts]
    group = question["collection"].partition("-")[0]
    return Asked(group, frozenset(question["gold"]), frozenset(question.get("older", ())), found, pairs)


def fit(asked: Sequence[Asked]) -> dict[str, Any]:
    """Return weights by feature and the intercept."""
    labelled = [(features, each.label(at)) for each in asked for at, features in each.pairs]
    rows = [(features, label) for features, label in labelled if label is not None]
    names = list(rows[0][0])
    values = np.array([[features[name] for name in names] for features, _ in rows])
    mean, scale = values.mean(0), values.std(0) + 1e-9
    wanted, counts = np.array([label for _, label in rows]).T
    model = LogisticRegression(C=STRENGTH, max_iter=5000).fit((values - mean) / scale, wanted > 0, counts)
    weights = model.coef_[0] / scale
    intercept = float(model.intercept_[0] - weights @ mean)
    named = {name: round(float(weight), DIGITS) for name, weight in zip(names, weights, strict=True)}
    return {"weights": named, "intercept": round(intercept, DIGITS)}


def renewed(asked: Asked, model: dict[str, Any], threshold: float) -> list[str]:
    """Return the ids found, with what renews the first one before it."""
    rated = [
        (model["intercept"] + sum(model["weights"][name] * value for name, value in features.items()), -at)
        for at, features in asked.pairs
    ]
    margin, at = max(rated, default=(threshold, 0))
    later = asked.found[-at]
    return [later, *(name for name in asked.found if name != later)] if margin > threshold else asked.found


def count(asked: Sequence[Asked], orders: Sequence[Sequence[str]]) -> tuple[int, int, int]:
    """Return how many questions get gold first, get it among the first three, and get the newer statement first."""
    first = within = newer = 0
    for each, order in zip(asked, orders, strict=True):
        places = [at for at, name in enumerate(order) if name in each.gold]
        first += places[:1] == [0]
        within += bool(places) and places[0] < 3
        before = order[: places[0]] if places else ()
        newer += bool(each.older) and bool(places) and each.older.isdisjoint(before)
    return first, within, newer


def main() -> None:
    """Fit on the lives, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lives", type=Path, default=LIVES, help="folder of folders of lives")
    parser.add_argument("--chance", type=float, default=0.2, help="least probability of a renewal, in (0,1)")
    parser.add_argument("-o", "--output", type=Path, help="file of the weights")
    given = parser.parse_args()
    asked = [each for folder in sorted(given.lives.iterdir()) if folder.is_dir() for each in asked_questions(folder)]
    said = [each for each in asked if each.gold]
    print(f"{len(said)} questions, {sum(bool(each.older) for each in said)} about what changed")
    print("chance  gold first  within three  newer first")
    print("none    {:10} {:13} {:12}".format(*count(said, [each.found for each in said])))
    held = {group: fit([each for each in asked if each.group != group]) for group in {each.group for each in asked}}
    for chance in CHANCES:
        threshold = float(np.log(chance / (1 - chance)))
        orders = [renewed(each, held[each.group], threshold) for each in said]
        print("{:<7} {:10} {:13} {:12}".format(chance, *count(said, orders)))
    model = fit(asked) | {"threshold": round(float(np.log(given.chance / (1 - given.chance))), DIGITS)}
    text = json.dumps(model, indent=1) + "\n"
    print(text)
    if given.output:
        given.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
