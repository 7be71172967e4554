"""Counting repeated queries from progress events."""

from __future__ import annotations

from typing import Any

from recall_loop.evals.runs.loop_policy import CallLog
from recall_loop.state.run.events import CallCompleted, NoveltyMeasured, QueriesPlanned


def planned(*queries: str, tool: str = "search_all") -> QueriesPlanned:
    listed: list[dict[str, Any]] = [{"text": query} for query in queries]
    return {
        "type": "queries_planned",
        "iteration": 1,
        "strategy": "direct",
        "origin": "plan",
        "tool": tool,
        "queries": listed,
        "dropped_repeats": 0,
        "repeats": [],
    }


def done(results: int = 3, error: str | None = None) -> CallCompleted:
    return {
        "type": "call_done",
        "iteration": 1,
        "tool": "search_all",
        "result_count": results,
        "attempts": 1,
        "duration_ms": 1.0,
        "error": error,
    }


def repeats(*events: QueriesPlanned | CallCompleted) -> tuple[int, int]:
    log = CallLog(similarity=0.9)
    for event in events:
        log.note(event)
    return log.executed, log.repeats()


def test_word_forms_order_and_case_are_repeats() -> None:
    """Proves: OPS-4, LOOP-4."""
    assert repeats(planned("garden shed roof"), done(), planned("Roofs of the garden sheds!"), done()) == (
        2,
        1,
    )


def test_new_words_are_not_a_repeat() -> None:
    """Proves: OPS-4, LOOP-4."""
    assert repeats(planned("garden shed roof"), done(), planned("garden shed colour"), done()) == (2, 0)


def test_repeats_within_one_call_count() -> None:
    """Proves: OPS-4, LOOP-4."""
    assert repeats(planned("blue boat", "boat blue"), done()) == (2, 1)


def test_failed_and_empty_queries_may_be_asked_again() -> None:
    """Proves: OPS-4, LOOP-4, STOP-6."""
    assert repeats(planned("blue boat"), done(error="gone"), planned("blue boat"), done()) == (2, 0)
    assert repeats(planned("blue boat"), done(results=0), planned("blue boat"), done()) == (2, 0)


def test_another_tool_is_another_question() -> None:
    """Proves: OPS-4, LOOP-4."""
    assert repeats(planned("blue boat"), done(), planned("blue boat", tool="search_facts"), done()) == (2, 0)


def test_other_events_change_nothing() -> None:
    """Proves: OPS-4."""
    log = CallLog(similarity=0.9)
    novelty: NoveltyMeasured = {
        "type": "novelty",
        "iteration": 1,
        "new_facts": 1,
        "unique_facts": 1,
        "coverage": 0.5,
        "coverage_gain": 0.5,
        "uncovered": [],
        "yields": [],
        "route": "stop",
    }
    log.note(novelty)
    log.note(done())
    assert (log.executed, log.repeats()) == (0, 0)
