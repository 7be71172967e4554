"""Scoring by a language model through the one door of `recall_loop.llm` (TRAJ-2).

The model sees what was asked, which tools were used and what was said; not how the run ended, which mustn't enter. The
overall score is worked out from its four numbers. Whatever goes wrong is a `ScoringFailure`, never a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from recall_loop.llm.endpoint.failures import FailureReason
from recall_loop.memory.trajectories.scoring.outcome_scoring import RunScore, ScoringFailure, ScoringOutcome
from recall_loop.prompts.templates import RenderedPrompt, render_prompt
from recall_loop.prompts.trajectory_replies import TrajectoryScore
from recall_loop.state.records.trajectories import RunData, SubScores, TurnMessage
from recall_loop.text.words.token_budget import estimate_tokens, fit_to_budget
from recall_loop.text.words.xml_escaping import escape_text

SCORING_PROMPT = "score_trajectory"
SCORING_PROMPT_TOKENS = 3000
_LEAST_TOKENS = 200
_MESSAGE = 600
_TASK = 2_000
_GAP = "[…]"
_T = TypeVar("_T", bound=BaseModel)


class ScoringReply(Protocol):
    """What is used of the door's reply: a value, or a failure with a `reason` and a `detail`."""

    @property
    def value(self) -> Any:
        """The reply, or None."""
        ...

    @property
    def failure(self) -> Any:
        """Why there is none."""
        ...


class ScoringClient(Protocol):
    """What is used of `recall_loop.llm.client.ChatClient`."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    def ask(self, prompt: RenderedPrompt, schema: type[_T], limits: Any) -> ScoringReply:
        """Ask once, within limits; doesn't raise for what the model or the network does."""
        ...


def render_scoring_prompt(run: RunData, tokens: int = SCORING_PROMPT_TOKENS) -> RenderedPrompt:
    """Return the prompt for a run, of about `tokens` tokens at most: the middle of a long transcript is left out."""
    tools = escape_text(", ".join(run.metadata.tools_used)) or "none"
    task = escape_text(run.task[:_TASK])
    empty = render_prompt(SCORING_PROMPT, task=task, tools=tools, transcript="")
    left = max(tokens - estimate_tokens(empty.system) - estimate_tokens(empty.user), _LEAST_TOKENS)
    return render_prompt(
        SCORING_PROMPT, task=task, tools=tools, transcript="\n".join(_shortened(list(_lines(run)), left))
    )


def _lines(run: RunData) -> Iterator[str]:
    for turn in run.turns:
        for message in turn.messages:
            yield _line(message)


def _line(message: TurnMessage) -> str:
    calls = "; ".join(f"{call.name}({_arguments(call.arguments)})" for call in message.tool_calls)
    parts = (message.content, f"calls {calls}" if calls else "", f"error: {message.error}" if message.error else "")
    text = escape_text(" ".join(part for part in parts if part))
    return f"{message.role.value}: {text if len(text) <= _MESSAGE else text[:_MESSAGE] + '…'}"


def _arguments(given: dict[str, Any] | str) -> str:
    return given if isinstance(given, str) else ", ".join(f"{name}={value}" for name, value in given.items())


def _shortened(lines: list[str], tokens: int) -> list[str]:
    """Return all lines, or a head and a tail that fit: how a run began and where it came to tell most."""
    if sum(estimate_tokens(line) + 1 for line in lines) <= tokens:
        return lines
    head = fit_to_budget(lines, tokens // 2)
    tail = fit_to_budget(lines[len(head) :][::-1], tokens // 2)[::-1]
    return [*head, _GAP, *tail]


def llm_scorer(
    door: ScoringClient, limits: Callable[[], object], *, prompt_tokens: int = SCORING_PROMPT_TOKENS
) -> Callable[[RunData], ScoringOutcome]:
    """Return a scorer that asks the model behind `door`; `limits` gives what one question may cost."""

    def score(run: RunData) -> ScoringOutcome:
        reply = door.ask(render_scoring_prompt(run, prompt_tokens), TrajectoryScore, limits())
        if isinstance(reply.value, TrajectoryScore):
            return _run_score(reply.value, f"llm:{door.name}")
        failure = reply.failure
        if failure is None:
            return ScoringFailure("no reply")
        words = f"{door.name}: {failure.reason}: {failure.detail}"[:200]
        return ScoringFailure(words, retry_later=failure.reason == FailureReason.CIRCUIT_OPEN)

    return score


def _run_score(reply: TrajectoryScore, scorer: str) -> RunScore:
    parts = SubScores(
        interaction_depth=reply.interaction_depth,
        task_complexity=reply.task_complexity,
        tool_usage=reply.tool_usage,
        learning_value=reply.learning_value,
    )
    return RunScore(
        scorer=scorer,
        sub_scores=parts,
        reasoning=reply.score_reasoning,
        summary=reply.summary or None,
        tags=reply.tags,
        task_category=reply.task_category or None,
        complexity_level=reply.complexity_level,
    )
