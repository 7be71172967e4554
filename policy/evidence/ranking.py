"""The final ranking over all iterations (RANK-3 to RANK-5).

score = (relevance + reply + reference + time + teller + member + novelty + recency + diversity + evidence - lacking) /
(1 + the weights), in [0,1], where

- reply: its weight × the relevance of the preceding turn, if that turn is in the pool and asks something: an answer
  seldom repeats the words of its question. A turn of an assistant or a tool gets none: people tell of themselves in
  the question to an assistant, and its reply is general knowledge;
- reference: its weight × the relevance of the best other fact, or 1 for the question, that names the record's title;
- time: its weight × how well the record fits a time in which the question places its event (`policy.question.periods`);
- teller: its weight for a turn of the expected speaker (`policy.question.speaker_hint`);
- member: its weight × how well the record fits as a member of the list that the question asks for
  (`policy.evidence.members`); only such questions have it;
- lacking: its weight for one of the best records without the kind of answer that the question asks for (a time, a
  number, a name, a property); only questions that ask for one have it, and the divisor leaves its weight out;
- novelty: its weight if a later iteration found the fact and it is relevant;
- recency: its weight × 0.5 ^ (age / half-life) if the record has a time;
- diversity: its weight × (1 − 1/n) for n distinct queries that matched;
- evidence: its weight × (1 − 1/n) for n independent sources.

Novelty: the facts that an iteration really added (STOP-1). A vector search always returns something unseen. So a fact
is new only if its key is unseen among those that were similar enough, its similarity reaches the minimum, and it either
enters the current best `max_facts` or raises the coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

from recall_loop.policy.evidence.members import ends_in_question, member_fit
from recall_loop.policy.question.periods import entry_created_at, time_fit
from recall_loop.policy.question.titles import expected_speaker, title_references
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, Role
from recall_loop.text.time.time_expressions import TimeExpression

SCORE_DIGITS = 6
LACKING_DEPTH = 20
"""How many of the best entries are looked at for the kind of answer that is asked for."""
_DAY = 86_400.0
_ASSISTING_ROLES = (Role.ASSISTANT, Role.TOOL)


@dataclass(frozen=True)
class RankedEntry:
    """One fact with its final score in [0,1] and the components of the score.

    `near_duplicate` tells whether a better fact says nearly the same, `relevance` how likely it matters, in [0,1]. One
    that takes a better one's place is judged by that one's similarity, which is in its entry; its own is beside it.
    """

    entry: PoolEntry
    score: float
    components: dict[str, float]
    near_duplicate: bool = False
    relevance: float = 0.0
    own_similarity: float | None = None

    @property
    def similarity(self) -> float:
        """The record's own similarity with the request."""
        return self.entry["similarity"] if self.own_similarity is None else self.own_similarity

    @property
    def id(self) -> str:
        """The id of the record."""
        return str(self.entry["record"]["id"])

    @property
    def kind(self) -> str:
        """The content type of the record."""
        return str(self.entry["record"]["kind"])


@dataclass(frozen=True)
class RankingContext:
    """The contribution of the question and the rest of the pool to an entry's score.

    Attributes:
        times: times in which the question places its event.
        speaker: the role that the question expects to have said the answer, or None.
        turns: relevance of each message that asks something, by its line as windows hold it.
        titles: relevance of the best reference to a titled entry, by key.
        people: stems of the names in a question for a list; None where it asks for no list.
    """

    times: Sequence[TimeExpression] = ()
    speaker: Role | None = None
    turns: Mapping[str, float] = field(default_factory=dict)
    titles: Mapping[str, float] = field(default_factory=dict)
    people: frozenset[str] | None = None


def rank_entries(
    entries: Iterable[PoolEntry],
    settings: Settings,
    reference: datetime,
    question: str = "",
    times: Sequence[TimeExpression] = (),
    people: frozenset[str] | None = None,
    answers: Callable[[PoolEntry], bool] | None = None,
) -> list[RankedEntry]:
    """Return all entries, best first; ties are broken by record id.

    Args:
        entries: the pool.
        settings: holds the weights.
        reference: the time from which ages count.
        question: the text of the question.
        times: times in which the question places its event.
        people: stems of the names in a question for a list; None where it asks for no list.
        answers: tells whether a record has the kind of answer that the question asks for; None where it asks for none.
    """
    pool = list(entries)
    context = RankingContext(
        times if settings.rank_time_weight else (),
        expected_speaker(question) if settings.rank_teller_weight or people is not None else None,
        _asking_turns(pool) if settings.rank_reply_weight else {},
        title_references(pool, question) if settings.rank_reference_weight else {},
        people if settings.rank_member_weight else None,
    )
    highest = _max_sum(settings) + (settings.rank_member_weight if context.people is not None else 0.0)
    scored = sorted((_score_entry(entry, settings, reference, highest, context) for entry in pool), key=_rank_key)
    return sorted(_lower_lacking(scored, settings, highest, answers), key=_rank_key)


def _rank_key(item: RankedEntry) -> tuple[float, str, str]:
    return -item.score, item.id, item.entry["key"]


def _score_entry(
    entry: PoolEntry, settings: Settings, reference: datetime, highest: float, context: RankingContext
) -> RankedEntry:
    late = entry["first_iteration"] > 1 and entry["similarity"] >= settings.novelty_min_similarity
    said_by_expected = context.speaker is not None and entry["record"].get("role") == context.speaker
    queries = len({match["query"] for match in entry["matches"]})
    components = {
        "relevance": entry["relevance"],
        "reply": settings.rank_reply_weight * _reply_relevance(entry, context.turns),
        "reference": settings.rank_reference_weight * context.titles.get(entry["key"], 0.0),
        "time": settings.rank_time_weight * time_fit(entry, context.times),
        "teller": settings.rank_teller_weight if said_by_expected else 0.0,
        **_member_component(entry, settings, context),
        "novelty": settings.rank_novelty_weight if late else 0.0,
        "recency": settings.rank_recency_weight * _recency(entry, settings, reference),
        "diversity": settings.rank_diversity_weight * _diminishing_gain(queries),
        "evidence": settings.rank_evidence_weight * _diminishing_gain(len(set(entry["evidence_keys"]))),
    }
    score = min(max(sum(components.values()) / highest, 0.0), 1.0)
    return RankedEntry(entry, round(score, SCORE_DIGITS), components)


def _member_component(entry: PoolEntry, settings: Settings, context: RankingContext) -> dict[str, float]:
    if context.people is None:
        return {}
    return {"member": settings.rank_member_weight * member_fit(entry, context.people, context.speaker)}


def _lower_lacking(
    ranked: Sequence[RankedEntry], settings: Settings, highest: float, answers: Callable[[PoolEntry], bool] | None
) -> list[RankedEntry]:
    """Return the entries with those of the best lowered that lack the kind of answer that is asked for.

    The rest isn't looked at, and stays behind them.
    """
    lost = settings.rank_lacking_weight
    if answers is None or not lost:
        return list(ranked)
    best = [item if answers(item.entry) else _lowered(item, lost, highest) for item in ranked[:LACKING_DEPTH]]
    least = min((item.score for item in best), default=0.0)
    return [*best, *(replace(item, score=min(item.score, least)) for item in ranked[LACKING_DEPTH:])]


def _lowered(item: RankedEntry, lost: float, highest: float) -> RankedEntry:
    score = round(max(item.score - lost / highest, 0.0), SCORE_DIGITS)
    return replace(item, score=score, components={**item.components, "lacking": -lost})


def _asking_turns(entries: Iterable[PoolEntry]) -> dict[str, float]:
    """Return the relevance of each message that asks something, by its line as windows hold it."""
    turns: dict[str, float] = {}
    for entry in entries:
        record = entry["record"]
        if record["kind"] == ContentType.MESSAGE and ends_in_question(record["text"]):
            line = _line(entry)
            turns[line] = max(entry["relevance"], turns.get(line, 0.0))
    return turns


def _line(entry: PoolEntry) -> str:
    author = (entry["record"].get("author") or "").strip()
    return f"{author}: {entry['record']['text']}" if author else str(entry["record"]["text"])


def _reply_relevance(entry: PoolEntry, turns: Mapping[str, float]) -> float:
    """Return the relevance of the preceding turn if it asks something, else 0."""
    if not turns or not entry["window"] or entry["record"].get("role") in _ASSISTING_ROLES:
        return 0.0
    return turns.get(turn_before(entry), 0.0)


def turn_before(entry: PoolEntry) -> str:
    """Return the line of the turn before a message as its window holds it; "" where it holds none."""
    before, separator, _ = entry["window"].partition("\n" + _line(entry))
    return before if separator else ""


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


def new_facts(
    ranked: Sequence[RankedEntry],
    iteration: int,
    *,
    most: int,
    least_similarity: float,
    usual_similarity: float,
    states: Callable[[PoolEntry], bool],
    supports: Callable[[PoolEntry], Set[int]],
    covered_before: frozenset[int],
) -> frozenset[str]:
    """Return the keys of the facts that are new in `iteration`.

    What was only seen below NOVELTY_MIN_SIMILARITY so far, as by a misspelt query, is still unseen.

    Args:
        ranked: the pool, best first.
        iteration: the current iteration, from 1.
        most: the request's max_facts.
        least_similarity: similarity from which facts count, in [0,1]; lower than usual where a refinement asks for it.
        usual_similarity: NOVELTY_MIN_SIMILARITY, in [0,1].
        states: tells whether an entry states something; what doesn't is never new.
        supports: returns the indices of the facets that an entry supports.
        covered_before: indices of the facets that were supported before this iteration.
    """
    return frozenset(
        item.entry["key"]
        for rank, item in enumerate(ranked)
        if _is_unseen(item.entry, iteration, usual_similarity)
        and item.entry["similarity"] >= least_similarity
        and states(item.entry)
        and (rank < most or supports(item.entry) - covered_before)
    )


def _is_unseen(entry: PoolEntry, iteration: int, least: float) -> bool:
    """Tell whether earlier iterations didn't find a fact, or found it too dissimilar to count."""
    if entry["first_iteration"] == iteration:
        return True
    before = (match["similarity"] for match in entry["matches"] if match["iteration"] < iteration)
    return not entry["is_new"] and max(before, default=0.0) < least


def streak_without_gain(streak: int, new: int, least_new: int) -> int:
    """Return the number of consecutive iterations without gain, after one that brought `new` facts."""
    return streak + 1 if new < least_new else 0
