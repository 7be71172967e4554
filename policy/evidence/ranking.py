"""The final ranking over all iterations (RANK-3 to RANK-5).

score = (relevance + reply + reference + time + teller + novelty + recency + diversity + evidence) / (1 + the eight
weights), in [0,1], where

- reply: its weight × the relevance of the turn before, if that one is in the pool and asks something: an answer
  seldom repeats the words of its question. An assistant's or a tool's turn gets none: who asks an assistant tells
  of himself in the question, and the reply is general knowledge;
- reference: its weight × the relevance of the best other fact, or 1 for the question, that names the record's title;
- time: its weight × how well the record fits a time in which the question places what it asks (`policy.periods`);
- teller: its weight for a turn of whoever has said what is asked for, as the question tells (`policy.teller`);
- novelty: its weight if a later iteration found the fact and it is relevant;
- recency: its weight × 0.5 ^ (age / half-life) where the record has a time;
- diversity: its weight × (1 − 1/n) for n distinct queries that matched;
- evidence: its weight × (1 − 1/n) for n independent sources.

Near-duplicates of a better fact go behind everything else, so that they never crowd out a novel one. Of the others
those with two better ones of the same title lose the crowding weight's share of their score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from recall_loop.policy.evidence.coverage import entry_terms
from recall_loop.policy.question.periods import entry_created_at, time_fit
from recall_loop.policy.question.speaker_hint import expected_speaker
from recall_loop.policy.question.titles import crowded_titles, entry_title, title_references
from recall_loop.state.agent_state import PoolEntry
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, Role
from recall_loop.text.time.time_expressions import TimeExpression
from recall_loop.text.words.keys import jaccard

_DIGITS = 6
_DAY = 86_400.0
_HELPERS = (Role.ASSISTANT, Role.TOOL)
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_QUESTION_TAIL = 60


@dataclass(frozen=True)
class RankedEntry:
    """One fact with its final score in [0,1], what it is made of, and whether a better fact says the same."""

    entry: PoolEntry
    score: float
    components: dict[str, float]
    near_duplicate: bool = False


@dataclass(frozen=True)
class RankingContext:
    """What the rest of the pool and the question say of an entry.

    Attributes:
        times: times in which the question places what it asks.
        teller: role of whoever has said what is asked for, or None.
        turns: relevance of each message that asks something, by its line as windows hold it.
        titles: relevance of the best that refers to a titled entry, by key.
    """

    times: Sequence[TimeExpression] = ()
    speaker: Role | None = None
    turns: Mapping[str, float] = field(default_factory=dict)
    titles: Mapping[str, float] = field(default_factory=dict)


def rank_entries(
    entries: Iterable[PoolEntry],
    settings: Settings,
    reference: datetime,
    question: str = "",
    times: Sequence[TimeExpression] = (),
) -> list[RankedEntry]:
    """Return all entries, best first; ties by record id.

    `question` is what is asked, `times` in which times it places that.
    """
    most, pool = _max_sum(settings), list(entries)
    turns = _asking_turns(pool) if settings.rank_reply_weight else {}
    titles = title_references(pool, question) if settings.rank_reference_weight else {}
    said = expected_speaker(question) if settings.rank_teller_weight else None
    told = RankingContext(times if settings.rank_time_weight else (), said, turns, titles)
    scored = [_score_entry(entry, settings, reference, most, told) for entry in pool]
    scored.sort(key=_best_first)
    return scored


def _best_first(item: RankedEntry) -> tuple[float, str, str]:
    return -item.score, item.entry["record"]["id"], item.entry["key"]


def score_entry(entry: PoolEntry, settings: Settings, reference: datetime) -> RankedEntry:
    """Return the final score of one entry with its components, as if it stood alone in the pool."""
    return _score_entry(entry, settings, reference, _max_sum(settings), RankingContext())


def _score_entry(
    entry: PoolEntry, settings: Settings, reference: datetime, most: float, told: RankingContext
) -> RankedEntry:
    late = entry["first_iteration"] > 1 and entry["similarity"] >= settings.novelty_min_similarity
    queries = len({match["query"] for match in entry["matches"]})
    components = {
        "relevance": entry["relevance"],
        "reply": settings.rank_reply_weight * _reply_relevance(entry, told.turns),
        "reference": settings.rank_reference_weight * told.titles.get(entry["key"], 0.0),
        "time": settings.rank_time_weight * time_fit(entry, told.times),
        "teller": settings.rank_teller_weight if _said_by(entry, told.speaker) else 0.0,
        "novelty": settings.rank_novelty_weight if late else 0.0,
        "recency": settings.rank_recency_weight * _recency(entry, settings, reference),
        "diversity": settings.rank_diversity_weight * _diminishing_gain(queries),
        "evidence": settings.rank_evidence_weight * _diminishing_gain(len(set(entry["evidence_keys"]))),
    }
    total = min(max(sum(components.values()) / most, 0.0), 1.0)
    return RankedEntry(entry, round(total, _DIGITS), components)


def _said_by(entry: PoolEntry, role: Role | None) -> bool:
    return role is not None and entry["record"].get("role") == role


def _asking_turns(entries: Iterable[PoolEntry]) -> dict[str, float]:
    """Return the relevance of each message that asks something, by its line as windows hold it."""
    found: dict[str, float] = {}
    for entry in entries:
        record = entry["record"]
        if record["kind"] == ContentType.MESSAGE and ends_in_question(record["text"]):
            line = _line(entry)
            found[line] = max(entry["relevance"], found.get(line, 0.0))
    return found


def ends_in_question(text: str) -> bool:
    """Tell whether a turn ends in a question, or nearly so."""
    return any(mark in text[-_QUESTION_TAIL:] for mark in _QUESTION_MARKS)


def _line(entry: PoolEntry) -> str:
    author = (entry["record"].get("author") or "").strip()
    return f"{author}: {entry['record']['text']}" if author else str(entry["record"]["text"])


def _reply_relevance(entry: PoolEntry, turns: Mapping[str, float]) -> float:
    """Return the relevance of the turn before, where it asks something; else 0."""
    if not turns or not entry["window"] or entry["record"].get("role") in _HELPERS:
        return 0.0
    before, found, _ = entry["window"].partition("\n" + _line(entry))
    return turns.get(before, 0.0) if found else 0.0


def _max_sum(settings: Settings) -> float:
    """Return the largest sum that the components can reach."""
    return 1.0 + (
        settings.rank_reply_weight
        + settings.rank_reference_weight
        + settings.rank_time_weight
        + settings.rank_teller_weight
        + settings.rank_novelty_weight
        + settings.rank_recency_weight
        + settings.rank_diversity_weight
        + settings.rank_evidence_weight
    )


def _diminishing_gain(count: int) -> float:
    return 1.0 - 1.0 / count if count > 1 else 0.0


def _recency(entry: PoolEntry, settings: Settings, reference: datetime) -> float:
    made = entry_created_at(entry)
    if made is None:
        return 0.0
    age = max((reference - made).total_seconds() / _DAY, 0.0)
    return float(0.5 ** (age / settings.rank_recency_half_life_days))


def demote_duplicates(ranked: Sequence[RankedEntry], threshold: float, crowding: float = 0.0) -> list[RankedEntry]:
    """Move near-duplicates of a better fact to the end, in their order, and lower what its own title crowds.

    Args:
        ranked: facts, best first.
        threshold: Jaccard overlap of two facts' stems from which they are near-duplicates, in [0,1].
        crowding: share of its score that a fact loses where two better ones have its title, in [0,1].
    """
    first: list[RankedEntry] = []
    repeated: list[RankedEntry] = []
    by_size: dict[int, list[frozenset[str]]] = {}
    for item in ranked:
        terms = entry_terms(item.entry)
        if _has_near(terms, by_size, threshold):
            repeated.append(RankedEntry(item.entry, item.score, item.components, near_duplicate=True))
            continue
        first.append(item)
        by_size.setdefault(len(terms), []).append(terms)
    return _lower_crowded(first, crowding) + repeated


def _lower_crowded(ranked: list[RankedEntry], crowding: float) -> list[RankedEntry]:
    labels = [entry_title(item.entry) for item in ranked]
    if not crowding or not any(labels):
        return ranked
    kept = 1.0 - crowding
    lowered = (
        replace(item, score=round(item.score * kept, _DIGITS)) if too_many else item
        for item, too_many in zip(ranked, crowded_titles(labels), strict=True)
    )
    # Where scores are level, also at 0, what was better stays so.
    return sorted(lowered, key=lambda item: -item.score)


def _has_near(terms: frozenset[str], by_size: dict[int, list[frozenset[str]]], threshold: float) -> bool:
    """Tell whether a set as similar as `threshold` is there; sets of too different sizes can't be."""
    if threshold <= 0.0:
        return bool(by_size)
    least, most = len(terms) * threshold, len(terms) / threshold
    near = (other for size, sets in by_size.items() if least <= size <= most for other in sets)
    return any(jaccard(terms, other) >= threshold for other in near)
