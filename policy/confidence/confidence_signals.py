"""Signals that a fitted mapping may use beside the four components (CONF-4); each is a figure in [-1,1].

They measure how sharply the best facts stand out, how much of the question they hold, whether they come from those
whom the question names, and what kind of question it is. No signal knows a data set, an id or a text. Only the best
twenty facts count, so that signals mean the same whatever number of facts was asked for, from twenty up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from recall_loop.policy.confidence.signal_inputs import BEST_DEPTH, SignalInputs, mean_of
from recall_loop.policy.evidence.coverage import states_answer
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.logistic import log_odds
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import SpeechAct
from recall_loop.text.speech.speech_acts import find_speech_acts
from recall_loop.text.words.tokens import stems

SIGNALS: Mapping[str, str] = {
    "top_over_tail": "mean score of the best ten facts less that of the next ten (without any: of the last)",
    "largest_step": "largest fall of the score from one of the best ten facts to the next",
    "first_support": "share of the question's weight that the first fact supports",
    "first_own": "share of the question's words in the first fact's own text",
    "first_window": "share of the question's words in the first fact's window",
    "own_lead": "the best fact's share of the question's words, less the mean of the ten",
    "window_lead": "the same of windows",
    "named_first": "1 if the first fact comes from, or is about, somebody that the question names",
    "named_lead": "how far the first fact leads the second; below 0 if it isn't from whom the question names",
    "named_own": "best share of rare question words in facts from the named, less that in facts from others",
    "named_window": "the same of windows",
    "named_vote": "the same of all ten facts together, earlier ones counting more",
    "named_told": "named_vote, each fact counting as far as it tells of its own author: I and my for it, you against",
    "told_share": "mean share of rare question words in what the named tell of themselves; if none does, in all ten",
    "named_alike": "best similarity of what the named tell of themselves, less that of what the others do",
    "told_alike": "mean similarity of the best three that the named tell of themselves; of any if none does",
    "aligned_cosine": "cosine of the question with the own words of the best aligned of the first three facts",
    "aligned_tokens": "mean over the question's tokens of the best match in that fact's own words",
    "aligned_least": "the same mean over the quarter of the tokens that match worst",
    "aligned_share": "share of the question's words, or of their synonyms, in that fact's own text",
    "aligned_answer": "1 if that fact has a time, number, name or thing as asked for, -1 if none of the first three",
    "read_first": "log odds that the first fact answers the question, both read together (1 = 6 or more)",
    "read_best": "the same of the one of the first three that answers it best",
    "speaker_named": "1 if the question names the author of one of the best ten messages",
    "names": "how many names the question has (1 = four or more)",
    "asks_date": "1 if it asks for a time",
    "asks_number": "1 if it asks for a number",
    "asks_person": "1 if it asks for a person",
    "says_time": "1 if it says when",
    "asks_list": "1 if it asks for several things",
    "question_length": "how many words it has beside names and stop words (1 = very many)",
    "question_tells": "share of its sentences that tell something, rather than ask",
}
SPEAKER_NAMED = "speaker_named"
SIGNAL_DEPTH = 20
_VOTE_SCALE = 4.5
# How much better a text matches a question that has the word for the thing itself in place of its kind ("karate" for
# "sport"): means over pairs of both, nearly the same for each pair.
_MEMBER_ALIGNMENT = (0.13, 0.13, 0.09)
_BEST_OF = 3
_MOST_ODDS = 6.0
_MOST_NAMES = 4
_MANY_WORDS = 12.0
_DIGITS = 6
_NAMED_SIGNALS = [name for name in SIGNALS if name.startswith("named_")]


def confidence_signals(
    ranked: Sequence[RankedEntry], question: AnalysedQuestion, first_support: float, read: Sequence[float]
) -> dict[str, float]:
    """Return every signal by name, each in [-1,1]; all 0 without facts.

    Args:
        ranked: the facts, best first; those after the twentieth don't count.
        question: the analysed request.
        first_support: share of the facets' weight that the first fact supports, in [0,1].
        read: probabilities in [0,1] that the first facts, up to three, answer the question.
    """
    if not ranked:
        return dict.fromkeys(SIGNALS, 0.0)
    facts = SignalInputs(ranked[:SIGNAL_DEPTH], question)
    values = _score_signals(facts) | _word_signals(facts) | _alignment_signals(facts)
    values |= _attribution_signals(facts) | _question_signals(question) | _breadth_signals(facts)
    values |= _reading_signals(read)
    values |= {"first_support": first_support, SPEAKER_NAMED: float(bool(facts.named_speakers))}
    return {name: round(min(max(values[name], -1.0), 1.0), _DIGITS) for name in SIGNALS}


def _score_signals(facts: SignalInputs) -> dict[str, float]:
    best = facts.scores[:BEST_DEPTH]
    # A memory of ten facts or fewer has no tail: the last of them stands for it.
    tail = facts.scores[BEST_DEPTH:] or best[-1:]
    return {
        "top_over_tail": mean_of(best) - mean_of(tail),
        "largest_step": max((score - following for score, following in pairwise(best)), default=0.0),
    }


def _word_signals(facts: SignalInputs) -> dict[str, float]:
    own = [facts.share(terms) for terms in facts.own_terms[:BEST_DEPTH]]
    windows = [facts.share(terms) for terms in facts.window_terms]
    return {
        "first_own": own[0],
        "first_window": windows[0],
        "own_lead": max(own) - mean_of(own),
        "window_lead": max(windows) - mean_of(windows),
    }


def _alignment_signals(facts: SignalInputs) -> dict[str, float]:
    """Return how well the best fact's own words match the question, which nothing else in memory changes (LIVE-3)."""
    aligned = [_alignment(facts.question, item.entry) for item in facts.ranked[:_BEST_OF]]
    best = max(range(len(aligned)), key=lambda at: aligned[at][1])
    cosine, tokens, least = aligned[best]
    return {
        "aligned_cosine": cosine,
        "aligned_tokens": tokens,
        "aligned_least": least,
        "aligned_share": facts.share_with_synonyms(facts.own_terms[best]),
        "aligned_answer": _answer_sign(facts.question, facts.ranked[best].entry),
    }


def _reading_signals(read: Sequence[float]) -> dict[str, float]:
    odds = [log_odds(each, 1e-9) / _MOST_ODDS for each in read]
    return {"read_first": odds[0], "read_best": max(odds)}


def _alignment(question: AnalysedQuestion, entry: PoolEntry) -> Sequence[float]:
    """Return how well a fact matches the question, as if that had the word for what the fact names of its kind."""
    alignment = entry["alignment"] or (0.0, 0.0, 0.0)
    if not question.kind.stems_if_mentioned(entry["record"]["text"]):
        return alignment
    return [min(value + more, 1.0) for value, more in zip(alignment, _MEMBER_ALIGNMENT, strict=True)]


def _answer_sign(question: AnalysedQuestion, entry: PoolEntry) -> float:
    if question.asked is None:
        return float(bool(question.kind.stems_if_mentioned(entry["record"]["text"])))
    stated = states_answer(question.asked, entry, {*stems(question.text)}, asks_last=question.asks_last)
    return 1.0 if stated else -1.0


def _attribution_signals(facts: SignalInputs) -> dict[str, float]:
    """Compare facts from those whom the question names with others: what somebody else said may be no answer."""
    own = [facts.rare_share(terms) for terms in facts.own_terms[:BEST_DEPTH]]
    if not facts.question.name_terms:
        unnamed = {"told_share": mean_of(own), "told_alike": _mean_of_best(facts.similarities)}
        return dict.fromkeys(_NAMED_SIGNALS, 0.0) | unnamed
    sides = [1.0 if named else -1.0 for named in facts.from_named]
    lead = max(facts.scores[0] - facts.scores[1], 0.0) if len(facts.scores) > 1 else max(facts.scores[0], 0.0)
    told = [share * weight for share, weight in zip(own, facts.self_reference, strict=True)]
    told_sides = [side if known else max(side, 0.0) for side, known in zip(sides, facts.has_speaker, strict=True)]
    alike = [similarity * weight for similarity, weight in zip(facts.similarities, facts.self_reference, strict=True)]
    any_named = any(facts.from_named)
    return {
        "named_first": float(facts.from_named[0]),
        "named_lead": sides[0] * lead if any_named else 0.0,
        "named_own": _gap(own, sides),
        "named_window": _gap([facts.rare_share(terms) for terms in facts.window_terms], sides),
        "named_vote": _vote(own, sides),
        "named_told": _vote(told, told_sides),
        "named_alike": _gap(alike, told_sides),
        "told_share": math.fsum(_not_others(told, told_sides)) / len(told) if any_named else mean_of(own),
        "told_alike": _mean_of_best(_not_others(alike, told_sides) if any_named else facts.similarities),
    }


def _not_others(values: Sequence[float], sides: Sequence[float]) -> list[float]:
    """Return the values without those of the other side."""
    return [value for value, side in zip(values, sides, strict=True) if side >= 0]


def _mean_of_best(similarities: Sequence[float]) -> float:
    """Return the mean of the three largest, which doesn't depend on how many others there are."""
    return mean_of(sorted(similarities, reverse=True)[:_BEST_OF])


def _vote(shares: Sequence[float], sides: Sequence[float]) -> float:
    """Return the shares of one side less those of the other, earlier ones counting more."""
    votes = (side * share / math.log2(at + 2) for at, (side, share) in enumerate(zip(sides, shares, strict=True)))
    return math.fsum(votes) / _VOTE_SCALE


def _gap(shares: Sequence[float], sides: Sequence[float]) -> float:
    """Return the best share of one side less that of the other; a side without facts has 0."""
    pairs = list(zip(shares, sides, strict=True))
    named = max((share for share, side in pairs if side > 0), default=0.0)
    return named - max((share for share, side in pairs if side < 0), default=0.0)


def _question_signals(question: AnalysedQuestion) -> dict[str, float]:
    return {
        "names": min(len(question.names), _MOST_NAMES) / _MOST_NAMES,
        **{f"asks_{kind}": float(question.asked is kind) for kind in AnswerKind},
        "says_time": float(bool(question.times)),
    }


def _breadth_signals(facts: SignalInputs) -> dict[str, float]:
    """Tell how much is asked for: the more it is, the more records it takes, and the less often all are found."""
    acts = [sentence.act for sentence in find_speech_acts(facts.question.text)]
    return {
        "asks_list": float(facts.question.listed is not None),
        "question_length": 1.0 - math.exp(-len(facts.question_terms) / _MANY_WORDS),
        "question_tells": mean_of([float(act is SpeechAct.STATEMENT) for act in acts]),
    }
