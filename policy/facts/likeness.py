"""What two statements have in common and in what they differ, in numbers and their weights: a correction (LIVE-4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from recall_loop.policy.facts.wording import Statement

Rarity = Callable[[str], float]
"""Gives how rare a word is, in [0,1]; 1 = only in a few records, or unknown."""

MOST_WORDS = 40
"""Words of the statements that are compared; longer ones correct nothing."""
PLAIN_WORDS = 12
"""Words of two statements that need have no more than a topic in common."""
_MARKS = ("change", "now", "over", "instead")
_PRODUCTS = (
    ("any", "rarest"),
    ("any", "asked_shared"),
    ("any", "topic"),
    ("any", "opening"),
    ("over", "opening"),
    ("over", "unasked"),
    ("over", "asked_older"),
    ("any", "asked_older"),
    ("any", "asked_newer"),
    ("value", "any"),
    ("value", "edges"),
    ("value", "alike"),
    ("value", "asked_shared"),
    ("edges", "rarest"),
    ("near", "rarest"),
    ("near", "overlap_older"),
    ("near", "asked_shared"),
)


def pair_features(older: Statement, newer: Statement, question: frozenset[str], rarity: Rarity) -> dict[str, float]:
    """Return the features of a later statement as a correction of an older one, each 0 to about 1."""
    features = _matter(older, newer, question, rarity) | _change(older, newer)
    features["near"] = float(bool(newer.near & older.terms or (features["topic"] and newer.marks)))
    features["any*overlap"] = features["any"] * (features["overlap_older"] + features["overlap_newer"])
    return features | {f"{one}*{other}": features[one] * features[other] for one, other in _PRODUCTS}


def _matter(older: Statement, newer: Statement, question: frozenset[str], rarity: Rarity) -> dict[str, float]:
    """Return how far two statements are about the same, and about what is asked."""

    def weigh(terms: frozenset[str]) -> float:
        return sum(map(rarity, terms))

    shared = older.terms & newer.terms
    words = [term for term in shared if term[0] != "="]
    asked, whole, common = max(weigh(question), 1e-6), max(weigh(older.terms), 1e-6), weigh(shared)
    foreign = bool(newer.opening) and not newer.opening & older.terms
    return {
        "overlap_older": common / whole,
        "overlap_newer": common / max(weigh(newer.terms), 1e-6),
        "rarest": max(map(rarity, words), default=0.0),
        "shared": min(len(words), 4) / 4,
        "topic": float(len(words) < len(shared)),
        "unasked": weigh(shared - question) / whole,
        "length": _lengthy(newer),
        "length_older": _lengthy(older),
        "foreign": float(foreign),
        "foreign_own": float(foreign and newer.possessive),
        "foreign_older": float(bool(older.opening) and not older.opening & newer.terms),
        "opening": float(bool(newer.opening & older.terms)),
        "novel": min(len(newer.terms - older.terms - question), 3) / 3,
        "asked_shared": weigh(shared & question) / asked,
        "asked_older": weigh(older.terms & question) / asked,
        "asked_newer": weigh(newer.terms & question) / asked,
    }


def _lengthy(statement: Statement) -> float:
    return min(max(len(statement.tokens) - PLAIN_WORDS, 0), MOST_WORDS) / MOST_WORDS


def _change(older: Statement, newer: Statement) -> dict[str, float]:
    """Return the marks of change, the values that differ, and how alike two statements are worded."""
    a, b = older.tokens[:MOST_WORDS], newer.tokens[:MOST_WORDS]
    least = max(min(len(a), len(b)), 3)
    values = {
        "number": _differ(older.numbers, newer.numbers),
        "date": _differ(older.dates, newer.dates),
        "name": _differ(older.names, newer.names),
    }
    return {
        **{kind: float(kind in newer.marks) for kind in _MARKS},
        "any": float(bool(newer.marks)),
        "several": float(len(newer.marks) > 1),
        **values,
        "value": max(values.values()),
        "alike": common_words(a, b) / least,
        "edges": _common_edges(a, b) / least,
    }


def _differ(older: frozenset[str], newer: frozenset[str]) -> float:
    return float(bool(older - newer) and bool(newer - older))


def _common_edges(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Return how many words two statements share at their beginning and their end."""
    least = min(len(a), len(b))
    start = next((at for at in range(least) if a[at] != b[at]), least)
    return start + next((at for at in range(least - start) if a[-1 - at] != b[-1 - at]), least - start)


@lru_cache(maxsize=1024)
def common_words(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for word in a:
        diagonal = 0
        for at, other in enumerate(b, 1):
            above = row[at]
            row[at] = diagonal + 1 if word == other else max(above, row[at - 1])
            diagonal = above
    return row[-1]


@dataclass(frozen=True)
class CorrectionModel:
    """A logistic regression: weights of features, an intercept, and the log-odds from which a pair is a correction."""

    weights: Mapping[str, float]
    intercept: float
    threshold: float

    def margin(self, features: Mapping[str, float]) -> float:
        """Return the log-odds above the threshold; positive = a correction."""
        return self.intercept - self.threshold + sum(self.weights[name] * value for name, value in features.items())


@cache
def default_model() -> CorrectionModel:
    """Return the model that ships."""
    text = files("recall_loop.policy.facts").joinpath("correction_weights.json").read_text(encoding="utf-8")
    fields = json.loads(text)
    return CorrectionModel(fields["weights"], fields["intercept"], fields["threshold"])
