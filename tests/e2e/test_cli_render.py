"""What people read: safe text, facts with provenance, confidence, stop reasons in words."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from recall_loop.cli.core.run_rendering import RunScreen
from recall_loop.cli.core.screen import Screen, make_console, sanitize, sanitize_json, shorten
from recall_loop.state.display import CONFIDENCE_TEXTS, CONTENT_TYPE_TEXTS, STOP_REASON_TEXTS, format_count
from recall_loop.state.result import RetrieveResult
from recall_loop.state.types import ConfidenceLabel, ContentType, StopReason

HOSTILE = "[red]x[/red] \x1b[31mred\x1b]0;title\x07 \x9b2J \u202eright \u2028 line\r\nnext [link=x]y"


DEBUG = {
    "components": {"relevance": 0.5, "novelty": 0.0},
    "matches": [{"query": "[b]q", "source": "phrase", "iteration": 2, "score": 0.5, "similarity": 0.5}],
}


def result(**more: Any) -> RetrieveResult:
    evidence = [{"source_id": f"m{n}", "snippet": f"said {n}", "author": "Ada"} for n in range(5)]
    fact = {"id": "f1", "content_type": "fact", "text": HOSTILE, "similarity": 0.5, "score": 0.75}
    fields: dict[str, Any] = {
        "request_id": "r",
        "reference_time": "2024-05-01T00:00:00Z",
        "facts": [fact | {"evidence": evidence, "label": "[b]L", "debug": DEBUG}] * 7,
        "context": "",
        "answer": None,
        "confidence": {
            "label": "medium",
            "score": 0.61,
            "answerable": 0.84,
            "raw_score": 0.7,
            "components": {"relevance": 0.5, "execution_reliability": 1.0},
            "calibration_id": "none",
        },
        "stop": {"reason": "covered", "iteration": 2, "detail": {}},
        "metadata": {},
        "degraded": False,
    }
    return RetrieveResult.model_validate(fields | more)


def shown(told: RetrieveResult | None = None, *, terminal: bool = False, **options: Any) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=60, soft_wrap=not terminal, markup=False, emoji=False)
    RunScreen(console).result(told or result(), **options)
    return out.getvalue()


@given(st.text())
def test_safe_text_is_one_printable_line(text: str) -> None:
    clean = sanitize(text)
    clean.encode()
    assert len(clean.splitlines()) <= 1
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in clean)


def test_sanitized_text_shows_escapes() -> None:
    assert sanitize("a\x1b[2Jb\x7f\x9b\u202e\ud800\n\tc") == "a␛[2Jb␡\\u009b\\u202e\\ud800  c"
    assert sanitize("Grüße 👩‍🚀 日本") == "Grüße 👩‍🚀 日本"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_safe_json_reads_back_as_the_same_value(text: str) -> None:
    made = sanitize_json(json.dumps([text], ensure_ascii=False))
    assert json.loads(made) == [text]
    assert not any(0x7F <= ord(char) < 0xA0 for char in made)


@given(st.text(max_size=80), st.integers(2, 40))
def test_shortened_text_keeps_the_limit(text: str, limit: int) -> None:
    made = shorten(text, limit)
    assert len(made) <= limit
    assert made == text or made.endswith("…")


def test_a_result_is_shown_in_words() -> None:
    """Proves: STOP-2, CONF-2, RANK-2."""
    text = shown(top=5)
    assert f"Stopped after 2 iterations: {STOP_REASON_TEXTS[StopReason.COVERED]} (covered)." in text
    assert "Best 5 of 7 facts" in text
    assert "fact f1 · score 0.75 · similarity 0.50" in text
    assert "from m0 · Ada: said 0" in text
    assert "and 2 more sources" in text
    assert "Confidence 0.61, medium" in text
    assert "chance that memory holds an answer at all 0.84" in text
    assert "execution reliability ████████████████████ 1.00" in text
    assert "found by" not in text
    debugged = shown(debug=True)
    assert "    relevance ██████████░░░░░░░░░░ 0.50\n" in debugged
    assert 'found by "[b]q" (phrase, iteration 2)' in debugged
    assert "novelty" not in debugged


def test_a_fact_that_was_corrected_says_so() -> None:
    """Proves: LIVE-4."""
    told = result()
    hinted = {"superseded_by_hint": "m7", "superseded_reason": "the same speaker said later that it changed"}
    facts = (told.facts[0].model_copy(update=update) for update in ({}, hinted, {"superseded_by": "f9"}))
    text = shown(told.model_copy(update={"facts": tuple(facts)}))
    assert text.count("older, see") == 2
    assert "\n    older, see m7: the same speaker said later that it changed\n" in text
    assert "\n    older, see f9\n" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_text_from_memory_stays_text(terminal: bool) -> None:
    text = shown(terminal=terminal)
    assert "[red]x[/red]" in text
    assert "[b]L" in text
    assert "\x1b[31mred" not in text
    assert not {"\x07", "\x9b", "\u202e", "\u2028"} & set(text)
    assert ("\x1b[" in text) is terminal


def test_a_pipe_gets_plain_unwrapped_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    Screen(make_console()).line("a long line that no terminal of twenty columns could hold", "bold red", 2)
    assert capsys.readouterr().out == "  a long line that no terminal of twenty columns could hold\n"


def test_a_mapping_without_answerability_shows_none() -> None:
    """Proves: CONF-4."""
    plain = result().confidence.model_copy(update={"answerable": None})
    out = io.StringIO()
    RunScreen(Console(file=out, soft_wrap=True, markup=False)).confidence(plain)
    assert "holds an answer" not in out.getvalue()


def test_an_empty_result_says_so() -> None:
    """Proves: CONF-3."""
    out = io.StringIO()
    empty = result(facts=[], stop={"reason": "nothing_in_scope", "iteration": 0, "detail": {}})
    RunScreen(Console(file=out, soft_wrap=True)).result(empty)
    assert "Nothing found" in out.getvalue()
    assert "no records" in out.getvalue()


def test_warnings_and_an_answer_are_shown() -> None:
    """Proves: LOOP-10, SEARCH-9."""
    out = io.StringIO()
    told = result(answer="It is so [f1].", degraded=True, warnings=["the index is missing"])
    RunScreen(Console(file=out, soft_wrap=True, markup=False)).result(told)
    assert "warning: the index is missing" in out.getvalue()
    assert "It is so [f1]." in out.getvalue()


def test_events_are_printed_as_they_arrive() -> None:
    """Proves: LOOP-7, QUERY-2."""
    out = io.StringIO()
    screen = RunScreen(Console(file=out, soft_wrap=True, markup=False))
    query = {"text": "blue boat", "source": "entity", "rank": 0, "weight": 1.0, "seed": None}
    planned: dict[str, Any] = {"type": "queries_planned", "iteration": 1, "strategy": "direct"}
    screen.event(planned | {"origin": "refine", "tool": "search_all", "queries": [query], "dropped_repeats": 2})
    called: dict[str, Any] = {"type": "call_done", "iteration": 1, "tool": "search_all", "attempts": 3}
    screen.event(called | {"result_count": 0, "duration_ms": 1.0, "error": "gone"})
    screen.event(called | {"result_count": 1, "duration_ms": 12.4, "error": None})
    novelty: dict[str, Any] = {"type": "novelty", "iteration": 1, "new_facts": 1, "unique_facts": 4}
    screen.event(novelty | {"coverage": 0.5, "coverage_gain": 0.25, "uncovered": ["berth"], "route": "continue"})
    screen.event({"type": "something new"})
    text = out.getvalue()
    assert "Iteration 1: direct with search_all (refined)" in text
    assert "entity       blue boat" in text
    assert "2 repeats dropped" in text
    assert "search failed after 3 attempts: gone" in text
    assert "1 result in 12 ms" in text
    assert "1 new fact (4 in all)\n   coverage ██████████░░░░░░░░░░ 0.50\n   still open: berth" in text


def test_a_narrowed_query_says_to_what() -> None:
    """Proves: LOOP-7, QUERY-2 (who reads along sees why it found so little)."""
    out = io.StringIO()
    screen = RunScreen(Console(file=out, soft_wrap=True, markup=False))
    filters = {"start_time": "2023-05-07T00:00:00+00:00", "end_time": "2023-05-09T00:00:00+00:00", "role": "user"}
    narrowed = [{"tool": None, "filters": filters}, {"tool": "search_facts", "filters": {}}, None]
    queries = [{"text": f"boat {n}", "source": "temporal", "narrowed": each} for n, each in enumerate(narrowed)]
    planned = {"type": "queries_planned", "iteration": 1, "strategy": "direct", "tool": "search_all"}
    screen.event(planned | {"queries": queries})
    screen.event({"type": "stopped"})
    screen.event(planned)
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert "temporal     boat 0 (from 2023-05-07, before 2023-05-09, role user)" in lines
    assert "temporal     boat 1 (search_facts)" in lines
    assert "temporal     boat 2" in lines


@pytest.mark.parametrize("width", [100, 40])
def test_yields_and_repeats_on_a_terminal(width: int) -> None:
    """Proves: LOOP-7, LOOP-4 (what each query brought; repeats are struck out, and said to be repeats)."""
    out = io.StringIO()
    screen = RunScreen(Console(file=out, force_terminal=True, color_system="standard", width=width, markup=False))
    queries = [{"text": f"[b]boat {n} \x1b[2J of the harbour master", "source": "entity"} for n in (1, 2)]
    planned = {"type": "queries_planned", "iteration": 1, "strategy": "direct", "tool": "search_all"}
    screen.event(planned | {"queries": queries, "dropped_repeats": 1, "repeats": ["old [b]boat"]})
    yields = [{"query": query["text"], "results": 7, "new_facts": n} for n, query in enumerate(queries)]
    screen.event({"type": "novelty", "new_facts": 1, "unique_facts": 4, "coverage": 0.5, "yields": yields})
    screen.result(result(), debug=True, terms=frozenset({"said", "red"}))
    coloured = out.getvalue()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= width
    lines = [" ".join(line.split()) for line in plain.splitlines()]
    assert any(line.startswith("7 found 1 new") and "[b]boat 2" in line for line in lines)
    assert any(line.startswith("repeat, not asked: old [b]boat") for line in lines)
    assert re.search(r"\x1b\[[0-9;]*9m[^\x1b]*old \[b\]boat", coloured)
    assert re.search(r"\x1b\[1;4mred", coloured)


def test_every_member_has_its_words() -> None:
    """Proves: STOP-2."""
    assert set(STOP_REASON_TEXTS) == set(StopReason)
    assert set(CONTENT_TYPE_TEXTS) == set(ContentType)
    assert set(CONFIDENCE_TEXTS) == set(ConfidenceLabel)
    assert (format_count(1, "record"), format_count(2000, "record")) == ("1 record", "2,000 records")
