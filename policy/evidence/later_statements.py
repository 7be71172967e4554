"""Later statements that may correct or renew one, by the same speaker or somebody else (LIVE-4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.statements import first_person_text
from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.facts.corrections import (
    ASKED_VALUE,
    LONGEST_NEWER,
    Correction,
    has_no_end,
    has_unasked_subject,
    may_be_correction,
    relevant_statements,
    speaker_key,
    surest_correction,
)
from recall_loop.policy.facts.corrections_by_others import correction_by_another, same_conversation
from recall_loop.policy.facts.rarity import Rarity
from recall_loop.policy.facts.statement_similarity import common_words, same_matter
from recall_loop.policy.facts.subjects import same_owner
from recall_loop.policy.facts.supersession import said_at
from recall_loop.policy.facts.wording import Statement, read_statements
from recall_loop.policy.logistic import log_odds, shipped_model
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType, Role
from recall_loop.text.words.folding import fold
from recall_loop.text.words.tokens import stems, text_language, words

LIKELY_DEPTH = 2
"""How many of the best entries are likely enough to be what is asked for if they share no word with the question."""
RENEWAL_DEPTH = 10
"""Among how many of the best entries one is looked for that renews the first one."""
RENEWAL_WEIGHTS = "renewal_weights.json"
_MAX_SHARED = 4.0
# Share of the longer statement's words, in the same order, from which two read alike.
_ALIKE = 0.6
# From so many common words a statement about the plain thing is told from one about a kind of it.
_SEVERAL = 2
# Whose something is: "my sister's dentist", "el dentista de Ana".
_OWNED = re.compile(
    r"(?P<owner>\w+)['’]s (?P<thing>\w+)|(?P<thing_of>\w+) (?:von|van|de|da|do|di|del|du) (?P<owner_of>[A-ZÀ-Þ]\w+)"
)


@dataclass(frozen=True)
class Matter:
    """What a question is about, as far as it decides which of two statements holds now.

    Attributes:
        terms: its content words (`question_terms`).
        asks_kind: whether it asks for a kind of answer: a time, a number, a name, a property.
        is_evidence: tells whether an entry may be evidence: what only asks the same again isn't.
        holds_kind: tells whether an entry has what that kind of question asks for.
        rarity: how rare a word is.
        read: returns the probability in [0,1] that an entry answers the question, as the two are read together.
        names: the stems of its names, if it asks for no time, number or property: what shares nothing else with a
            statement tells something else of whoever has the name.
    """

    terms: frozenset[str]
    asks_kind: bool
    is_evidence: Callable[[PoolEntry], bool]
    holds_kind: Callable[[PoolEntry], bool]
    rarity: Rarity
    read: Callable[[RankedEntry], float]
    names: frozenset[str] = frozenset()


def find_renewal(ranked: Sequence[RankedEntry], matter: Matter) -> RankedEntry | None:
    """Return what a user said on a later day that renews the first message; None if nothing does.

    People seldom say that something has changed: they say how it is now, often with few words in common. A logistic
    regression decides (`benchmarks/weights/corrections/fit_renewals.py`). Of other kinds than messages a document isn't
    renewed by what somebody says, and facts have ends of their own.
    """
    model = shipped_model("recall_loop.policy.evidence", RENEWAL_WEIGHTS)
    rated = [(model.margin(features), -at, item) for at, item, features in renewal_features(ranked, matter)]
    margin, _, best = max(rated, key=lambda each: each[:2], default=(0.0, 0, None))
    return best if margin > 0.0 else None


def renewal_features(
    ranked: Sequence[RankedEntry], matter: Matter
) -> Iterator[tuple[int, RankedEntry, dict[str, float]]]:
    """Yield what may renew the first message: its rank below that one, the entry, and the features of the pair."""
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
        plain = is_of_plain_thing(_stems_of(older.statements), item, earlier, matter.terms)
        if common and not (plain or _is_about_another(older, newer, matter)):
            read = {"read_later": log_odds(matter.read(item))}
            yield at, item, {"rank": float(at), **_similarities(first, item), **_contents(older, newer, matter), **read}


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


def is_of_plain_thing(
    older: frozenset[str], newer: RankedEntry, earlier: Iterable[RankedEntry], asked: frozenset[str]
) -> bool:
    """Tell whether a later text is about the plain thing, and an older one about a kind of it that is asked for.

    It is if another earlier text has all the asked words that both have, and not those that only the older one has:
    "the guest wifi password is A", "our wifi, password B", "I changed the wifi password".
    """
    told = older & asked
    shared = told & _stems_of(_read(newer))
    if len(shared) < _SEVERAL or shared == told:
        return False
    return any(_stems_of(_read(item)) & told == shared and _has_value(_read(item)) for item in earlier)


def _has_value(statements: Iterable[Statement]) -> bool:
    return any(each.numbers or each.names for each in statements)


def _stems_of(statements: Iterable[Statement]) -> frozenset[str]:
    return frozenset[str]().union(*(each.stems for each in statements))


def _read(item: RankedEntry) -> Sequence[Statement]:
    return read_statements(item.entry["record"]["text"][:LONGEST_NEWER])


class _Contents:
    """The words, topics and numbers of statements of an entry, and the entry reduced to these."""

    def __init__(self, item: RankedEntry, statements: Sequence[Statement] | None = None) -> None:
        self.entry = item.entry
        self.statements = _read(item) if statements is None else statements
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
        known, told = self.words | self.topics | matter.terms, _read(item)
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


def renewal_terms(ranked: Sequence[RankedEntry]) -> frozenset[str]:
    """Return the words of the best messages that their renewals may share; their rarity is needed."""
    messages = (item for item in ranked[:RENEWAL_DEPTH] if item.kind == ContentType.MESSAGE)
    return frozenset[str]().union(*(_Contents(item).words for item in messages))


def _may_follow(item: RankedEntry, first: RankedEntry) -> bool:
    record, before = item.entry["record"], first.entry["record"]
    outdated = record.get("superseded_by_hint") or record.get("superseded_by")
    same_speaker = before.get("role") != Role.USER or speaker_key(record) == speaker_key(before)
    of_user = item.kind == ContentType.MESSAGE and record.get("role") == Role.USER
    return of_user and same_speaker and not outdated


def _day(item: RankedEntry) -> str:
    return (item.entry["record"].get("created_at") or "")[:10]


class LaterStatements:
    """What may correct something, by speaker: what the same speaker said later, or else somebody else.

    Somebody else is only heard within the conversation, and where the same speaker corrects nothing. What only says how
    something is now corrects nothing that alone `holds_kind` of answer: "the brace is in now" no next appointment.
    """

    def __init__(
        self,
        items: Iterable[RankedEntry],
        asked: frozenset[str],
        rarity: Rarity,
        holds_kind: Callable[[PoolEntry], bool] | None = None,
    ) -> None:
        self._asked, self._rarity, self._holds_kind = asked, rarity, holds_kind
        self._said: dict[tuple[object, ...], list[tuple[tuple[datetime, int], RankedEntry]]] = {}
        for item in items:
            record = item.entry["record"]
            if may_be_correction(record):
                self._said.setdefault(speaker_key(record), []).append((said_at(record), item))

    def best(self, item: RankedEntry, place: int) -> tuple[str, Correction] | None:
        """Return the surest correction of the entry at a place; of equal ones the latest."""
        record = item.entry["record"]
        if not record.get("created_at") or not has_no_end(record):
            return None
        stated = relevant_statements(first_person_text(record), self._asked)
        if not stated or (place >= LIKELY_DEPTH and not any(each.terms & self._asked for each in stated)):
            return None
        speaker = speaker_key(record)
        own = self._surest(item, stated, self._said.get(speaker, ()), surest_correction)
        if own is not None:
            return own
        others = [
            (said, other)
            for name, told in self._said.items()
            for said, other in (told if name != speaker else ())
            if same_conversation(record, other.entry["record"])
        ]
        return self._surest(item, stated, others, correction_by_another)

    def _is_of_plain_thing(self, older: Sequence[Statement], newer: RankedEntry, moment: tuple[datetime, int]) -> bool:
        earlier = (item for told in self._said.values() for said, item in told if said < moment)
        return is_of_plain_thing(_stems_of(older), newer, earlier, self._asked)

    def _lacks_kind(self, older: PoolEntry, newer: PoolEntry) -> bool:
        return self._holds_kind is not None and self._holds_kind(older) and not self._holds_kind(newer)

    def _surest(
        self,
        item: RankedEntry,
        stated: Sequence[Statement],
        told: Iterable[tuple[tuple[datetime, int], RankedEntry]],
        correct: Callable[[Sequence[Statement], str, frozenset[str], Rarity], Correction | None],
    ) -> tuple[str, Correction] | None:
        moment = said_at(item.entry["record"])
        sure: list[tuple[float, str, str, Correction]] = []
        for said, other in told:
            if moment < said:
                newer = other.entry["record"]
                correction = correct(stated, first_person_text(newer), self._asked, self._rarity)
                if correction is None or self._is_of_plain_thing(stated, other, said):
                    continue
                if not (correction.only_now and self._lacks_kind(item.entry, other.entry)):
                    sure.append((correction.margin, newer["created_at"], other.id, correction))
        best = max(sure, key=lambda each: each[:3], default=None)
        return None if best is None else (best[2], best[3])
