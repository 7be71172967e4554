"""Similarities and differences of two statements (LIVE-4): as weighted features, and as tests of their wording."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import takewhile

from recall_loop.policy.facts.change_words import function_words, place_words
from recall_loop.policy.facts.rarity import Rarity
from recall_loop.policy.facts.wording import Statement
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.time.stated_times import says_when
from recall_loop.text.words.languages import WITHOUT_BLANKS

MAX_WORDS = 40
"""Most words of the statements that are compared; longer ones correct nothing."""
PLAIN_WORDS = 12
"""Most words of two statements for which a common topic is enough."""
_MIN_ALIKE = 0.5
_PLAIN_MARKS = {"change", "now"}
# A subject comes first, or after an article or the like.
_LATEST_SUBJECT = 2
# Letters that two forms of one word have in common.
_MIN_COMMON = 4
# Two statements with so many differences are about different things.
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
    """Return how far two statements have the same content, and how far it is that of the question."""

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
    return min(max(len(statement.tokens) - PLAIN_WORDS, 0), MAX_WORDS) / MAX_WORDS


def _change(older: Statement, newer: Statement) -> dict[str, float]:
    """Return the marks of change, the values that differ, and how similarly two statements are worded."""
    a, b = older.tokens[:MAX_WORDS], newer.tokens[:MAX_WORDS]
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
    """Return how many words two statements share at their start and end."""
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
    """Tell whether two statements aren't about two things of a kind: "Room 12 costs 80", "Room 15 costs 95"."""
    (first, label), (second, other) = beginning(older), beginning(newer)
    return not (label and other and label != other and is_same_word(first, second))


def has_frame(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements have more in common than the subject with which they begin.

    "My sister has two cats" and "My sister texted" don't; "Lena is a nurse" and "Lena is a vet" share "is a".
    """
    start = next((at for at, (_, term) in enumerate(newer.ordered) if term in newer.terms), 0)
    after = {term for _, term in newer.ordered[start + 1 :]}
    return (
        newer.language in WITHOUT_BLANKS or bool(after.intersection(older.stems)) or bool(newer.numbers or newer.dates)
    )


def has_other_kind(older: Statement, newer: Statement) -> bool:
    """Tell whether two statements share only their beginning, and state different kinds of things about it.

    "The gym is on Mill Street" has no number, "the gym has gone up to 40" has one; "the kettle is from Bosch" names no
    place, "the kettle is in the cupboard now" does. A statement that something ended or was replaced fits any kind.
    """
    content = zip(_content(older), _content(newer), strict=False)
    start = {old for old, _ in takewhile(lambda pair: pair[0] == pair[1], content)}
    if not newer.marks <= _PLAIN_MARKS or older.speaks or not start or not older.terms & newer.terms <= start:
        return False
    valued, placed = (tuple(map(has_kind, (older, newer))) for has_kind in (_has_value, _names_place))
    valued = (valued[0] or says_when(older.text), valued[1])
    if valued == (False, True) and not all(placed):
        return not newer.names - older.names
    if valued == (True, False):
        return newer.marks == {"now"} and not says_when(newer.text)
    return valued == (False, False) and placed == (False, True) and _is_thing(newer)


def _content(statement: Statement) -> list[str]:
    """Return the stems of its content words in order; none unless the first opens it or follows an article."""
    found = [(at, term) for at, (_, term) in enumerate(statement.ordered) if term in statement.terms]
    return [term for _, term in found] if found and found[0][0] < _LATEST_SUBJECT else []


def _has_value(statement: Statement) -> bool:
    return bool(statement.numbers or statement.dates)


def _names_place(statement: Statement) -> bool:
    return not place_words(statement.language).isdisjoint(word for word, _ in statement.ordered)


def _is_thing(statement: Statement) -> bool:
    """Tell whether a statement begins with a word such as "the", not followed by a person."""
    (first, _), (second, _) = statement.ordered[:2]
    known = person_words().get(statement.language)
    begins = first in function_words(statement.language)
    return begins and not (known and person_stem(second, statement.language, known))


def same_matter(older: Statement, newer: Statement, asked: frozenset[str]) -> bool:
    """Tell whether two similarly worded statements, without a mark of change, may be about the same thing.

    They aren't if each begins with a different content word: "Anna is vegetarian", "Ben is vegetarian". Nor are they
    if they differ in several places, one of which the question asks about: "5 mg of ramipril in the morning", "20 mg of
    atorvastatin at night".

    Args:
        older: the older statement.
        newer: the newer statement.
        asked: the content words, names and numbers of the question.
    """
    if not is_same_word(beginning(older)[0], beginning(newer)[0]):
        return False
    replaced = list(_replaced(older, newer))
    return len(replaced) < _SEVERAL or not any(_replaces_asked(old, new, asked) for old, new in replaced)


def beginning(statement: Statement) -> tuple[str, str]:
    """Return the stem of the first content word, and the name, number or code right after it; "" for none.

    "Room 12", "the ferry Kari", "note A3".
    """
    ordered = statement.ordered
    at = next((at for at, (_, term) in enumerate(ordered) if term in statement.terms), len(ordered))
    after = ordered[at + 1][0] if at + 1 < len(ordered) else ""
    is_label = after in statement.capitalised or any(character.isdigit() for character in after)
    return ordered[at][1] if at < len(ordered) else "", after if is_label else ""


def is_same_word(first: str, second: str) -> bool:
    """Tell whether two stems belong to one word: they are equal, or begin with the same letters."""
    shorter = min(len(first), len(second))
    return first == second or (shorter >= _MIN_COMMON and first[:_MIN_COMMON] == second[:_MIN_COMMON])


def _replaced(older: Statement, newer: Statement) -> Iterator[tuple[set[str], set[str]]]:
    """Yield the words of the older statement that the newer one replaces, and their replacements; words and stems."""
    first, second = older.ordered, newer.ordered
    compared = SequenceMatcher(None, [term for _, term in first], [term for _, term in second], autojunk=False)
    for kind, start, end, other_start, other_end in compared.get_opcodes():
        if kind == "replace":
            old, new = first[start:end], second[other_start:other_end]
            yield {form for pair in old for form in pair}, {form for pair in new for form in pair}


def _replaces_asked(old: set[str], new: set[str], asked: frozenset[str]) -> bool:
    """Tell whether a word of the question was replaced, other than by another form of itself."""
    return any(not any(is_same_word(each, other) for other in new) for each in old & asked)


def worded_alike(older: tuple[str, ...], newer: tuple[str, ...]) -> bool:
    """Tell whether two statements are worded alike: they share half of the shorter one's words, in the same order."""
    least = _MIN_ALIKE * min(len(older), len(newer))
    in_both = set(older).intersection(newer)
    if min(sum(map(in_both.__contains__, older)), sum(map(in_both.__contains__, newer))) < least:
        return False
    return common_words(older, newer) >= least
