"""Scoring by a language model (TRAJ-2), and the choice between it and the rules.

The model sees the task, the tools and the messages; not how the run ended, which mustn't influence the score. The
overall score is computed from its four numbers. Every error is a `ScoringFailure`, never a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recall_loop.memory.trajectories.scoring.outcome_scoring import (
    RunScore,
    Scorer,
    ScoringFailure,
    ScoringOutcome,
    score_by_rules,
)
from recall_loop.prompts.templates import RenderedPrompt, render_prompt
from recall_loop.prompts.trajectory_replies import TrajectoryScore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.trajectories import RunData, SubScores, TurnMessage
from recall_loop.text.words.token_budget import estimate_tokens, fit_to_budget
from recall_loop.text.words.xml_escaping import escape_text

if TYPE_CHECKING:  # only a run that asks a model loads the framework
    from langchain_core.language_models import BaseChatModel

    from recall_loop.llm.client import ChatClient
    from recall_loop.llm.endpoint.call_limits import Limits
    from recall_loop.state.settings.settings import Settings

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
    return f"{message.role.value}: {text if len(text) <= _MESSAGE else text[:_MESSAGE] + '…'}"


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


def make_scorer(option: str, name: str, settings: Settings, model: BaseChatModel | None = None) -> Scorer:
    """Return the scorer `auto`, `rules` or `llm` that `option` names; `auto` asks a model only where there is one.

    The model is the one that is handed in, else that of the settings.

    Raises:
        InvalidInputError: `llm` without a model in the settings.
    """
    if name == "rules" or (name == "auto" and model is None and not settings.llm_model):
        return score_by_rules
    if model is None and not settings.llm_model:
        raise InvalidInputError(option, name, "rules; or set RECALL_LOOP_LLM_MODEL")
    from recall_loop.llm.chat_models import make_chat_client
    from recall_loop.llm.endpoint.call_limits import Limits

    # One run is one question: the limits of a request hold for each.
    limits = Limits.from_settings(settings)
    return llm_scorer(make_chat_client(settings, model), limits, prompt_tokens=settings.llm_prompt_tokens)


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
