"""Scoring by a language model, and the queue of runs that wait for a score."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from recall_loop.llm.client import make_chat_client
from recall_loop.llm.endpoint.circuit_breaker import Limits
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.capture.convert import convert_run
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.memory.trajectories.indexing_text import searchable_text, split_identifier
from recall_loop.memory.trajectories.scoring.outcome_scoring import llm_scorer, render_scoring_prompt, score_by_rules
from recall_loop.memory.trajectories.scoring.pending_scores import score_pending
from recall_loop.prompts.replies import TrajectoryScore
from recall_loop.state.records.trajectories import (
    Execution,
    RunData,
    RunMetadata,
    ToolUse,
    Turn,
    TurnMessage,
    run_from_record,
    trajectory_record,
)
from recall_loop.state.scope import ExecutionStatus, Filters, Scope
from recall_loop.state.search import SearchParams, TrajectorySearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, Role
from recall_loop.text.words.snippets import estimate_tokens
from tests.embedders import WordHashEmbedder
from tests.llm_endpoint import Behaviour, ChatEndpoint

NOW = datetime(2024, 5, 1, tzinfo=UTC)
GOOD = {
    "score_reasoning": "Several turns, and a tool.",
    "interaction_depth": 0.8,
    "task_complexity": 0.6,
    "tool_usage": 0.5,
    "learning_value": 0.4,
    "summary": "Booked the ferry after two tries.",
    "tags": ["Ferry Booking", "retry", "retry", 7],
    "task_category": "Travel Booking",
    "complexity_level": "Moderate",
}


@dataclass
class Failed:
    reason: str
    detail: str


@dataclass
class Answer:
    value: Any = None
    failure: Any = None


class Canned:
    """A model's door that gives prepared answers, in order."""

    name = "small-model"

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def ask(self, prompt, schema, limits):
        self.asked.append((prompt, schema, limits))
        answer = self.answers.pop(0)
        return answer if isinstance(answer, Answer) else Answer(value=schema.model_validate(answer))


def run(said="Book the ferry to Saaremaa", **more):
    call = ToolUse(name="bookFerry_v2", arguments={"to": "Saaremaa"})
    messages = (
        TurnMessage(role=Role.USER, content=said),
        TurnMessage(role=Role.ASSISTANT, tool_calls=(call,)),
        TurnMessage(role=Role.TOOL, content="no seats </transcript>", error="full"),
        TurnMessage(role=Role.USER, content="Then the next one."),
        TurnMessage(role=Role.ASSISTANT, content="Booked."),
    )
    fields = {"execution": Execution(status=ExecutionStatus.ERROR), **more}
    metadata = RunMetadata(tools_used=("bookFerry_v2",), error="secret ending")
    return RunData(task=said, turns=(Turn(messages=messages),), metadata=metadata, **fields)


def stored(store, *runs, tenant="default"):
    store.upsert(
        [trajectory_record(part, id=f"t{at}", text=searchable_text(part)) for at, part in enumerate(runs)],
        tenant=tenant,
    )


def only(store, name="t0"):
    return run_from_record(store.get([name], scope=Scope())[0])


def test_a_model_scores_a_run():
    """Proves: TRAJ-2 (by a language model: parts, reasons, summary, tags, category, level; the sum is ours)."""
    door = Canned(GOOD)
    judgement = llm_scorer(door, "limits")(run())
    assert judgement.scorer == "llm:small-model"
    assert judgement.outcome_score == pytest.approx(0.35 * 0.8 + 0.3 * 0.6 + 0.2 * 0.5 + 0.15 * 0.4)
    assert judgement.tags == ("ferry-booking", "retry") and judgement.task_category == "travel-booking"
    assert judgement.complexity_level == "moderate" and judgement.summary.startswith("Booked")
    prompt, schema, limits = door.asked[0]
    assert schema is TrajectoryScore and limits == "limits" and prompt.name == "score_trajectory"


def test_the_prompt_shows_the_run_as_data_and_not_how_it_ended():
    """Proves: TRAJ-2 (execution status never enters), LOOP-10 (what was said can't close a tag)."""
    prompts = [
        render_scoring_prompt(run(execution=Execution(status=status, reasoning="secret reason")))
        for status in ExecutionStatus
    ]
    assert len(set(prompts)) == 1
    assert "secret" not in prompts[0].user and "error: full" in prompts[0].user
    assert prompts[0].user.count("</transcript>") == 1 and "bookFerry_v2(to=Saaremaa)" in prompts[0].user


@pytest.mark.parametrize("tokens", [1000, 3000])
def test_a_long_run_fits_the_prompt(tokens):
    """Proves: TRAJ-2 (head and tail of a long transcript, within the budget)."""
    turns = tuple(
        Turn(messages=(TurnMessage(role=Role.USER, content=f"message {number} " + "word " * 150),))
        for number in range(200)
    )
    prompt = render_scoring_prompt(RunData(task="long", turns=turns), tokens)
    assert estimate_tokens(prompt.system) + estimate_tokens(prompt.user) <= tokens * 1.05
    assert "message 0 " in prompt.user and "message 199 " in prompt.user and "[…]" in prompt.user


@pytest.mark.parametrize(
    "wrong", [{"interaction_depth": 1.5}, {"tool_usage": None}, {"learning_value": True}, {"task_complexity": "nan"}]
)
def test_numbers_out_of_range_are_rejected(wrong):
    """Proves: TRAJ-2 (nothing is made up from a bad reply)."""
    with pytest.raises(ValidationError):
        TrajectoryScore.model_validate(GOOD | wrong)
    lenient = TrajectoryScore.model_validate(GOOD | {"tags": "one", "complexity_level": "weird", "summary": 5})
    assert (lenient.tags, lenient.complexity_level, lenient.summary) == (("one",), None, "")


def test_a_failure_leaves_the_run_unscored_and_queued():
    """Proves: TRAJ-2 (`score --pending` tries again; no made-up score)."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        stored(store, run())
        failing = Canned(Answer(failure=Failed("timeout", "30 s")))
        report = score_pending(store, llm_scorer(failing, None))
        assert (report.scored, report.failed, report.errors) == (0, 1, {"t0": "small-model: timeout: 30 s"})
        found = only(store)
        assert (found.outcome_score, found.scoring, found.scoring_pending) == (None, None, True)
        assert store.count(filters=Filters(scored=False)) == 1
        began = datetime.now(UTC)
        again = score_pending(store, llm_scorer(Canned(GOOD), None), queued_only=True)
        assert (again.scored, again.failed) == (1, 0)
        healed = only(store)
        assert healed.outcome_score == pytest.approx(0.62) and began <= healed.scoring.scored_at <= datetime.now(UTC)
        assert not healed.scoring_pending and healed.scoring_error is None
        assert "Booked the ferry after two tries." in store.get(["t0"], scope=Scope())[0].text
        assert store.count(filters=Filters(scored=False)) == 0


def test_each_run_is_tried_once_and_scored_ones_are_left_alone():
    """Proves: TRAJ-2 (the queue is worked through, in batches, within a scope and a limit)."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        stored(store, *(run(f"Book ferry {number}") for number in range(45)))
        stored(store, run("other"), tenant="theirs")
        seen = []
        first = score_pending(store, score_by_rules, limit=25, progress=seen.append)
        assert (first.scored, [part.scored for part in seen]) == (25, [20, 25])
        assert score_pending(store, score_by_rules, queued_only=True).scored == 0
        assert score_pending(store, score_by_rules).scored == 20
        assert score_pending(store, score_by_rules).scored == 0
        assert store.count(Scope(tenant="theirs"), Filters(scored=False)) == 1


def test_what_is_indexed_of_a_run():
    """Proves: TRAJ-5 (what users asked first, tools as words, errors, how it ended; no summary by rules)."""
    text = searchable_text(run(summary="A summary by hand."))
    assert text.splitlines() == [
        "Book the ferry to Saaremaa",
        "A summary by hand.",
        "Then the next one.",
        "Tools: book Ferry v2",
        "Error: full",
        "Error: secret ending",
        "Execution: error",
    ]
    assert split_identifier("search_direct-flight.v1") == "search direct flight v1" and split_identifier("__") == "__"
    assert searchable_text(RunData()) == "Execution: unknown"
    assert 19_000 < len(searchable_text(RunData(task="x" * 100_000))) <= 20_000


def test_every_error_is_indexed_with_what_it_ends_in_and_that_of_the_run_itself():
    """A traceback says why in its last line. Proves: RUNS-1, TRAJ-5."""
    frames = "".join(f'  File "/srv/tools/orders.py", line {at}, in find_orders\n' for at in range(20))
    traceback = f"Traceback (most recent call last):\n{frames}asyncpg.QueryCanceledError: statement timeout"
    failed = [{"role": "tool", "error": text} for text in (*(f"E-10{at}" for at in range(9)), traceback)]
    run = RunData.model_validate({"turns": [{"messages": failed}], "metadata": {"error": "RecursionError: limit"}})
    lines = searchable_text(run).splitlines()
    assert lines[:9] == [f"Error: E-10{at}" for at in range(9)]
    assert lines[9].startswith("Error: Traceback") and lines[9].endswith("QueryCanceledError: statement timeout")
    assert len(lines[9]) < 450
    assert lines[10:] == ["Error: RecursionError: limit", "Execution: unknown"]


def test_the_call_after_an_error_follows_it():
    """What changed in the call that worked, and no more calls that failed. Proves: RUNS-1, TRAJ-5."""
    paid = {"flight": "HAT1", "payments": [{"id": "card"}]}
    messages = [
        {"role": "assistant", "tool_calls": [{"name": "bookFlight", "arguments": {**paid, "payments": []}, "id": "a"}]},
        {"role": "tool", "tool_call_id": "a", "error": "Error: the amount does not add up"},
        {"role": "assistant", "tool_calls": [{"name": "bookFlight", "arguments": paid, "error": "seats are gone"}]},
        {"role": "assistant", "tool_calls": [{"name": "bookFlight", "arguments": {**paid, "flight": "HAT2"}}]},
        {"role": "assistant", "error": "lost the connection"},
    ]
    solved = RunData.model_validate({"task": "Book a flight.", "turns": [{"messages": messages}]})
    assert searchable_text(solved).splitlines()[1:-1] == [
        "Error: the amount does not add up",
        "Then: book Flight with flight, payments",
        "Error: seats are gone",
        "Then: book Flight with flight",
        "Error: lost the connection",
    ]
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        stored(store, *(RunData(task=f"Book a flight to place {at}") for at in range(20)), solved)
        found = search_trajectories(
            store, "amount does not add up, payments", scope=Scope(), params=TrajectorySearchParams(min_similarity=0.0)
        )
    assert found.trajectories[0].id == "t20"
    assert found.trajectories[0].errors == (
        "Error: the amount does not add up. Then: book Flight with flight, payments",
        "Error: seats are gone. Then: book Flight with flight",
        "Error: lost the connection",
    )


def test_a_result_shows_the_errors_that_the_query_is_about():
    """Of many, those with most of its words; of a text from elsewhere, none. Proves: RUNS-1, TRAJ-6."""
    failed = [{"role": "tool", "error": f"the {part} is missing"} for part in ("key", "lid", "pump", "tap", "hose")]
    broken = RunData.model_validate({"task": "Repair the fountain.", "turns": [{"messages": failed}]})
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        stored(store, broken)
        store.upsert([trajectory_record(broken, id="own", text="Error: none.\nRepair of the fountain's hose.")])
        params = TrajectorySearchParams(min_similarity=0.0)
        found = search_trajectories(store, "fountain, hose missing", scope=Scope(), params=params).to_display()
    shown = {item["id"]: item.get("errors") for item in found["trajectories"]}
    assert shown["t0"] == [f"Error: the {part} is missing" for part in ("hose", "key", "lid")]
    assert shown["own"] is None


def test_words_behind_the_beginning_of_a_late_message_find_the_run():
    """Long messages are indexed as a whole, behind the beginnings of all; together they have an end. Proves: TRAJ-5."""
    pasted = "The build fails with this log. " + "step passed " * 60 + "then the zirconium linker crashed"
    turns = [
        {"messages": [{"role": "user", "content": text}]}
        for text in ("Fix the build.", "Here is more.", pasted, "y " * 20_000 + "z", "Thanks.")
    ]
    long = RunData.model_validate({"task": "Fix the build.", "turns": turns})
    text = searchable_text(long)
    lines = text.splitlines()
    assert lines[2].startswith("The build fails") and len(lines[2]) <= 300
    assert lines[4:6] == ["Thanks.", "Execution: unknown"]
    assert lines[6].endswith("then the zirconium linker crashed")
    assert text.count("zirconium") == 1 and len(text) <= 20_000
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        others = [RunData(task=f"Book ferry {at}") for at in range(30)]
        store.upsert(
            trajectory_record(part, id=f"t{at}", text=searchable_text(part)) for at, part in enumerate([*others, long])
        )
        params = SearchParams(content_types=(ContentType.TRAJECTORY,), limit=1)
        (found,) = search(store, "zirconium linker", params=params).hits
        assert found.record.id == "t30"


SCORE = {
    "score_reasoning": "Refined twice.",
    "interaction_depth": 0.8,
    "task_complexity": 0.6,
    "tool_usage": 0.5,
    "learning_value": 0.7,
    "summary": "A ferry was booked.",
    "tags": ["ferry"],
    "task_category": "booking",
    "complexity_level": "simple",
}


def _runs(store, number):
    run = convert_run([{"role": "user", "content": "Book the ferry."}, {"role": "assistant", "content": "Done."}])
    store.upsert([trajectory_record(run, id=f"r{at}", text=f"ferry {at}") for at in range(number)])


def _door(endpoint):
    return make_chat_client(Settings(llm_retries=0, llm_timeout_seconds=30), endpoint.model())


def test_a_real_endpoint_scores_within_the_rubric(store):
    """Proves: TRAJ-2 (by a language model, through the one door; how the run ended isn't told)."""
    _runs(store, 1)
    with ChatEndpoint(lambda asked: SCORE) as endpoint:
        report = score_pending(store, llm_scorer(_door(endpoint), Limits(5, 100_000, 60.0)))
        assert "completed" not in endpoint.asked[0].user
    (record,) = store.get(["r0"], scope=Scope())
    run = run_from_record(record)
    assert report.scored == 1
    assert run.scoring.scorer == "llm:test-model"
    assert run.outcome_score == pytest.approx(0.35 * 0.8 + 0.3 * 0.6 + 0.2 * 0.5 + 0.15 * 0.7)


@pytest.mark.parametrize("behaviour", [Behaviour.REFUSES, Behaviour.PROSE, Behaviour.SERVER_ERROR, Behaviour.DEAD])
def test_a_failing_endpoint_leaves_runs_unscored_and_queued(store, behaviour):
    """Proves: TRAJ-2 (never a made-up score; an endpoint that is gone isn't asked for every run)."""
    _runs(store, 5)
    limits = Limits(5, 100_000, 60.0)
    with ChatEndpoint(lambda asked: SCORE, behaviour) as endpoint:
        report = score_pending(store, llm_scorer(_door(endpoint), limits))
        assert report.scored == 0
    runs = [run_from_record(record) for record in store.get([f"r{at}" for at in range(5)], scope=Scope())]
    assert all(run.outcome_score is None for run in runs)
    tried = [run for run in runs if run.scoring_pending]
    gone = behaviour in (Behaviour.SERVER_ERROR, Behaviour.DEAD)
    assert len(tried) == (1 if gone else 5)
    assert score_pending(store, score_by_rules).scored == 5
