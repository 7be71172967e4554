"""The rubric of the scorer `rules-2`: counts of a run, and the sub-scores that follow from them (TRAJ-2).

| sub-score (weight) | points | curve: points → sub-score |
|---|---|---|
| interaction depth (35 %) | 1 for each later user message that says something new and has words, 1/4 for each step of tools after the first | nobody answered: 0.10; else 0 → 0.45, 1 → 0.54, 2 → 0.62, 3 → 0.70, 5 → 0.93, 8 → 0.96, 14 → 0.98, 40 → 1 |
| task complexity (30 %) | 1 for each 25 different words of users and each 75 of replies, together at most 3.5; 1 for each different tool; 1/4 for each different call | 0 → 0.20, 0.1 → 0.38, 1 → 0.46, 3.5 → 0.66, 5 → 0.78, 7 → 0.91, 12 → 0.95, 24 → 0.98, 50 → 1 |
| tool usage (20 %) | 1 for each different tool, 1/4 for each further different call | 0 → 0.30, 1 → 0.50, 2 → 0.63, 3 → 0.87, 5 → 0.93, 8 → 0.95, 14 → 0.98, 30 → 1 |
| learning value (15 %) | 1 if somebody answered in words, 1/2 for each different tool, 1/2 for each later user message that says something new, 1 for each error that was followed by a different call | 0 → 0.10, 1 → 0.45, 2 → 0.56, 4 → 0.78, 5 → 0.90, 9 → 0.94, 15 → 0.97, 30 → 1 |

Between the points the curve is straight. Points only add up and curves only rise, so more of anything never lowers a
sub-score. How the run ended isn't counted anywhere; an error counts as something to learn from, and only if work went on.
Words count only where somebody answered.

Bands: from 0.9 exceptional, from 0.7 good, from 0.5 mediocre, from 0.3 poor, below that hardly anything to learn. A plain
question with a short answer has 0.4, a single exchange without tools at most 0.5: 0.35 × 0.45 + 0.30 × 0.66 + 0.20 × 0.30 +
0.15 × 0.45 = 0.483. A session of six turns with three tools has nearly 0.9, a run without an answer less than 0.2.
"""  # noqa: E501  # a table

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from recall_loop.state.records.trajectories import RunData, SubScores, ToolUse, TurnMessage
from recall_loop.state.types import ComplexityLevel, Role
from recall_loop.text.words.tokens import stems

RUBRIC_SCORER = "rules-2"
SUB_SCORE_WEIGHTS = {"interaction_depth": 0.35, "task_complexity": 0.30, "tool_usage": 0.20, "learning_value": 0.15}

Curve = Sequence[tuple[float, float]]
_UNANSWERED = 0.10
_DEPTH: Curve = ((0, 0.45), (1, 0.54), (2, 0.62), (3, 0.70), (5, 0.93), (8, 0.96), (14, 0.98), (40, 1.0))
_COMPLEXITY: Curve = (
    *((0, 0.20), (0.1, 0.38), (1, 0.46), (3.5, 0.66), (5, 0.78)),
    *((7, 0.91), (12, 0.95), (24, 0.98), (50, 1.0)),
)
_TOOLS: Curve = ((0, 0.30), (1, 0.50), (2, 0.63), (3, 0.87), (5, 0.93), (8, 0.95), (14, 0.98), (30, 1.0))
_LEARNING: Curve = ((0, 0.10), (1, 0.45), (2, 0.56), (4, 0.78), (5, 0.90), (9, 0.94), (15, 0.97), (30, 1.0))
_WORDS_A_POINT, _REPLY_WORDS_A_POINT, _MOST_WORD_POINTS = 25, 75, 3.5
_BANDS = ((0.9, "exceptional"), (0.7, "good"), (0.5, "mediocre"), (0.3, "poor"))
_LEAST_BAND = "hardly anything to learn"
# Task complexity at which each level begins.
_LEVELS = (
    (0.84, ComplexityLevel.EXPERT),
    (0.65, ComplexityLevel.COMPLEX),
    (0.45, ComplexityLevel.MODERATE),
    (0.32, ComplexityLevel.SIMPLE),
)


@dataclass(frozen=True)
class RunCounts:
    """The counts of the rubric; each number only grows with the events of a run.

    `answered` is whether the agent said or did anything, `replied` whether in words. `refinements` are user messages
    after the first that say something new; words are counted as different stems, calls by name and arguments; `steps`
    are messages with calls, and `corrections` errors of tools that were followed by a call not made before.
    """

    answered: bool = False
    replied: bool = False
    user_turns: int = 0
    refinements: int = 0
    words: int = 0
    reply_words: int = 0
    tools: int = 0
    calls: int = 0
    steps: int = 0
    corrections: int = 0


def count_run(run: RunData) -> RunCounts:
    """Count a run's messages."""
    messages = run.messages()
    user_stems = (frozenset(stems(message.content)) for message in messages if message.role is Role.USER)
    user_texts = [text for text in user_stems if text]
    calls = [call for message in messages for call in message.tool_calls]
    replies = frozenset[str]().union(*(stems(each.content) for each in messages if each.role is Role.ASSISTANT))
    return RunCounts(
        answered=bool(replies or calls),
        replied=bool(replies),
        user_turns=len(user_texts),
        refinements=_refinements(user_texts),
        words=len(frozenset().union(*user_texts)),
        reply_words=len(replies),
        tools=len({call.name for call in calls}),
        calls=len({_key(call) for call in calls}),
        steps=sum(bool(message.tool_calls) for message in messages),
        corrections=_corrections(messages),
    )


def _refinements(user_texts: Sequence[frozenset[str]]) -> int:
    """Count messages with a word that none before them had."""
    known: set[str] = set()
    count = 0
    for text in user_texts:
        count += not text <= known
        known |= text
    return max(count - 1, 0)  # the first one refines nothing


def _key(call: ToolUse) -> str:
    return json.dumps([call.name, call.arguments], sort_keys=True)


def _corrections(messages: Iterable[TurnMessage]) -> int:
    """Count errors after which a new call came; several errors in a row count as one."""
    known: set[str] = set()
    failing, count = False, 0
    for message in messages:
        new = {_key(call) for call in message.tool_calls} - known
        if failing and new:
            count, failing = count + 1, False
        known |= new
        failing = failing or bool(message.error) or any(call.error for call in message.tool_calls)
    return count


def sub_scores(counts: RunCounts) -> SubScores:
    """Return the four sub-scores of the counts, by the table of this module."""
    further = max(counts.calls - counts.tools, 0) / 4
    depth = counts.refinements + max(counts.steps - 1, 0) / 4
    word_points = counts.words / _WORDS_A_POINT + counts.reply_words / _REPLY_WORDS_A_POINT if counts.answered else 0.0
    complexity = min(word_points, _MOST_WORD_POINTS) + counts.tools + counts.calls / 4
    learned = counts.replied + counts.tools / 2 + counts.refinements / 2 + counts.corrections
    return SubScores(
        interaction_depth=_curve_value(_DEPTH, depth) if counts.answered else _UNANSWERED,
        task_complexity=_curve_value(_COMPLEXITY, complexity),
        tool_usage=_curve_value(_TOOLS, counts.tools + further),
        learning_value=_curve_value(_LEARNING, learned),
    )


def _curve_value(curve: Curve, points: float) -> float:
    """Return the height of a curve of straight pieces; its last height beyond its end."""
    for (left, low), (right, high) in pairwise(curve):
        if points <= right:
            return round(low + (high - low) * (points - left) / (right - left), 4)
    return curve[-1][1]


def overall_score(parts: SubScores) -> float:
    """Return the learning value: the weighted sum of the sub-scores, in [0,1], with four decimals."""
    total: float = sum(weight * getattr(parts, name) for name, weight in SUB_SCORE_WEIGHTS.items())
    return round(min(max(total, 0.0), 1.0), 4)


def score_band(score: float) -> str:
    """Return the word for a learning value."""
    return next((word for least, word in _BANDS if score >= least), _LEAST_BAND)


def complexity_level_for(complexity: float) -> ComplexityLevel:
    """Return the level that belongs to a task complexity in [0,1]."""
    return next((name for least, name in _LEVELS if complexity >= least), ComplexityLevel.TRIVIAL)


def task_category_for(counts: RunCounts) -> str:
    """Return the kind of a run by its shape: who took part, and whether tools were used."""
    if counts.tools:
        return "assisted-task" if counts.user_turns > 1 else "autonomous-task"
    return "dialogue" if counts.user_turns > 1 else "single-question"
