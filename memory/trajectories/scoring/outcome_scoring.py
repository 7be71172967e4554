"""Scores of runs: the scorer by rules, and how a score gets into a run (TRAJ-2). No I/O but the scorer's.

A scorer that fails invents no score: the run stays unscored and is queued (`scoring_pending`) with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from recall_loop.memory.trajectories.indexing_text import split_identifier, updated_text
from recall_loop.memory.trajectories.scoring import rubric
from recall_loop.state.display import truncate
from recall_loop.state.records.records import Record, Trajectory
from recall_loop.state.records.trajectories import RunData, Scoring, SubScores, run_from_record, trajectory_record
from recall_loop.state.types import ComplexityLevel, Role

_MAX_TASK_CHARS, _MAX_REPLY_CHARS = 200, 200


@dataclass(frozen=True)
class RunScore:
    """A scorer's judgement of a run; the learning value follows from the sub-scores.

    Attributes:
        scorer: `rules-1`, or `llm:` and the model's name.
        sub_scores: the four parts, each in [0,1].
        reasoning: why, in a sentence or two.
        summary: of the task and the work.
        tags: short lower-case tags, joined with those that the record has.
        task_category: kind of task; None if the scorer can't tell.
        complexity_level: how hard the task was; None if the scorer can't tell.
    """

    scorer: str
    sub_scores: SubScores
    reasoning: str
    summary: str | None = None
    tags: tuple[str, ...] = ()
    task_category: str | None = None
    complexity_level: ComplexityLevel | None = None

    @property
    def outcome_score(self) -> float:
        """The learning value in [0,1]."""
        return rubric.overall_score(self.sub_scores)


@dataclass(frozen=True)
class ScoringFailure:
    """Why there is no score: one short line without any text of the run.

    `retry_later`: the scorer can't be asked at all for now, so that the runs that follow needn't be tried.
    """

    detail: str
    retry_later: bool = False


ScoringOutcome = RunScore | ScoringFailure
Scorer = Callable[[RunData], ScoringOutcome]


def score_by_rules(run: RunData) -> RunScore:
    """Score a run by the rubric's table: the same run, the same score; never fails."""
    counts = rubric.count_run(run)
    parts = rubric.sub_scores(counts)
    score = rubric.overall_score(parts)
    category = rubric.task_category_for(counts)
    level = rubric.complexity_level_for(parts.task_complexity)
    tags = (category, "corrected-errors") if counts.corrections else (category,)
    return RunScore(rubric.RUBRIC_SCORER, parts, _reasons(counts, score), _summary(run), tags, category, level)


def _reasons(counts: rubric.RunCounts, score: float) -> str:
    parts = [
        f"{_pluralize(counts.user_turns, 'user message')}, {counts.refinements} of them refining",
        f"{_pluralize(counts.words, 'different word')} from users",
        f"{_pluralize(counts.calls, 'different call')} of {_pluralize(counts.tools, 'tool')}",
    ]
    if counts.corrections:
        parts.append(f"{_pluralize(counts.corrections, 'error')} followed by another attempt")
    return f"Learning value {score:.2f}, {rubric.score_band(score)}: {'; '.join(parts)}."


def _pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _summary(run: RunData) -> str:
    """Return the task, the tools and the last reply in short."""
    replies = [one.content for one in run.messages() if one.role is Role.ASSISTANT and one.content.strip()]
    tools = ", ".join(split_identifier(name) for name in run.metadata.tools_used)
    parts = (
        _clip(run.task, _MAX_TASK_CHARS),
        f"Tools: {tools}." if tools else "",
        f"Last reply: {_clip(replies[-1], _MAX_REPLY_CHARS)}" if replies else "",
    )
    return " ".join(part for part in parts if part)


def _clip(text: str, most: int) -> str:
    return truncate(" ".join(text.split()), most)


def apply_outcome(run: RunData, outcome: ScoringOutcome, at: datetime) -> RunData:
    """Return the run with a scorer's outcome of a time (UTC).

    A failure leaves a run without a score unscored and queued; a score that it has already stays.
    """
    if isinstance(outcome, ScoringFailure):
        return run.model_copy(update={"scoring_pending": run.outcome_score is None, "scoring_error": outcome.detail})
    scoring = Scoring(scorer=outcome.scorer, sub_scores=outcome.sub_scores, reasoning=outcome.reasoning, scored_at=at)
    return run.model_copy(
        update={
            "outcome_score": outcome.outcome_score,
            "scoring": scoring,
            "scoring_pending": False,
            "scoring_error": None,
            "summary": outcome.summary or run.summary,
            "task_category": outcome.task_category or run.task_category,
            "complexity_level": outcome.complexity_level or run.complexity_level,
        }
    )


def record_with_outcome(record: Record, outcome: ScoringOutcome, at: datetime) -> Trajectory:
    """Return the stored record with a scorer's outcome of a time (UTC), and with the scorer's tags."""
    run = apply_outcome(run_from_record(record), outcome, at)
    return record_with_run(record, run, outcome.tags if isinstance(outcome, RunScore) else ())


def record_with_run(record: Record, run: RunData, tags: Iterable[str] = ()) -> Trajectory:
    """Return a record whose run has become `run`, with more tags; a text that was made from the run is made again.

    Raises:
        InvalidInputError: no record can hold the run or a tag.
    """
    kept = record.model_dump(exclude={"id", "kind", "text", "attributes", "tags"})
    joined = tuple(dict.fromkeys((*record.tags, *tags)))
    return trajectory_record(run, id=record.id, text=updated_text(record, run), tags=joined, **kept)
