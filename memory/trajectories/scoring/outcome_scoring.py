"""The learning value of a run, by rules or by a chat model (TRAJ-2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from recall_loop.memory.trajectories.indexing_text import split_identifier, updated_text
from recall_loop.memory.trajectories.scoring import rubric
from recall_loop.prompts.replies import TrajectoryScore
from recall_loop.prompts.templates import RenderedPrompt, render_prompt
from recall_loop.state.display import format_count, truncate
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record, Trajectory
from recall_loop.state.records.trajectories import (
    RunData,
    Scoring,
    SubScores,
    TurnMessage,
    run_from_record,
    trajectory_record,
)
from recall_loop.state.types import ComplexityLevel, Role
from recall_loop.text.words.snippets import escape_text, estimate_tokens, fit_to_budget

if TYPE_CHECKING:
    from recall_loop.llm.client import ChatClient
    from recall_loop.llm.endpoint.circuit_breaker import Limits
    from recall_loop.llm.endpoint.wrapped_models import ChatModel
    from recall_loop.state.settings.settings import Settings


_MAX_TASK_CHARS, _MAX_REPLY_CHARS = 200, 200


@dataclass(frozen=True)
class RunScore:
    """A scorer's judgement of a run; the learning value follows from the sub-scores, each in [0,1].

    `scorer` is `rules-2`, or `llm:` and the model's name. The lower-case `tags` join those that the record has. What
    the scorer can't tell is None.
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
    """Score a run by rules: the same run always gets the same score; never fails."""
    counts = rubric.count_run(run)
    parts = rubric.sub_scores(counts)
    score = rubric.overall_score(parts)
    category = run.task_category or rubric.task_category_for(counts)  # the shape of a run says less than any name
    level = rubric.complexity_level_for(parts.task_complexity)
    tags = (category, "corrected-errors") if counts.corrections else (category,)
    return RunScore(rubric.RUBRIC_SCORER, parts, _reasons(counts, score), _summary(run), tags, category, level)


def _reasons(counts: rubric.RunCounts, score: float) -> str:
    parts = [
        f"{format_count(counts.user_turns, 'user message')}, {counts.refinements} of them refining",
        f"{format_count(counts.words, 'different word')} from users",
        f"{format_count(counts.calls, 'different call')} of {format_count(counts.tools, 'tool')}",
    ]
    if counts.corrections:
        parts.append(f"{format_count(counts.corrections, 'error')} followed by another attempt")
    return f"Learning value {score:.2f}, {rubric.score_band(score)}: {'; '.join(parts)}."


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

    A run or a tag that no record can hold raises `InvalidInputError`.
    """
    kept = record.model_dump(exclude={"id", "kind", "text", "attributes", "tags"})
    joined = tuple(dict.fromkeys((*record.tags, *tags)))
    return trajectory_record(run, id=record.id, text=updated_text(record, run), tags=joined, **kept)


SCORING_PROMPT = "score_trajectory"
SCORING_PROMPT_TOKENS = 3000
_LEAST_TOKENS = 200
_MESSAGE = 600
_TASK = 2_000
_GAP = "[…]"


def render_scoring_prompt(run: RunData, tokens: int = SCORING_PROMPT_TOKENS) -> RenderedPrompt:
    """Return the prompt for a run, of about `tokens` tokens at most: the middle of a long transcript is left out."""
    tools = escape_text(", ".join(run.metadata.tools_used)) or "none"
    task = escape_text(run.task[:_TASK])
    empty = render_prompt(SCORING_PROMPT, task=task, tools=tools, transcript="")
    left = max(tokens - estimate_tokens(empty.system) - estimate_tokens(empty.user), _LEAST_TOKENS)
    lines = [_line(message) for message in run.messages()]
    return render_prompt(SCORING_PROMPT, task=task, tools=tools, transcript="\n".join(_shortened(lines, left)))


def _line(message: TurnMessage) -> str:
    calls = "; ".join(f"{call.name}({_arguments(call.arguments)})" for call in message.tool_calls)
    parts = (message.content, f"calls {calls}" if calls else "", f"error: {message.error}" if message.error else "")
    text = escape_text(" ".join(part for part in parts if part))
    return f"{message.role.value}: {truncate(text, _MESSAGE)}"


def _arguments(given: dict[str, Any] | str) -> str:
    return given if isinstance(given, str) else ", ".join(f"{name}={value}" for name, value in given.items())


def _shortened(lines: list[str], tokens: int) -> list[str]:
    """Return all lines, or a head and a tail that fit: the beginning and the end of a run tell most."""
    if sum(estimate_tokens(line) + 1 for line in lines) <= tokens:
        return lines
    head = fit_to_budget(lines, tokens // 2)
    tail = fit_to_budget(lines[len(head) :][::-1], tokens // 2)[::-1]
    return [*head, _GAP, *tail]


def llm_scorer(client: ChatClient, limits: Limits, *, prompt_tokens: int = SCORING_PROMPT_TOKENS) -> Scorer:
    """Return a scorer that asks the client's model; `limits` says what one run may cost."""
    from recall_loop.llm.endpoint.failures import FailureReason

    def score(run: RunData) -> ScoringOutcome:
        reply = client.ask(render_scoring_prompt(run, prompt_tokens), TrajectoryScore, limits)
        if reply.value is not None:
            return _run_score(reply.value, f"llm:{client.name}")
        failure = reply.failure
        if failure is None:
            return ScoringFailure("no reply")
        detail = f"{client.name}: {failure.reason}: {failure.detail}"[:200]
        return ScoringFailure(detail, retry_later=failure.reason == FailureReason.CIRCUIT_OPEN)

    return score


def make_scorer(option: str, name: str, settings: Settings, model: ChatModel | str | None = None) -> Scorer:
    """Return the scorer `auto`, `rules` or `llm` that `option` names; `auto` asks a model only where there is one.

    The model is the one that is handed in, else that of the settings; `llm` without either raises `InvalidInputError`.
    """
    if name == "rules" or (name == "auto" and model is None and not settings.llm_model):
        return score_by_rules
    if model is None and not settings.llm_model:
        raise InvalidInputError(option, name, "rules; or set RECALL_LOOP_LLM_MODEL")
    from recall_loop.llm.client import make_chat_client
    from recall_loop.llm.endpoint.circuit_breaker import Limits

    # One run is one question: the limits of a request apply to each.
    limits = Limits.from_settings(settings)
    return llm_scorer(make_chat_client(settings, model), limits, prompt_tokens=settings.llm_prompt_tokens)


def _run_score(reply: TrajectoryScore, scorer: str) -> RunScore:
    return RunScore(
        scorer=scorer,
        sub_scores=SubScores.model_validate(reply, from_attributes=True),
        reasoning=reply.score_reasoning,
        summary=reply.summary or None,
        tags=reply.tags,
        task_category=reply.task_category or None,
        complexity_level=reply.complexity_level,
    )
