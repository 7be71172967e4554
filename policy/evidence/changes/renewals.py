"""Renewals: how something is now, said later than the best message and without a sign that it changed (LIVE-4)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recall_loop.policy.evidence.changes.matter import AskedMoment, Matter
from recall_loop.policy.evidence.changes.placing import raised
from recall_loop.policy.evidence.changes.plain_things import is_of_plain_thing, statements_of, stems_of
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.facts.corrections import ASKED_VALUE, has_unasked_subject, speaker_key
from recall_loop.policy.facts.persons.same_person import same_owner
from recall_loop.policy.facts.statement_pairs import LONGEST_NEWER
from recall_loop.policy.facts.statement_similarity import common_words, same_matter
from recall_loop.policy.facts.wording import Statement
from recall_loop.policy.logistic import log_odds, shipped_model
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.types import ContentType, Role
from recall_loop.text.words.folding import fold
from recall_loop.text.words.tokens import stems, text_language, words

RENEWAL_DEPTH = 10
"""Among how many of the best entries one is looked for that renews the first one."""
RENEWAL_WEIGHTS = "renewal_weights.json"
_MAX_SHARED = 4.0
# Share of the longer statement's words, in the same order, from which two read alike.
_ALIKE = 0.6
# Whose something is: "my sister's dentist", "el dentista de Ana".
_OWNED = re.compile(
    r"(?P<owner>\w+)['’]s (?P<thing>\w+)|(?P<thing_of>\w+) (?:von|van|de|da|do|di|del|du) (?P<owner_of>[A-ZÀ-Þ]\w+)"
)


def put_renewal_first(
    ordered: list[RankedEntry], question: AnalysedQuestion, moment: AskedMoment, matter: Matter
) -> list[RankedEntry]:
    """Put what renews the first entry before it, where the question asks how things are now and has one answer.

    Args:
        ordered: what `order_corrections` returned.
        question: the question.
        moment: the moment that it asks about.
        matter: what it is about.
    """
    latest = find_renewal(ordered, matter) if asks_about_now(question, moment) else None
    if latest is None:
        return ordered
    return [raised(latest, ordered[0]), *(item for item in ordered if item.id != latest.id)]


def asks_about_now(question: AnalysedQuestion, moment: AskedMoment) -> bool:
    """Tell whether a question has one answer, and asks how things are now."""
    return not (question.asks_several or moment.past or moment.until)


def find_renewal(ranked: Sequence[RankedEntry], matter: Matter) -> RankedEntry | None:
    """Return what a user said on a later day that renews the first message; None if nothing does.

    People seldom say that something has changed: they say how it is now, often with few words in common. A logistic
    regression decides (`benchmarks/weights/corrections/fit_renewals.py`). Of other kinds than messages a document isn't
    renewed by what somebody says, and facts have ends of their own.
    """
    model = shipped_model("recall_loop.policy.evidence.changes", RENEWAL_WEIGHTS)
    rated = [
        (model.margin(with_reading(features, matter.read(item))), -at, item)
        for at, item, features in renewal_features(ranked, matter)
        if model.margin(with_reading(features, 1.0)) > 0.0  # or nothing that is read would make it one
    ]
    margin, _, best = max(rated, key=lambda each: each[:2], default=(0.0, 0, None))
    return best if margin > 0.0 else None


def with_reading(features: dict[str, float], probability: float) -> dict[str, float]:
    """Return the features of a pair with the probability that the later entry answers the question, as it is read."""
    return features | {"read_later": log_odds(probability)}


def renewal_features(
    ranked: Sequence[RankedEntry], matter: Matter
) -> Iterator[tuple[int, RankedEntry, dict[str, float]]]:
    """Yield what may renew the first message: its rank below that one, the entry, and all features but what is read."""
    first = ranked[0] if ranked else None
    if first is None or first.kind != ContentType.MESSAGE or not _day(first):
        return
    may = [
        (at, item)
        for at, item in enumerate(ranked[1:RENEWAL_DEPTH], 1)
        if _may_follow(item, first) and _day(item) > _day(first) and matter.is_evidence(item.entry)
    ]
    older = _Contents(first)
    for at, item in may:
        newer = older.followed_by(item, matter)
        common = (_shared(older, newer, matter) | (matter.terms & (newer.words | newer.topics))) - matter.names
        earlier = (each for each in ranked[1:RENEWAL_DEPTH] if _day(each) < _day(item))
        plain = is_of_plain_thing(stems_of(older.statements), item, earlier, matter.terms)
        if common and not (plain or _is_about_another(older, newer, matter)):
            yield at, item, {"rank": float(at), **_similarities(first, item), **_contents(older, newer, matter)}


def renewal_terms(ranked: Sequence[RankedEntry]) -> frozenset[str]:
    """Return the words of the best messages that their renewals may share; their rarity is needed."""
    messages = (item for item in ranked[:RENEWAL_DEPTH] if item.kind == ContentType.MESSAGE)
    return frozenset[str]().union(*(_Contents(item).words for item in messages))


def _similarities(first: RankedEntry, later: RankedEntry) -> dict[str, float]:
    return {
        "similarity": first.entry["similarity"],
        "similarity_later": later.similarity,  # its own, not that of another entry which it corrects
        "score_gap": later.score - first.score,
        "by_user": float(first.entry["record"].get("role") == Role.USER),
    }


def _contents(older: _Contents, newer: _Contents, matter: Matter) -> dict[str, float]:
    before, after = (matter.asks_kind and matter.holds_kind(each.entry) for each in (older, newer))
    return {
        "asks_kind": float(matter.asks_kind),
        "both_hold_kind": float(before and after),
        "lacks_kind": float(before and not after),
        "shared": min(sum(map(matter.rarity, sorted(_shared(older, newer, matter)))), _MAX_SHARED),
        "asked_more": float(_count_asked(newer, matter) - _count_asked(older, matter)),
        "change": float(any(each.marks for each in newer.statements)),
        "new_number": float(bool(older.numbers and newer.numbers - older.numbers)),
    }


class _Contents:
    """The words, topics and numbers of statements of an entry, and the entry reduced to these."""

    def __init__(self, item: RankedEntry, statements: Sequence[Statement] | None = None) -> None:
        self.entry = item.entry
        self.statements = statements_of(item) if statements is None else statements
        if statements is not None:
            text = " ".join(each.text for each in statements)
            self.entry = {**item.entry, "record": {**item.entry["record"], "text": text}, "window": text}
        self.words = frozenset[str]().union(*(each.terms - each.topics for each in self.statements))
        self.topics = frozenset[str]().union(*(each.topics for each in self.statements))
        self.numbers = frozenset[str]().union(*(each.numbers for each in self.statements))

    def followed_by(self, item: RankedEntry, matter: Matter) -> _Contents:
        """Return the contents of what a later entry tells on the matter of this one: a long message tells of much else.

        These are the statements that share a word with this one or the question, and those right behind them.
        """
        known, told = self.words | self.topics | matter.terms, statements_of(item)
        near = [not known.isdisjoint(each.terms | each.topics) for each in told]
        return _Contents(item, [each for at, each in enumerate(told) if any(near[max(at - 1, 0) : at + 1])])


def _shared(older: _Contents, newer: _Contents, matter: Matter) -> frozenset[str]:
    """Return what both have in common: words, and the topics of the question."""
    return (older.words & newer.words) | (older.topics & newer.topics & matter.terms)


def _is_about_another(older: _Contents, newer: _Contents, matter: Matter) -> bool:
    """Tell whether the newer text says the same of another thing: "Rufus gets 20 g", "Mina gets 35 g"."""
    asked = frozenset(term.removeprefix(ASKED_VALUE) for term in matter.terms)
    return (
        _is_anothers(older, newer, asked)
        or _names_another(older, newer, matter)
        or any(
            not same_owner(first, second)
            or has_unasked_subject(first, second, matter.terms)
            or (_read_alike(first, second) and not same_matter(first, second, asked))
            for first in older.statements
            for second in newer.statements
            if not first.terms.isdisjoint(second.terms)
        )
    )


def _names_another(older: _Contents, newer: _Contents, matter: Matter) -> bool:
    """Tell whether only the older text has the name that is asked for, and the newer one another in its place.

    So "Father Odo is now called Anselm" doesn't renew "Nim is Brannoc's daughter" where Nim's father is asked for; "she
    moved to Paris" may renew "Ann lives in Rome".
    """
    before, after = ([token for each in one.statements for token in each.tokens] for one in (older, newer))
    asked = {term.removeprefix(ASKED_VALUE) for term in matter.terms if term.startswith(ASKED_VALUE)}
    if asked.isdisjoint(before) or not asked.isdisjoint(after):
        return False
    others = frozenset[str]().union(*(each.names for each in newer.statements)).difference(before)
    pronouns = shared_words("continuing")
    return next((token in others for token in after if token in others or token in pronouns), False)


def _is_anothers(older: _Contents, newer: _Contents, asked: frozenset[str]) -> bool:
    """Tell whether the newer text tells of an asked thing of somebody of whom neither the older nor the question does.

    So "my sister's dentist is Dr. Klein" doesn't renew "my dentist is Dr. Weber".
    """
    known, text = {*words(older.entry["record"]["text"][:LONGEST_NEWER])}, newer.entry["record"]["text"][:LONGEST_NEWER]
    language = text_language(text)
    for found in _OWNED.finditer(text):
        owner, thing = found["owner"] or found["owner_of"], found["thing"] or found["thing_of"]
        if (
            fold(owner) not in known
            and asked.isdisjoint(stems(owner, language))
            and not asked.isdisjoint(stems(thing, language))
        ):
            return True
    return False


def _read_alike(first: Statement, second: Statement) -> bool:
    return common_words(first.tokens, second.tokens) >= _ALIKE * max(len(first.tokens), len(second.tokens))


def _count_asked(contents: _Contents, matter: Matter) -> int:
    return len((contents.words | contents.topics) & matter.terms)


def _may_follow(item: RankedEntry, first: RankedEntry) -> bool:
    record, before = item.entry["record"], first.entry["record"]
    outdated = record.get("superseded_by_hint") or record.get("superseded_by")
    same_speaker = before.get("role") != Role.USER or speaker_key(record) == speaker_key(before)
    of_user = item.kind == ContentType.MESSAGE and record.get("role") == Role.USER
    return of_user and same_speaker and not outdated


def _day(item: RankedEntry) -> str:
    return (item.entry["record"].get("created_at") or "")[:10]
