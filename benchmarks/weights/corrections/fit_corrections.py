"""Fit what decides whether a statement corrects another (`policy/facts/correction_weights.json`).

    python benchmarks/weights/corrections/fit_corrections.py [--data DIR] [-o FILE]

Corrections are the scripted ones of `correction_pairs.tsv`, alone and among other sentences. What is none: other
statements of the same scripts, and pairs of turns by one speaker of the real conversations in the training part of the
data, found by the words of a real question. Printed are the shares that are taken for corrections by the threshold,
half of the scripts at a time held out by kind. The threshold is the lowest one at which retrieval, which keeps only the
surest of what one turn corrects, marks at most `--most` of the first ten turns of the real questions, whose speakers do
correct themselves now and then. Nothing is random: the same data give the same weights.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recall_loop.policy.evidence.changes.correcting import CLOSE
from recall_loop.policy.facts.corrections import (
    both_state,
    may_correct,
    question_terms,
    relevant_statements,
    without_values,
)
from recall_loop.policy.facts.rarity import Rarity, rarity_of
from recall_loop.policy.facts.statement_pairs import comparable_pairs
from recall_loop.policy.facts.statement_similarity import pair_features
from recall_loop.text.words.tokens import stems

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "train"
PAIRS = Path(__file__).with_name("correction_pairs.tsv")
SETS = ("realmem", "lifebench-en", "lifebench-zh", "qmsum")
MOST_FILES, MOST_TURNS, MOST_QUESTIONS = 6, 2500, 20
FOUND, FIRST = 50, 10
SHAPES = 3
STEPS, NEWTON_STEPS, RIDGE = 6, 25, 1.0
WEIGHTS = {True: 2.0, False: 2.0, None: 0.15}
REAL_WEIGHT = 0.5


@dataclass(frozen=True)
class Pair:
    """Two texts with the features of all pairs of their statements, a row each."""

    group: str
    correction: bool
    real: bool
    rows: Any
    question: str = ""
    older: str = ""
    newer: str = ""
    weight: float = 1.0


class Names:
    """The names of the features, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def rows(self, older: str, newer: str, question: frozenset[str], rarity: Rarity) -> Any:
        found = [
            pair_features(first, second, without_values(question), rarity)
            for first, second in comparable_pairs(relevant_statements(older, question), newer)
            if both_state(first, second)
        ]
        if found and not self.names:
            self.names = list(found[0])
        return np.array([[row[name] for name in self.names] for row in found])


def scripted_pairs(names: Names) -> Iterator[Pair]:
    """Yield pairs of the scripts: the correction itself, and statements that aren't any."""
    with PAIRS.open(encoding="utf-8", newline="") as lines:
        scripts = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    fillers: dict[str, list[str]] = defaultdict(list)
    for script in scripts:
        fillers[script["language"]] += script["also"].split(" | ")
    for script in scripts:
        others = [text for text in fillers[script["language"]] if text not in script["also"]]
        question, group = question_terms(script["question"]), script["language"] + script["kind"]
        for older, newer, correction in _told(script):
            draw = random.Random(f"{group}{older}{newer}")
            for shape in range(SHAPES):
                texts = [text if shape == 0 else _among(text, others, draw) for text in (older, newer)]
                seen = Counter(term for text in texts for term in question_terms(text))
                rows = names.rows(texts[0], texts[1], question, rarity_of(seen, len(texts)))
                yield Pair(group, bool(correction), False, rows, weight=WEIGHTS[correction])


def _told(script: Mapping[str, str]) -> Iterator[tuple[str, str, bool | None]]:
    """Yield older and newer text, and whether the one corrects the other; None = no, but a surer one is likely."""
    also = script["also"].split(" | ")
    for newer in script["newer"].split(" | "):
        yield script["older"], newer, True
        yield from ((newer, other, False) for other in also)
        yield from ((other, newer, None) for other in also)
    yield from ((script["older"], other, False) for other in also)
    yield also[0], also[1], False


def _among(text: str, others: Sequence[str], draw: random.Random) -> str:
    before = [draw.choice(others)] * (draw.random() < 0.5)
    after = [draw.choice(others)] * (draw.random() < 0.4)
    return " ".join([*before, text, *after])


def real_pairs(names: Names, folder: Path) -> Iterator[Pair]:
    """Yield pairs of turns that a question of a real conversation finds: first ten, and what was said later."""
    asked = [json.loads(line) for line in (folder / "questions.jsonl").open(encoding="utf-8")]
    for file in sorted((folder / "turns").iterdir())[:MOST_FILES]:
        turns = [json.loads(line) for line in file.open(encoding="utf-8")][:MOST_TURNS]
        words = [frozenset(stems(turn["text"][:3000])) for turn in turns]
        frequencies = Counter(word for each in words for word in each)
        mine = [question for question in asked if question["collection"] == turns[0]["collection"]]
        random.Random(1).shuffle(mine)
        rarity = rarity_of(frequencies, len(turns))
        for question in mine[:MOST_QUESTIONS]:
            found = _find(question["question"], turns, words, frequencies)
            terms = question_terms(question["question"][:1000])
            for older in found[:FIRST]:
                for newer in filter(lambda other, older=older: may_correct(older, other), found):
                    rows = names.rows(older["text"], newer["text"], terms, rarity)
                    yield Pair(
                        f"{folder.name}{question['id']}",
                        False,
                        True,
                        rows,
                        question["id"],
                        older["id"],
                        newer["id"],
                        REAL_WEIGHT,
                    )


def _find(
    question: str, turns: Sequence[dict[str, Any]], words: Sequence[frozenset[str]], frequencies: Counter[str]
) -> list[dict[str, Any]]:
    wanted = [word for word in set(stems(question[:500])) if frequencies[word] <= len(turns) / 3]
    weights = {word: math.log(len(turns) / (frequencies[word] + 1) + 1) for word in sorted(wanted)}

    def score(at: int) -> float:
        shared = sum(weight for word, weight in weights.items() if word in words[at])
        return -shared / (1 + 0.3 * math.log(10 + len(words[at])))

    best = sorted((at for at in range(len(turns)) if not words[at].isdisjoint(weights)), key=score)[:FOUND]
    return [_record(turns[at], at) for at in best]


def _record(turn: Mapping[str, Any], at: int) -> dict[str, Any]:
    day = (turn.get("timestamp") or "2024-01-01")[:10]
    return {
        "id": turn["id"],
        "kind": "message",
        "text": turn["text"],
        "role": turn.get("role"),
        "author": turn.get("speaker"),
        "created_at": f"{day}T00:00:00+00:00",
        "position": at,
    }


def fit(pairs: Sequence[Pair]) -> tuple[Any, float]:
    """Return weights and intercept; of each pair the statements count that look most like a correction."""
    every = np.concatenate([pair.rows for pair in pairs])
    mean, scale = every.mean(0), every.std(0) + 1e-3
    scaled = [(pair.rows - mean) / scale for pair in pairs]
    wanted = np.array([float(pair.correction) for pair in pairs])
    counts = np.array([pair.weight for pair in pairs])
    weights = np.zeros(len(mean) + 1)
    picked = [int(np.argmax(pair.rows.sum(1))) for pair in pairs]
    for _ in range(STEPS):
        rows = np.hstack(
            [np.stack([part[at] for part, at in zip(scaled, picked, strict=True)]), np.ones((len(pairs), 1))]
        )
        weights = _newton(rows, wanted, counts, weights)
        picked = [int(np.argmax(part @ weights[:-1])) for part in scaled]
    plain = weights[:-1] / scale
    return plain, float(weights[-1] - plain @ mean)


def _newton(rows: Any, wanted: Any, counts: Any, weights: Any) -> Any:
    ridge = RIDGE * np.append(np.ones(rows.shape[1] - 1), 1e-6)
    for _ in range(NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        slope = rows.T @ (counts * (chance - wanted)) + ridge * weights
        curve = (rows * (counts * chance * (1 - chance) + 1e-9)[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        weights = weights - step
        if abs(step).max() < 1e-8:
            break
    return weights


def _margin(model: tuple[Any, float], pair: Pair) -> float:
    return float((pair.rows @ model[0]).max() + model[1]) if len(pair.rows) else -math.inf


def marked(model: tuple[Any, float], pairs: Sequence[Pair], threshold: float) -> float:
    """Return the share of the first ten turns of real questions that retrieval would mark as corrected."""
    items = 0
    questions: dict[str, dict[str, tuple[str, float]]] = defaultdict(dict)
    for pair in pairs:
        best, margin = questions[pair.question], _margin(model, pair) - threshold
        if margin > max(0.0, best.get(pair.older, ("", 0.0))[1]):
            best[pair.older] = (pair.newer, margin)
    for best in questions.values():
        surest: dict[str, float] = defaultdict(float)
        for by, margin in best.values():
            surest[by] = max(surest[by], margin)
        items += sum(margin >= CLOSE * surest[by] for by, margin in best.values())
    return items / (FIRST * max(len(questions), 1))


def half(group: str) -> int:
    """Return the half to which a kind of script belongs."""
    return hashlib.sha256(group.encode()).digest()[0] % 2


def main() -> int:
    """Fit, report, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="the training part of the data")
    parser.add_argument("--most", type=float, default=0.02, help="share of real turns that may be marked")
    parser.add_argument("-o", "--output", type=Path, help="where the weights go; absent = nowhere")
    chosen = parser.parse_args()
    names = Names()
    scripted = list(scripted_pairs(names))
    real = [pair for name in SETS for pair in real_pairs(names, chosen.data / name)]
    usable = [pair for pair in (*scripted, *real) if len(pair.rows)]
    model = fit(usable)
    threshold = min(at / 4 for at in range(-24, 25) if marked(model, real, at / 4) <= chosen.most)
    print(f"{len(scripted)} scripted pairs, {len(real)} real ones; threshold {threshold}")
    for part in (0, 1):
        held = [pair for pair in scripted if half(pair.group) == part]
        seen = fit([pair for pair in usable if pair.real or half(pair.group) != part])
        for correction in (True, False):
            margins = [_margin(seen, pair) for pair in held if pair.correction is correction]
            share = sum(margin > threshold for margin in margins) / len(margins)
            print(f"half {part} held out, {'corrections found' if correction else 'others marked'}: {share:.3f}")
    for name in SETS:
        mine = [pair for pair in real if pair.group.startswith(name)]
        print(f"{name}: {marked(model, mine, threshold):.4f} of the first ten turns marked")
    if chosen.output:
        weights = {name: round(float(weight), 6) for name, weight in zip(names.names, model[0], strict=True)}
        fields = {"weights": weights, "intercept": round(model[1], 6), "threshold": threshold}
        chosen.output.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
