"""What two statements have in common and in what they differ (LIVE-4): in numbers with their weights, and in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, lru_cache
from importlib.resources import files
from itertools import takewhile

from recall_loop.policy.facts.change_words import function_words, place_words
from recall_loop.policy.facts.rarity import Rarity
from recall_loop.policy.facts.wording import Statement
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.time.time_expressions import says_when
from recall_loop.text.words.languages import CHINESE

MOST_WORDS = 40
"""Words of the statements that are compared; longer ones correct nothing."""
PLAIN_WORDS = 12
"""Words of two statements that need have no more than a topic in common."""
_LEAST_ALIKE = 0.5
_PLAIN_MARKS = {"change", "now"}
# A subject stands first, or behind an article or the like.
_LATEST_SUBJECT = 2
# Letters by which two forms are told to be of one word.
_LEAST_COMMON = 4
# So many things that are another make two statements ones about different things.
_SEVERAL = 2
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


def same_label(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements don't tell of two of a kind: "Room 12 costs 80", "Room 15 costs 95"."""
    (first, label), (second, other) = beginning(older), beginning(newer)
    return not (label and other and label != other and is_one_word(first, second))


def has_frame(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements have more in common than whom or what they begin with: a word that stays the same.

    "My sister has two cats" and "My sister texted" have nothing; "Lena is a nurse" and "Lena is a vet" have "is a".
    """
    start = next((at for at, (_, term) in enumerate(newer.ordered) if term in newer.terms), 0)
    behind = {term for _, term in newer.ordered[start + 1 :]}
    return newer.language == CHINESE or bool(behind.intersection(older.stems)) or bool(newer.numbers or newer.dates)


def has_other_kind(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements share no more than what they begin with, and tell things of another kind of it.

    "The gym is on Mill Street" has no number, which "the gym has gone up to 40" has; "the kettle is from Bosch" tells
    no place, which "the kettle is in the cupboard now" does. What ended or was replaced may be whatever it was.
    """
    content = zip(_content(older), _content(newer), strict=False)
    begun = {old for old, _ in takewhile(lambda pair: pair[0] == pair[1], content)}
    if not newer.marks <= _PLAIN_MARKS or older.speaks or not begun or not older.terms & newer.terms <= begun:
        return False
    valued, placed = (tuple(map(tells, (older, newer))) for tells in (_has_value, _tells_place))
    valued = (valued[0] or says_when(older.text), valued[1])
    if valued == (False, True) and not all(placed):
        return not newer.names - older.names
    if valued == (True, False):
        return newer.marks == {"now"} and not says_when(newer.text)
    return valued == (False, False) and placed == (False, True) and _is_thing(newer)


def _content(statement: Statement) -> list[str]:
    """Return the stems of its content words in order, from one that stands first or behind an article or the like."""
    found = [(at, term) for at, (_, term) in enumerate(statement.ordered) if term in statement.terms]
    return [term for _, term in found] if found and found[0][0] < _LATEST_SUBJECT else []


def _has_value(statement: Statement) -> bool:
    return bool(statement.numbers or statement.dates)


def _tells_place(statement: Statement) -> bool:
    return not place_words(statement.language).isdisjoint(word for word, _ in statement.ordered)


def _is_thing(statement: Statement) -> bool:
    """Tell whether a statement begins with a word such as "the", behind which stands no person."""
    (first, _), (second, _) = statement.ordered[:2]
    known = person_words().get(statement.language)
    begins = first in function_words(statement.language)
    return begins and not (known and person_stem(second, statement.language, known))


def same_matter(older: Statement, newer: Statement, asked: frozenset[str]) -> bool:
    """Tell whether two statements that are worded alike, without a mark of change, may be about the same.

    They aren't where each begins with another content word: "Anna is vegetarian", "Ben is vegetarian". Nor are they
    where more than one thing is another, and what is asked for is among it: "5 mg of ramipril in the morning", "20 mg
    of atorvastatin at night".

    Args:
        older: what was stated.
        newer: what was stated later.
        asked: the content words, names and numbers of the question.
    """
    if not is_one_word(beginning(older)[0], beginning(newer)[0]):
        return False
    replaced = list(_replaced(older, newer))
    return len(replaced) < _SEVERAL or not any(_names_another(old, new, asked) for old, new in replaced)


def beginning(statement: Statement) -> tuple[str, str]:
    """Return the stem of the first content word, and the name, number or sign right behind it; empty if there is none.

    "Room 12", "the ferry Kari", "note A3".
    """
    ordered = statement.ordered
    at = next((at for at, (_, term) in enumerate(ordered) if term in statement.terms), len(ordered))
    behind = ordered[at + 1][0] if at + 1 < len(ordered) else ""
    labels = behind in statement.capitalised or any(sign.isdigit() for sign in behind)
    return ordered[at][1] if at < len(ordered) else "", behind if labels else ""


def is_one_word(first: str, second: str) -> bool:
    """Tell whether two stems are of one word: equal, or with the same first letters."""
    least = min(len(first), len(second))
    return first == second or (least >= _LEAST_COMMON and first[:_LEAST_COMMON] == second[:_LEAST_COMMON])


def _replaced(older: Statement, newer: Statement) -> Iterator[tuple[set[str], set[str]]]:
    """Yield the words of the older statement that others stand for in the newer one, and these, as words and stems."""
    first, second = older.ordered, newer.ordered
    compared = SequenceMatcher(None, [term for _, term in first], [term for _, term in second], autojunk=False)
    for kind, start, end, other_start, other_end in compared.get_opcodes():
        if kind == "replace":
            old, new = first[start:end], second[other_start:other_end]
            yield {form for pair in old for form in pair}, {form for pair in new for form in pair}


def _names_another(old: set[str], new: set[str], asked: frozenset[str]) -> bool:
    """Tell whether something asked for is among what was replaced, and not in another form among what replaces it."""
    return any(not any(is_one_word(each, other) for other in new) for each in old & asked)


def worded_alike(older: tuple[str, ...], newer: tuple[str, ...]) -> bool:
    """Tell whether two statements are worded alike: half of the words of the shorter one, in the same order."""
    least = _LEAST_ALIKE * min(len(older), len(newer))
    in_both = set(older).intersection(newer)
    if min(sum(map(in_both.__contains__, older)), sum(map(in_both.__contains__, newer))) < least:
        return False
    return common_words(older, newer) >= least


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
