"""Text for people: stop reasons, content types and confidence in plain words; counts; truncation."""

from __future__ import annotations

from recall_loop.state.types import ConfidenceLabel, ContentType, StopReason

STOP_REASON_TEXTS: dict[StopReason, str] = {
    StopReason.TOOL_FAILURE: "the memory could not be searched; every retry failed",
    StopReason.NOTHING_IN_SCOPE: "this scope holds no records at all",
    StopReason.COVERED: "every part of the question is supported by what was found",
    StopReason.EXHAUSTED: "no new query is left to ask",
    StopReason.LLM_CONFIDENT: "the language model is confident, and the figures agree",
    StopReason.ENOUGH_FACTS: "as many new facts as were asked for were found",
    StopReason.NO_NOVELTY: "the last searches found nothing new",
    StopReason.DEADLINE: "the time limit of the request was reached",
    StopReason.ITERATION_LIMIT: "the maximum number of iterations was reached",
    StopReason.STEP_LIMIT: "the caller's limit on graph steps was reached",
}

CONTENT_TYPE_TEXTS: dict[ContentType, str] = {
    ContentType.FACT: "fact",
    ContentType.ARCHIVAL: "note",
    ContentType.MESSAGE: "message",
    ContentType.TRAJECTORY: "past run",
}

CONFIDENCE_TEXTS: dict[ConfidenceLabel, str] = {
    ConfidenceLabel.LOW: "low: this may not be in memory",
    ConfidenceLabel.MEDIUM: "medium: likely, check the sources",
    ConfidenceLabel.HIGH: "high: well supported",
}

# Replaces "nothing was found": after a failed search, the contents of memory are unknown (STOP-6).
NOT_SEARCHED_TEXT = "The memory could not be searched: whether it holds anything about this is unknown."

ANSWERABLE_TEXT = "chance that memory holds an answer at all"


def format_count(number: int, noun: str) -> str:
    """Return "1 record", "2 records"; thousands with a comma."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def truncate(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text`, ending in an ellipsis if it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
