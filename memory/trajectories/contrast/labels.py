"""Labels of how a run ended and of its learning value (TRAJ-3), for every surface.

"Execution" and "Learning value" are never mixed up, and the word "success" is used for neither.
"""

from __future__ import annotations

from math import floor

from recall_loop.state.records.trajectories import RunData
from recall_loop.state.scope import ExecutionStatus

EXECUTION_HEADING = "Execution"
LEARNING_VALUE_HEADING = "Learning value"
UNSCORED_LABEL = "not scored"
UNSCORED_PENDING = "not scored yet, waiting to be scored"

_SIGNS = {
    ExecutionStatus.COMPLETED: "✅",
    ExecutionStatus.INCOMPLETE: "⏸",
    ExecutionStatus.FAILED: "❌",
    ExecutionStatus.ERROR: "⚠",
    ExecutionStatus.UNKNOWN: "❔",
}
EXECUTION_EXPLAINED = (
    "How the run ended, technically. It says nothing about the quality of the result or about what can be learned "
    "from the run."
)
STATUS_EXPLAINED = {
    ExecutionStatus.COMPLETED: "The run went on to its own end.",
    ExecutionStatus.INCOMPLETE: "A limit cut the run short (tokens, steps, time), or it waits to be continued.",
    ExecutionStatus.FAILED: "The run gave up, was refused or was cancelled.",
    ExecutionStatus.ERROR: "An exception or a tool's error ended the run.",
    ExecutionStatus.UNKNOWN: "Nothing in the record says how the run ended.",
}
LEARNING_EXPLAINED = (
    "How much can be learned from the run, from 0 to 1: depth of the interaction (35 %), complexity of the task "
    "(30 %), use of tools (20 %), value as an example (15 %). A run that ended in an error may score high, and one "
    "that completed may score low."
)
UNSCORED_EXPLAINED = "Nobody has judged what can be learned from the run; that is not the same as a low score."


def format_stars(score: float) -> str:
    """Return five stars of which floor(5 × score + 0.5) are full; `score` in [0,1]."""
    # Rounding first keeps 0.3 (whose product lies a hair under 1.5) on the side where arithmetic puts it.
    full = floor(round(5 * min(max(score, 0.0), 1.0) + 0.5, 9))
    return "⭐" * full + "☆" * (5 - full)


def format_execution(status: ExecutionStatus) -> str:
    """Return sign and word, such as "✅ Completed"."""
    return f"{_SIGNS[status]} {status.value.capitalize()}"


def execution_text(status: ExecutionStatus) -> str:
    """Return "Execution: ✅ Completed"."""
    return f"{EXECUTION_HEADING}: {format_execution(status)}"


def format_score(score: float | None) -> str:
    """Return the score with two decimals; 0.0 is "0.00", and an absent one is said to be so."""
    return UNSCORED_LABEL if score is None else f"{score:.2f}"


def format_learning_value(score: float | None, *, pending: bool = False) -> str:
    """Return stars and number, such as "⭐⭐⭐☆☆ (0.50)", or that there is no score."""
    if score is None:
        return UNSCORED_PENDING if pending else UNSCORED_LABEL
    return f"{format_stars(score)} ({score:.2f})"


def learning_value_text(score: float | None, *, pending: bool = False) -> str:
    """Return "Learning value: ⭐⭐⭐☆☆ (0.50)"."""
    return f"{LEARNING_VALUE_HEADING}: {format_learning_value(score, pending=pending)}"


def execution_tooltip(status: ExecutionStatus) -> str:
    """Say what the status means, and what it doesn't."""
    return f"{STATUS_EXPLAINED[status]} {EXECUTION_EXPLAINED}"


def learning_value_tooltip(score: float | None) -> str:
    """Say what the learning value means, and what its absence does."""
    return UNSCORED_EXPLAINED if score is None else LEARNING_EXPLAINED


def run_texts(run: RunData) -> tuple[str, str]:
    """Return the two labels of a run, one under the other on every surface."""
    return execution_text(run.execution.status), learning_value_text(run.outcome_score, pending=run.scoring_pending)
