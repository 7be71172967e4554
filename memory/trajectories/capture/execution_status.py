"""How a run ended, by rules over its record (TRAJ-1). Pure; a reward or grade never enters the rules.

The first rule that holds decides. Confidence is in [0,1]: high if the record states it, .5 if
it says nothing.

| # | holds when | status | confidence |
|---|---|---|---|
| 1 | the run names an exception | error | .95 |
| 2 | stop reason or run status speaks of an error (`too_many_errors`, `tool_failure`, …) | error | .9 |
| 3 | run status or stop reason is failed, refused or filtered | failed | .9 |
| 4 | run status or stop reason is cancelled or aborted | failed | .8 |
| 5 | stop reason is a limit (`max_tokens`, `length`, `max_steps`, `timeout`, …) | incomplete | .8 |
| 6 | the run waits: interrupted, or steps are still to come, or its status says that it runs | incomplete | .8 |
| 7 | run status completed, and a stop reason of its own accord (`end_turn`, `stop`, …) | completed | .8 |
| 8 | stop reason of its own accord | completed | .8 |
| 9 | run status completed | completed | .7 |
| 10 | nothing declared; the last message is a tool's error | error | .7 |
| 11 | nothing declared; the last message asks for a tool that never answered | incomplete | .6 |
| 12 | nothing declared; the last message ends with an end marker (`TERMINATE`, `[DONE]`, …) | completed | .7 |
| 13 | nothing declared; the agent has the last word | completed | .6 |
| 14 | nothing declared; the user takes leave or says thanks last | completed | .6 |
| 15 | anything else | unknown | .5 |

A run that completed by rule 7, 8 or 9 with more than three user messages gains .1: somebody kept talking to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recall_loop.state.records.trajectories import Execution, TurnMessage
from recall_loop.state.scope import ExecutionStatus
from recall_loop.state.types import Role
from recall_loop.text.words.stop_words import word_set

LONG_CONVERSATION = 3
LONG_CONVERSATION_BONUS = 0.1


_NATURAL = word_set(
    "end_turn stop stop_sequence eos complete completed done finished finish final success succeeded ended end natural"
    " user_stop agent_stop user_ended agent_ended user_done agent_done end_of_turn final_answer"
)
_LIMITS = word_set(
    "max_tokens length max_output_tokens token_limit model_length context_length_exceeded"
    " model_context_window_exceeded max_steps step_limit max_turns turn_limit max_iterations iteration_limit"
    " recursion_limit max_messages message_limit max_tool_calls timeout timed_out time_limit deadline"
    " budget budget_exceeded quota limit incomplete pause_turn expired"
)
_FAILED = word_set("failed fail failure refusal refused content_filter safety blocked recitation gave_up")
_CANCELLED = word_set(
    "cancelled canceled cancelling aborted abort killed terminated interrupted_by_user user_cancelled"
)
_WAITING = word_set(
    "running in_progress pending queued created paused interrupted interrupt requires_action requires_approval"
    " waiting_for_input input_required"
)
_ERROR = re.compile(r"(?:^|_)(?:errors?|exceptions?|crash(?:ed)?|tool_failures?|failures)(?:_|$)")
_END_MARK = re.compile(
    r"(?:^|\s)(?:TERMINATE|[#\[<|*]{1,3} ?(?:STOP|DONE|END|EXIT|FINISHED|TERMINATE) ?[#\]>|*]{1,3})[.!]?\s*$"
)
_FAREWELL = re.compile(
    r"(?i)\b(?:thanks?|thank you|thx|cheers|bye|goodbye|good night|farewell|take care|see you"
    r"|have a (?:good|nice|great)|that(?:'|\N{RIGHT SINGLE QUOTATION MARK})?s (?:all|it|everything)|that is all"
    r"|nothing else|no further)\b"
)


@dataclass(frozen=True, slots=True)
class RunEnding:
    """The evidence in a record about the end of a run, as `RunInfo` has it, and its messages, oldest first."""

    run_status: str | None = None
    stop_reason: str | None = None
    error: str | None = None
    waiting: bool = False
    messages: Sequence[TurnMessage] = ()


def classify_execution(ending: RunEnding) -> Execution:
    """Return how the run ended, how sure that is, and the rule's reason (module docstring)."""
    return next(filter(None, (rule(ending) for rule in _RULES)))


def is_run_status(word: str) -> bool:
    """Return whether `word` speaks of the state of a run; `success` and `failure` are verdicts on its result."""
    word = _key(word)
    known = word in _FAILED | _CANCELLED | _WAITING | {"completed", "complete", "done", "finished", "incomplete"}
    return (known and word not in {"fail", "failure"}) or _ERROR.search(word) is not None


def is_status_or_verdict(word: str) -> bool:
    """Return whether `word` speaks of how a run stands, or judges or limits its end in a word that is known."""
    return is_run_status(word) or _key(word) in _NATURAL | _LIMITS | _FAILED


def _key(word: str | None) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word or "").lower()).strip("_")


def _declared_failure(ending: RunEnding) -> Execution | None:
    """Rules 1 to 4."""
    if ending.error:
        return _execution(ExecutionStatus.ERROR, 0.95, "The run names an exception.")
    for kind, word in (("stop reason", ending.stop_reason), ("run status", ending.run_status)):
        key = _key(word)
        if _ERROR.search(key):
            return _execution(ExecutionStatus.ERROR, 0.9, f"The {kind} is {word!r}.")
        if key in _FAILED:
            return _execution(ExecutionStatus.FAILED, 0.9, f"The {kind} is {word!r}.")
        if key in _CANCELLED:
            return _execution(ExecutionStatus.FAILED, 0.8, f"The {kind} is {word!r}: somebody stopped the run.")
    return None


def _cut_short(ending: RunEnding) -> Execution | None:
    """Rules 5 and 6."""
    for kind, word in (("stop reason", ending.stop_reason), ("run status", ending.run_status)):
        key = _key(word)
        if key in _LIMITS:
            return _execution(ExecutionStatus.INCOMPLETE, 0.8, f"A limit ended the run: the {kind} is {word!r}.")
        if key in _WAITING:
            return _execution(ExecutionStatus.INCOMPLETE, 0.8, f"The run is not over: the {kind} is {word!r}.")
    if ending.waiting:
        return _execution(ExecutionStatus.INCOMPLETE, 0.8, "The run is waiting: it had more steps to take.")
    return None


def _declared_success(ending: RunEnding) -> Execution | None:
    """Rules 7 to 9, with the bonus."""
    natural = _key(ending.stop_reason) in _NATURAL
    completed = _key(ending.run_status) in _NATURAL
    if not natural and not completed:
        return None
    reasons = [f"The run status is {ending.run_status!r}."] if completed else []
    if natural:
        reasons.append(f"It stopped of its own accord: {ending.stop_reason!r}.")
    confidence = 0.8 if natural else 0.7
    user_messages = sum(message.role is Role.USER for message in ending.messages)
    if user_messages > LONG_CONVERSATION:
        confidence += LONG_CONVERSATION_BONUS
        reasons.append(f"{user_messages} user messages.")
    return _execution(ExecutionStatus.COMPLETED, round(confidence, 2), " ".join(reasons))


def _unanswered_end(ending: RunEnding) -> Execution | None:
    """Rules 10 and 11: nothing is declared, and the last message waits for something."""
    last = ending.messages[-1] if ending.messages else None
    if last is not None and last.role is Role.TOOL and last.error:
        return _execution(ExecutionStatus.ERROR, 0.7, "The last message is a tool's error, and nothing came after it.")
    if last is not None and last.tool_calls:
        return _execution(ExecutionStatus.INCOMPLETE, 0.6, "The last message asks for a tool that never answered.")
    return None


def _closing_words(ending: RunEnding) -> Execution | None:
    """Rules 12 to 14: nothing is declared, so the last words have to tell."""
    last = ending.messages[-1] if ending.messages else None
    text = last.content.strip() if last is not None else ""
    if last is None or not text:
        return None
    if _END_MARK.search(text):
        return _execution(ExecutionStatus.COMPLETED, 0.7, "The last message ends with an end marker.")
    if last.role is Role.ASSISTANT:
        return _execution(ExecutionStatus.COMPLETED, 0.6, "Nothing is declared; the agent has the last word.")
    spoke = any(message.role is Role.ASSISTANT for message in ending.messages)
    if last.role is Role.USER and spoke and _FAREWELL.search(text):
        return _execution(ExecutionStatus.COMPLETED, 0.6, "Nothing is declared; the user says goodbye.")
    return None


def _unknown(ending: RunEnding) -> Execution:
    given = ", ".join(repr(word) for word in (ending.stop_reason, ending.run_status) if word)
    declared = f"What is declared ({given}) says nothing about it" if given else "Nothing is declared"
    return _execution(ExecutionStatus.UNKNOWN, 0.5, f"{declared}, and the last message doesn't tell.")


def _execution(status: ExecutionStatus, confidence: float, reasoning: str) -> Execution:
    return Execution(status=status, confidence=confidence, reasoning=reasoning)


_Rule = Callable[[RunEnding], Execution | None]
_RULES: tuple[_Rule, ...] = (
    *(_declared_failure, _cut_short, _declared_success),
    *(_unanswered_end, _closing_words, _unknown),
)
