"""The scorer by rules: its bands, and that more of anything never lowers a sub-score."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.memory.trajectories.indexing_text import searchable_text
from recall_loop.memory.trajectories.scoring.outcome_scoring import (
    ScoringFailure,
    apply_outcome,
    record_with_outcome,
    score_by_rules,
)
from recall_loop.memory.trajectories.scoring.rubric import (
    RUBRIC_SCORER,
    SUB_SCORE_WEIGHTS,
    RunCounts,
    complexity_level_for,
    count_run,
    overall_score,
    score_band,
    sub_scores,
)
from recall_loop.state.records.trajectories import (
    Execution,
    RunData,
    SubScores,
    ToolUse,
    Turn,
    TurnMessage,
    run_from_record,
    trajectory_record,
)
from recall_loop.state.scope import ExecutionStatus
from recall_loop.state.search import FAILURE_THRESHOLD, SUCCESS_THRESHOLD
from recall_loop.state.types import ComplexityLevel, Role

NOW = datetime(2024, 5, 1, tzinfo=UTC)
WORDS = ["ferry", "north", "granary", "ticket", "refund", "blue", "seven"]
NUMBERS = st.integers(0, 60)
COUNTS = st.builds(
    RunCounts,
    answered=st.just(True),
    replied=st.booleans(),
    user_turns=st.integers(1, 60),
    refinements=NUMBERS,
    words=st.integers(0, 600),
    tools=NUMBERS,
    calls=NUMBERS,
    steps=NUMBERS,
    corrections=NUMBERS,
)
PARTS = ("interaction_depth", "task_complexity", "tool_usage", "learning_value")


def message(role, content="", **more):
    return TurnMessage(role=role, content=content, **more)


MESSAGES = st.lists(
    st.one_of(
        st.lists(st.sampled_from(WORDS), max_size=4).map(lambda words: message(Role.USER, " ".join(words))),
        st.sampled_from(WORDS).map(lambda word: message(Role.ASSISTANT, word)),
        st.tuples(st.sampled_from(["look", "book"]), st.integers(0, 3)).map(
            lambda call: message(Role.ASSISTANT, tool_calls=(ToolUse(name=call[0], arguments={"n": call[1]}),))
        ),
        st.sampled_from([None, "timeout"]).map(lambda error: message(Role.TOOL, "result", error=error)),
    ),
    max_size=12,
)


def run(messages, status=ExecutionStatus.COMPLETED, **more):
    turn = Turn(messages=tuple(messages))
    task = next((part.content for part in messages if part.role is Role.USER), "")
    return RunData(task=task, execution=Execution(status=status), turns=(turn,), **more)


@given(
    counts=COUNTS,
    name=st.sampled_from(["refinements", "words", "tools", "calls", "steps", "corrections"]),
    more=NUMBERS,
)
def test_more_of_anything_never_lowers_a_sub_score(counts, name, more):
    """Proves: TRAJ-2 (monotone rules)."""
    before = sub_scores(counts)
    # A further tool is also a further call.
    grown = {name: getattr(counts, name) + more} | ({"calls": counts.calls + more} if name == "tools" else {})
    after = sub_scores(replace(counts, **grown))
    assert all(getattr(after, part) >= getattr(before, part) for part in PARTS)
    assert 0.0 <= overall_score(before) <= overall_score(after) <= 1.0


@given(messages=MESSAGES, further=MESSAGES)
def test_going_on_never_lowers_a_sub_score(messages, further):
    """Proves: TRAJ-2 (more turns, more tools, more corrections: on whole runs)."""
    before, after = (sub_scores(count_run(run(part))) for part in (messages, messages + further))
    assert all(getattr(after, part) >= getattr(before, part) for part in PARTS)


@given(messages=MESSAGES, status=st.sampled_from(ExecutionStatus))
def test_the_execution_status_never_enters(messages, status):
    """Proves: TRAJ-2 (status is no part of the score)."""
    assert score_by_rules(run(messages, status)) == score_by_rules(run(messages))


@given(question=st.lists(st.integers(0, 9**9).map(str), min_size=1, max_size=400), answer=st.text(max_size=50))
def test_a_single_exchange_without_tools_is_at_most_mediocre(question, answer):
    """Proves: TRAJ-2 (a trivial single turn <= 0.5, however long the question)."""
    alone = run([message(Role.USER, " ".join(question)), message(Role.ASSISTANT, answer)])
    assert score_by_rules(alone).outcome_score <= 0.5


def test_the_bands_of_the_rubric():
    """Proves: TRAJ-2 (the examples of the rubric land in their bands)."""
    trivial = run([message(Role.USER, "What is the capital of France?"), message(Role.ASSISTANT, "Paris.")])
    assert score_band(score_by_rules(trivial).outcome_score) == "poor"
    assert score_by_rules(RunData(task="nothing happened")).outcome_score < 0.2
    deep = score_by_rules(run(debugging(), ExecutionStatus.ERROR))
    assert deep.outcome_score >= 0.8
    assert deep.complexity_level in (ComplexityLevel.COMPLEX, ComplexityLevel.EXPERT)
    assert "corrected-errors" in deep.tags


ESSAY = " ".join(f"{word}{number}" for number in range(60) for word in ("heath", "light", "crane"))
SESSION = [
    ("Find flights to Oslo in May", "search_flights"),
    ("Only those that leave in the morning", "search_flights"),
    ("What would a hotel near the harbour cost?", "search_hotels"),
    ("Compare both weeks please", "search_hotels"),
    ("Book the second week with breakfast", "book"),
    ("Add a bicycle for two days", "book"),
]


def exchange(asked, answer):
    return [message(Role.USER, asked), message(Role.ASSISTANT, answer)]


def session():
    """Return six turns, each with a call of one of three tools and an answer."""
    said = []
    for number, (asked, tool) in enumerate(SESSION):
        call = ToolUse(name=tool, arguments={"number": number})
        said += [message(Role.USER, asked), message(Role.ASSISTANT, tool_calls=(call,)), message(Role.TOOL, "done")]
        said.append(message(Role.ASSISTANT, f"Here is option {number}, which leaves at nine."))
    return said


@pytest.mark.parametrize(
    ("messages", "least", "most"),
    [
        (exchange("What is the capital of France?", "Paris."), 0.38, 0.42),
        (exchange("Who wrote Faust?", "Johann Wolfgang von Goethe wrote Faust."), 0.38, 0.42),
        (exchange("Write an essay about the heath in autumn, with its light and its birds.", ESSAY), 0.45, 0.5),
        ([message(Role.ASSISTANT, ESSAY)], 0.45, 0.5),
        ([message(Role.USER, "Is anybody there?")], 0.1, 0.3),
        (session(), 0.85, 0.95),
        (session()[:8], 0.5, 0.7),
    ],
    ids=["fact", "fact in a sentence", "essay", "essay without a request", "no answer", "six turns", "two turns"],
)
def test_runs_land_where_the_rubric_says(messages, least, most):
    """Proves: TRAJ-2 (single turns 0.4 to 0.5, multi-turn work with tools 0.8 to 0.9, no interaction 0.1 to 0.3)."""
    assert least <= score_by_rules(run(messages)).outcome_score <= most


def test_a_plain_answer_is_not_a_failure():
    """Proves: TRAJ-2, TRAJ-5 (an ordinary single turn lies between the tiers of contrasts)."""
    for messages in (exchange("Who wrote Faust?", "Goethe."), exchange("Write about the heath", ESSAY)):
        value = score_by_rules(run(messages)).outcome_score
        assert FAILURE_THRESHOLD < value < SUCCESS_THRESHOLD


def debugging():
    """Return a long session with several tools and errors that were worked around, which ends in an error."""
    said = []
    for number in range(16):
        said.append(message(Role.USER, f"now try part{number} with setting{number} and look at trace{number} again"))
        call = ToolUse(name=f"tool{number % 5}", arguments={"part": number})
        said.append(message(Role.ASSISTANT, f"step {number}", tool_calls=(call,)))
        said.append(message(Role.TOOL, "failed", error="timeout" if number % 2 else None))
    return said


def test_weights_and_levels():
    """Proves: TRAJ-2 (35, 30, 20 and 15 %)."""
    assert list(SUB_SCORE_WEIGHTS.values()) == [0.35, 0.30, 0.20, 0.15]
    parts = SubScores(interaction_depth=1, task_complexity=0.5, tool_usage=0.25, learning_value=0)
    assert overall_score(parts) == pytest.approx(0.35 + 0.15 + 0.05)
    assert [complexity_level_for(value) for value in (0.2, 0.4, 0.6, 0.75, 0.9)] == list(ComplexityLevel)
    assert [score_band(value) for value in (0.95, 0.7, 0.5, 0.3, 0.0)][-1] == "hardly anything to learn"


def test_a_judgement_gets_into_the_run_and_its_record():
    """Proves: TRAJ-2 (which scorer, sub-scores, reasons, summary, tags, category and level are kept)."""
    whole = run(debugging())
    record = trajectory_record(whole, id="r1", text=searchable_text(whole), tags=("mine",), agent_id="a1")
    scored = record_with_outcome(record, score_by_rules(whole), NOW)
    found = run_from_record(scored)
    assert found.scoring is not None and found.scoring.scorer == RUBRIC_SCORER and found.scoring.scored_at == NOW
    assert found.outcome_score == overall_score(found.scoring.sub_scores)
    assert found.scoring.reasoning.startswith("Learning value 0.")
    assert found.summary and found.task_category == "assisted-task" and not found.scoring_pending
    assert scored.tags[0] == "mine" and "assisted-task" in scored.tags and scored.agent_id == "a1"
    assert scored.text == searchable_text(found)
    own = trajectory_record(whole, id="r2", text="written by hand")
    assert record_with_outcome(own, score_by_rules(whole), NOW).text == "written by hand"


def test_a_failed_scoring_makes_no_score_up():
    """Proves: TRAJ-2 (unscored and queued; a score that is there already stays)."""
    failed = apply_outcome(run(debugging()), ScoringFailure("model: timeout: 30 s"), NOW)
    assert (failed.outcome_score, failed.scoring_pending, failed.scoring_error) == (None, True, "model: timeout: 30 s")
    before = apply_outcome(run(debugging()), score_by_rules(run(debugging())), NOW)
    again = apply_outcome(before, ScoringFailure("model: timeout: 30 s"), NOW)
    assert again.outcome_score == before.outcome_score and not again.scoring_pending
    healed = apply_outcome(failed, score_by_rules(failed), NOW)
    assert healed.scoring_error is None and not healed.scoring_pending
