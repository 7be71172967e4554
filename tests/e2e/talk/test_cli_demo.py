"""`recall-loop demo`: the bundled memory is sound, and its questions find their answers."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from importlib.resources import files
from io import StringIO
from pathlib import Path

import pytest

from recall_loop.cli.main import main
from recall_loop.memory.intake.files.entries import read_records
from recall_loop.state.records.records import Record
from recall_loop.state.result import RetrieveResult

FOLDER = Path(str(files("recall_loop.cli")))
# Which records answer each bundled question.
ANSWERS = {
    "demo-1": {"s05-06"},
    "demo-2": {"s06-03"},
    "demo-3": {"a01"},
    "demo-4": {"s09-05", "a06"},
    "demo-5": {"t07", "t08"},
}


def questions() -> list[dict[str, object]]:
    lines = (FOLDER / "demo_questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_bundled_memory_is_sound() -> None:
    """Proves: STORE-1."""
    records = [outcome for _, outcome in read_records(FOLDER / "demo_records.jsonl")]
    assert all(isinstance(record, Record) for record in records)
    good = [record for record in records if isinstance(record, Record)]
    ids = {record.id for record in good}
    assert len(ids) == len(good) >= 140
    assert {record.kind for record in good} == {"fact", "archival", "message", "trajectory"}
    assert {source for record in good for source in record.source_ids} <= ids
    assert set.union(*ANSWERS.values()) <= ids
    assert all(record.created_at for record in good)


@pytest.fixture(scope="module")
def shown() -> str:
    """What the command shows."""
    with redirect_stdout(StringIO()) as output:
        assert main(["demo"]) == 0
    return output.getvalue()


def test_each_iteration_and_the_end_are_shown(shown: str) -> None:
    """Proves: LOOP-1, STOP-2, CONF-2."""
    for question in questions()[:4]:
        assert str(question["about"]) in shown
    assert shown.count("Iteration 1") == shown.count("Stopped after") == shown.count("Confidence") == 4
    assert "a question that memory can't answer" not in shown


def test_a_week_later_a_repeat_is_no_answer_and_newer_facts_come_first(shown: str) -> None:
    """Proves: LIVE-2, LIVE-4."""
    scenes = shown.partition("A week later")[2].split("you: ")[1:]
    never, again, told, corrected, asked = scenes
    for scene in (never, again):
        assert scene.split("\n")[1].startswith("low: ") and "memory: Nothing in memory about that." in scene
    assert "1. What is the name of Priya's dog?" not in again  # its echo comes behind whatever was said
    assert "memory: Noted." in told and "memory: Noted." in corrected
    newer, older = asked.find("1. The spare key of the cottage is no longer"), asked.find("2. The spare key")
    assert 0 < newer < older < asked.find("seems to be corrected by")
    assert asked.split("\n")[1].startswith(("high: ", "medium: "))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RetrieveResult]:
    """Every bundled question, asked of the demo's own store."""
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--question", "Who sells us bread?", "--keep", str(folder / "kept")]) == 0
    requests, output = folder / "requests.jsonl", folder / "results.jsonl"
    fields = [{key: value for key, value in q.items() if key not in ("about", "note")} for q in questions()]
    lines = [json.dumps(request | {"tenant": "demo", "max_facts": 10}) for request in fields]
    requests.write_text("\n".join(lines), encoding="utf-8")
    assert main(["batch", str(requests), "-o", str(output), "--store", str(folder / "kept")]) == 0
    found = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    return {line["id"]: RetrieveResult.model_validate(line["result"]) for line in found}


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_a_question_finds_all_of_its_answer(name: str, results: dict[str, RetrieveResult]) -> None:
    """Proves: QUERY-1, QUERY-4, RANK-1."""
    facts = results[name].facts
    known = {fact.id for fact in facts} | {source.source_id for fact in facts for source in fact.evidence}
    assert known >= ANSWERS[name]


def test_missing_answers_get_low_confidence(results: dict[str, RetrieveResult]) -> None:
    """Proves: CONF-3."""
    assert results["demo-6"].confidence.label == "low"


def test_a_folder_that_exists_is_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--keep", str(tmp_path)]) == 2
    assert "--keep" in capsys.readouterr().err
